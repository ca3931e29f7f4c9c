//! Coins: wallets and their entries, the daily coins, and the audit of a wallet.

mod audit;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};

pub use self::audit::{Fault, audit};
use super::time::midnight_after;
use super::{Field, Raw, Reason, UserId};

/// The coins of one deduction or grant: 1 to 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount(u32);

impl Amount {
    pub const MAX: u32 = 1_000_000;

    pub fn new(coins: i64) -> Result<Self, Reason> {
        match u32::try_from(coins) {
            Ok(coins) if (1..=Self::MAX).contains(&coins) => Ok(Self(coins)),
            _ => Err("The amount must be 1 to 1,000,000 coins.".into()),
        }
    }

    #[must_use]
    pub fn coins(self) -> u32 {
        self.0
    }
}

impl Field for Amount {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::new(raw.integer()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "integer", "minimum": 1, "maximum": Self::MAX, "description": "How many coins.",
        })
    }
}

/// The caller's idempotency key for a coin movement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReferenceId(String);

impl ReferenceId {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        if text.is_empty() {
            return Err("Use at least one character for a reference.".into());
        }
        if text.chars().count() > 64 {
            return Err("Use at most 64 characters for a reference.".into());
        }
        if text.chars().any(char::is_control) {
            return Err("Remove the control characters from the reference.".into());
        }
        // A reference id is kept unchanged: not trimmed, not lower-cased.
        Ok(Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for ReferenceId {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        let printable = super::text::schema::PRINTABLE;
        serde_json::json!({
            "type": "string", "pattern": format!("^{printable}{{1,64}}$"), "examples": ["order-1"],
            "description": "The caller's idempotency key: a retry with the same key moves no more coins.",
        })
    }
}

#[cfg(feature = "openapi")]
super::field::response_schema!(ReferenceId, { "type": "string" });

/// What identifies a movement of coins in a wallet. A second movement with the same key is a duplicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKey {
    /// The `reference_id` of a deduction.
    Reference(ReferenceId),
    /// The header `Idempotency-Key` of a deduction without a `reference_id`.
    Header(ReferenceId),
    /// A key that the service generated for a deduction with neither `reference_id` nor header.
    Generated(String),
    /// The day for which daily coins were claimed.
    Day(NaiveDate),
    /// The reference id of an operator's grant.
    Grant(ReferenceId),
}

/// The kind of a movement of coins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    Deduct,
    Daily,
    Grant,
}

/// A movement of coins in the history of a wallet. Entries never change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub transaction_id: String,
    pub user_id: UserId,
    /// The number of the entry in its wallet, from 1, without gaps.
    pub sequence: u64,
    pub kind: EntryKind,
    /// The change of the balance, in coins; negative for a deduction.
    pub amount: i64,
    /// The balance before the movement, in coins.
    pub previous_balance: i64,
    /// The balance after the movement, in coins.
    pub balance: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_id: Option<ReferenceId>,
    /// Only for daily coins: the length of the streak, in days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streak_days: Option<u32>,
    /// Only for daily coins: the part of the amount that the streak adds, in coins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streak_bonus: Option<u32>,
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub created_at: DateTime<Utc>,
    /// The id of the request that wrote the entry. A retry recognises its own entry by this id.
    #[serde(rename = "mark")]
    pub request_id: String,
}

/// A user's coins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Wallet {
    pub balance: i64,
    /// The number of entries in the history of the wallet.
    pub entries: u64,
    /// The length of the streak on the day of the last claim, in days.
    pub streak_days: u32,
    /// The day of the last claim.
    pub claimed_on: Option<NaiveDate>,
}

/// Why coins are not moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CoinError {
    #[error("the balance is too low")]
    Insufficient { balance: i64, required: u32 },
    #[error("the daily coins are already claimed")]
    AlreadyClaimed { next_claim_at: DateTime<Utc> },
    /// `by_header` is true if the key came in the header `Idempotency-Key`, not as `reference_id`.
    #[error("the idempotency key was used for another movement")]
    ReferenceReused { by_header: bool },
}

/// How many daily coins a claim gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyRules {
    /// Coins that every claim gives.
    pub base: u32,
    /// Extra coins for each day of a streak after the first day.
    pub streak_step: u32,
    /// The maximum number of extra coins for a streak.
    pub max_streak_bonus: u32,
}

/// What a claim of daily coins gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    /// The length of the streak in days, including this claim.
    pub streak_days: u32,
    /// The part of `coins` that the streak adds.
    pub bonus: u32,
    /// All coins of the claim, including `bonus`.
    pub coins: u32,
}

impl Wallet {
    /// Returns the balance after a deduction, or an error if the balance is too low.
    pub fn deduct(&self, amount: Amount) -> Result<i64, CoinError> {
        let left = self.balance - i64::from(amount.coins());
        if left < 0 {
            return Err(CoinError::Insufficient { balance: self.balance, required: amount.coins() });
        }
        Ok(left)
    }

    /// Calculates the daily coins of `today`. They can be claimed once. Server clocks differ, so the day of
    /// the last claim can be after `today`. In that case, `today` counts as already claimed.
    pub fn claim(&self, rules: DailyRules, today: NaiveDate) -> Result<Claim, CoinError> {
        let streak_days = match self.claimed_on {
            Some(last) if last >= today => {
                return Err(CoinError::AlreadyClaimed { next_claim_at: midnight_after(last) });
            }
            Some(last) if last.succ_opt() == Some(today) => self.streak_days.saturating_add(1),
            _ => 1,
        };
        let bonus = rules.streak_step.saturating_mul(streak_days - 1).min(rules.max_streak_bonus);
        Ok(Claim { streak_days, bonus, coins: rules.base.saturating_add(bonus) })
    }

    /// Returns the length of the streak in days; 0 if the last claim was before yesterday or there is none.
    #[must_use]
    pub fn streak(&self, today: NaiveDate) -> u32 {
        match self.claimed_on {
            Some(last) if last >= today || last.succ_opt() == Some(today) => self.streak_days,
            _ => 0,
        }
    }

    /// Returns when the next daily coins can be claimed: now, or at the midnight after the last claim.
    #[must_use]
    pub fn next_claim_at(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        match self.claimed_on {
            Some(last) if last >= now.date_naive() => midnight_after(last),
            _ => now,
        }
    }
}

#[cfg(test)]
mod tests;
