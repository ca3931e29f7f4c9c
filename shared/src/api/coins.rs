//! Coins: taking some, the daily bonus, balance and history.

use std::fmt;

use serde::Serialize;

use super::{Message, NextPage, Nothing, PerPage, endpoint, input};
use crate::domain::coins::{Amount, Entry, EntryKind, ReferenceId, Wallet, midnight_after};
use crate::domain::{Reason, Timestamp, UserId};
use crate::http::SignedIn;

endpoint! {
    /// Take coins for a purchase or a wager.
    Deduct: POST "/api/auth/coins/deduct", in "coins", by SignedIn, DeductInput => Message<Deduction>,
        refuses ["insufficient_balance", "reference_reused"], keyed by "Idempotency-Key"
}

endpoint! {
    /// Claim the bonus of the day.
    ClaimDaily: POST "/api/auth/daily-coins", in "coins", by SignedIn, Nothing => Message<DailyClaim>,
        refuses ["already_claimed", "rate_limited"]
}

endpoint! {
    /// Balance, streak and history.
    Coins: GET "/api/auth/coins", in "coins", by SignedIn, CoinsQuery => CoinsPage
}

input! {
    DeductInput { amount: Amount, reason: ReasonWord, reference_id: Option<ReferenceId> }
}

input! {
    CoinsQuery { per_page: PerPage, cursor: Option<CoinsCursor> }
}

/// A word; which words there are is configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonWord(pub String);

/// A place in a wallet's history: below this entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoinsCursor {
    user: UserId,
    below: u64,
}

const NOT_OURS: &str = "is not a cursor of this list";

impl CoinsCursor {
    #[must_use]
    pub fn new(user: UserId, below: u64) -> Self {
        Self { user, below }
    }

    pub(super) fn parse(text: &str) -> Result<Self, Reason> {
        let numbers = text.strip_prefix("c").and_then(|rest| rest.split_once('.'));
        let cursor = numbers.and_then(|(user, below)| {
            Some(Self { user: UserId(user.parse().ok()?), below: below.parse().ok()? })
        });
        cursor.filter(|cursor| cursor.to_string() == text).ok_or_else(|| NOT_OURS.into())
    }

    /// The place, where it is one of this user's.
    pub fn of(self, user: UserId) -> Result<u64, super::Invalid> {
        if self.user == user { Ok(self.below) } else { Err(super::Invalid::field("cursor", NOT_OURS)) }
    }
}

impl fmt::Display for CoinsCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "c{}.{}", self.user, self.below)
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Deduction {
    pub previous_balance: i64,
    pub amount_deducted: i64,
    pub new_balance: i64,
    pub transaction_id: String,
}

impl From<Entry> for Deduction {
    fn from(entry: Entry) -> Self {
        Self {
            previous_balance: entry.previous_balance,
            amount_deducted: -entry.amount,
            new_balance: entry.balance,
            transaction_id: entry.transaction_id,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DailyClaim {
    pub coins_awarded: i64,
    pub new_balance: i64,
    pub next_claim_at: Timestamp,
    pub streak_days: u32,
    pub streak_bonus: u32,
}

impl From<Entry> for DailyClaim {
    fn from(entry: Entry) -> Self {
        Self {
            coins_awarded: entry.amount,
            new_balance: entry.balance,
            next_claim_at: midnight_after(entry.created_at.date_naive()).into(),
            streak_days: entry.streak_days.unwrap_or_default(),
            streak_bonus: entry.streak_bonus.unwrap_or_default(),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CoinsPage {
    pub data: CoinsView,
    pub meta: NextPage,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CoinsView {
    pub balance: i64,
    pub streak_days: u32,
    pub next_claim_at: Timestamp,
    pub entries: Vec<EntryView>,
}

impl CoinsView {
    #[must_use]
    pub fn of(wallet: &Wallet, entries: Vec<Entry>, now: chrono::DateTime<chrono::Utc>) -> Self {
        Self {
            balance: wallet.balance,
            streak_days: wallet.streak(now.date_naive()),
            next_claim_at: wallet.next_claim_at(now).into(),
            entries: entries.into_iter().map(EntryView::from).collect(),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EntryView {
    pub transaction_id: String,
    #[serde(rename = "type")]
    pub kind: EntryKind,
    pub amount: i64,
    pub balance: i64,
    pub reason: Option<String>,
    pub reference_id: Option<ReferenceId>,
    pub created_at: Timestamp,
}

impl From<Entry> for EntryView {
    fn from(entry: Entry) -> Self {
        Self {
            transaction_id: entry.transaction_id,
            kind: entry.kind,
            amount: entry.amount,
            balance: entry.balance,
            reason: entry.reason,
            reference_id: entry.reference_id,
            created_at: entry.created_at.into(),
        }
    }
}
