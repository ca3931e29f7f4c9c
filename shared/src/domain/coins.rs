//! Coins: wallets and their entries, the daily coins, and the audit of a wallet.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use serde::{Deserialize, Serialize};

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
        // An identifier is used unchanged: not trimmed, not lower-cased.
        if text.chars().any(char::is_control) {
            return Err("Remove the control characters from the reference.".into());
        }
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

/// What identifies a movement in a wallet. A second movement with the same key is a duplicate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKey {
    /// The `reference_id` of a deduction.
    Reference(ReferenceId),
    /// The header `Idempotency-Key` of a deduction without a reference.
    Header(ReferenceId),
    /// A key that the service generated for a deduction without one.
    Generated(String),
    /// The daily coins of this day.
    Day(NaiveDate),
    /// An operator's grant.
    Grant(ReferenceId),
}

/// What moved the coins.
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
    /// Counts the entries of the wallet from 1, without gaps.
    pub sequence: u64,
    pub kind: EntryKind,
    /// The change of the balance; negative for a deduction.
    pub amount: i64,
    /// The balance before.
    pub previous_balance: i64,
    /// The balance after.
    pub balance: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_id: Option<ReferenceId>,
    /// Of daily coins: the length of the streak.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streak_days: Option<u32>,
    /// Of daily coins: the part of the amount that the streak adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streak_bonus: Option<u32>,
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub created_at: DateTime<Utc>,
    /// The id of the request that wrote it. A retry recognises its own entry by it.
    #[serde(rename = "mark")]
    pub request_id: String,
}

/// A user's coins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Wallet {
    pub balance: i64,
    /// The number of entries.
    pub entries: u64,
    /// The length of the streak on the day of the last claim.
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
    /// `by_header` if the key is the header's, not the `reference_id`.
    #[error("the idempotency key was used for another movement")]
    ReferenceReused { by_header: bool },
}

/// The amount of the daily coins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyRules {
    /// The coins of every claim.
    pub base: u32,
    /// What each day of a streak after the first adds.
    pub streak_step: u32,
    /// The maximum that a streak adds.
    pub max_streak_bonus: u32,
}

/// The result of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub streak_days: u32,
    /// The part of `coins` that the streak adds.
    pub bonus: u32,
    pub coins: u32,
}

/// The midnight at the end of a day, when the next daily coins can be claimed.
#[must_use]
pub fn midnight_after(day: NaiveDate) -> DateTime<Utc> {
    day.checked_add_days(Days::new(1)).unwrap_or(day).and_time(NaiveTime::MIN).and_utc()
}

impl Wallet {
    /// The balance after a deduction.
    pub fn deduct(&self, amount: Amount) -> Result<i64, CoinError> {
        let left = self.balance - i64::from(amount.coins());
        if left < 0 {
            return Err(CoinError::Insufficient { balance: self.balance, required: amount.coins() });
        }
        Ok(left)
    }

    /// The daily coins of `today`, once per day. If the last claim is later than `today`, because clocks differ, today
    /// is already claimed.
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

    /// The length of the streak; 0 after a missed day.
    #[must_use]
    pub fn streak(&self, today: NaiveDate) -> u32 {
        match self.claimed_on {
            Some(last) if last >= today || last.succ_opt() == Some(today) => self.streak_days,
            _ => 0,
        }
    }

    /// When the next daily coins can be claimed: now, or after midnight.
    #[must_use]
    pub fn next_claim_at(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        match self.claimed_on {
            Some(last) if last >= now.date_naive() => midnight_after(last),
            _ => now,
        }
    }
}

/// An inconsistency between a wallet and its entries.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    #[error("the entries add up to {sum}, but the balance is {balance}")]
    Sum { sum: i64, balance: i64 },
    #[error("entry {expected} is missing or duplicated")]
    Sequence { expected: u64 },
    #[error("the wallet counts {counted} entries, but {found} exist")]
    Count { counted: u64, found: u64 },
    #[error("the balance after entry {sequence} is {balance}")]
    Negative { sequence: u64, balance: i64 },
    #[error("the balances of entry {sequence} do not follow from each other")]
    Chain { sequence: u64 },
    #[error("an item of the wallet is unreadable")]
    Unreadable,
    #[error("the wallet changed too often to be audited")]
    Moving,
}

/// Checks a wallet against all of its entries, in any order.
#[must_use]
pub fn audit(wallet: &Wallet, entries: &mut [Entry]) -> Vec<Fault> {
    entries.sort_by_key(|entry| entry.sequence);
    let mut faults = Vec::new();
    let mut previous_balance = 0;
    for (entry, expected) in entries.iter().zip(1..) {
        if entry.sequence != expected {
            faults.push(Fault::Sequence { expected });
            break;
        }
        if entry.previous_balance != previous_balance
            || entry.previous_balance + entry.amount != entry.balance
        {
            faults.push(Fault::Chain { sequence: entry.sequence });
        }
        if entry.balance < 0 {
            faults.push(Fault::Negative { sequence: entry.sequence, balance: entry.balance });
        }
        previous_balance = entry.balance;
    }
    let sum = entries.iter().map(|entry| entry.amount).sum();
    let found = entries.len() as u64;
    if wallet.entries != found {
        faults.push(Fault::Count { counted: wallet.entries, found });
    }
    if sum != wallet.balance {
        faults.push(Fault::Sum { sum, balance: wallet.balance });
    }
    if wallet.balance < 0 && faults.is_empty() {
        faults.push(Fault::Negative { sequence: found, balance: wallet.balance });
    }
    faults
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const RULES: DailyRules = DailyRules { base: 10, streak_step: 5, max_streak_bonus: 30 };

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn after(last: &str, streak_days: u32) -> Wallet {
        Wallet { claimed_on: Some(day(last)), streak_days, ..Wallet::default() }
    }

    #[test]
    fn the_bonus_grows_up_to_its_maximum() {
        let mut wallet = Wallet::default();
        let mut coins = Vec::new();
        for date in day("2026-11-15").iter_days().take(9) {
            let claim = wallet.claim(RULES, date).unwrap();
            wallet = Wallet { claimed_on: Some(date), streak_days: claim.streak_days, ..wallet };
            assert_eq!(claim.coins, 10 + claim.bonus);
            coins.push(claim.coins);
        }
        assert_eq!(coins, [10, 15, 20, 25, 30, 35, 40, 40, 40]);
    }

    #[test]
    fn streaks_continue_across_months_and_leap_days() {
        for (last, today, streak) in [
            ("2026-11-30", "2026-12-01", 4),
            ("2026-12-31", "2027-01-01", 4),
            ("2028-02-28", "2028-02-29", 4),
            ("2028-02-29", "2028-03-01", 4),
            ("2027-02-28", "2027-03-01", 4),
            ("2028-02-28", "2028-03-01", 1),
            ("2026-11-13", "2026-11-15", 1),
            ("2025-11-14", "2026-11-15", 1),
        ] {
            assert_eq!(
                after(last, 3).claim(RULES, day(today)).unwrap().streak_days,
                streak,
                "{last} {today}"
            );
        }
    }

    /// Two claims around midnight can reach servers whose clocks differ by some milliseconds.
    #[test]
    fn a_clock_that_is_behind_cannot_claim_again() {
        let error = after("2026-11-16", 3).claim(RULES, day("2026-11-15")).unwrap_err();
        let next_claim_at = "2026-11-17T00:00:00Z".parse().unwrap();
        assert_eq!(error, CoinError::AlreadyClaimed { next_claim_at });
    }

    #[test]
    fn streaks_end_after_a_missed_day() {
        let wallet = after("2026-11-15", 3);
        let at = |text: &str| -> DateTime<Utc> { text.parse().unwrap() };
        assert_eq!(wallet.streak(day("2026-11-15")), 3);
        assert_eq!(wallet.streak(day("2026-11-16")), 3, "today can still be claimed");
        assert_eq!(wallet.streak(day("2026-11-17")), 0);
        assert_eq!(wallet.next_claim_at(at("2026-11-15T23:59:59Z")), at("2026-11-16T00:00:00Z"));
        assert_eq!(wallet.next_claim_at(at("2026-11-16T00:00:00Z")), at("2026-11-16T00:00:00Z"));
        assert_eq!(Wallet::default().next_claim_at(at("2026-11-16T08:00:00Z")), at("2026-11-16T08:00:00Z"));
    }

    #[test]
    fn references_are_used_unchanged() {
        for text in ["x", "order 7", " padded ", "Ünïcödé", &"x".repeat(64)] {
            assert_eq!(ReferenceId::parse(text).unwrap().as_str(), text);
        }
        for text in ["", "a\nb", "\u{0}", &"x".repeat(65)] {
            assert!(ReferenceId::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a_streak_is_the_number_of_consecutive_days_up_to_today(
            start in 0..40_000_i32,
            gaps in proptest::collection::vec(0..4_u64, 1..40),
        ) {
            let mut date = NaiveDate::from_num_days_from_ce_opt(700_000 + start).unwrap();
            let mut wallet = Wallet::default();
            let mut run = 0;
            for gap in gaps {
                date = date + Days::new(gap);
                let claim = wallet.claim(RULES, date);
                if gap == 0 && wallet.claimed_on.is_some() {
                    let next_claim_at = midnight_after(date);
                    prop_assert_eq!(claim, Err(CoinError::AlreadyClaimed { next_claim_at }));
                    continue;
                }
                run = if gap == 1 && wallet.claimed_on.is_some() { run + 1 } else { 1 };
                let claim = claim.unwrap();
                prop_assert_eq!(claim.streak_days, run);
                prop_assert_eq!(claim.bonus, ((run - 1) * 5).min(30));
                prop_assert_eq!(claim.coins, 10 + claim.bonus);
                wallet = Wallet { claimed_on: Some(date), streak_days: claim.streak_days, ..wallet };
                prop_assert_eq!(wallet.streak(date), run);
                prop_assert!(wallet.next_claim_at(date.and_time(NaiveTime::MIN).and_utc()) > date.and_time(NaiveTime::MIN).and_utc());
            }
        }

        #[test]
        fn a_deduction_never_overdraws_the_wallet(balance in 0..2_000_000_i64, coins in 1..=1_000_000_i64) {
            let wallet = Wallet { balance, ..Wallet::default() };
            match wallet.deduct(Amount::new(coins).unwrap()) {
                Ok(left) => prop_assert_eq!(left, balance - coins),
                Err(error) => {
                    prop_assert!(coins > balance);
                    let required = u32::try_from(coins).unwrap();
                    prop_assert_eq!(error, CoinError::Insufficient { balance, required });
                }
            }
        }

        #[test]
        fn the_audit_finds_lost_duplicated_and_changed_entries(
            amounts in proptest::collection::vec(1..1_000_i64, 2..12),
            at in any::<prop::sample::Index>(),
        ) {
            let mut wallet = Wallet::default();
            let mut entries = Vec::new();
            for amount in amounts {
                let amount = if amount % 3 == 0 && wallet.balance >= amount { -amount } else { amount };
                wallet.entries += 1;
                entries.push(Entry {
                    transaction_id: String::new(), user_id: UserId(7), sequence: wallet.entries,
                    kind: EntryKind::Grant, amount, previous_balance: wallet.balance,
                    balance: wallet.balance + amount, reason: None, reference_id: None, streak_days: None,
                    streak_bonus: None, created_at: DateTime::UNIX_EPOCH, request_id: String::new(),
                });
                wallet.balance += amount;
            }
            prop_assert_eq!(audit(&wallet, &mut entries.clone()), vec![]);
            let at = at.index(entries.len());
            let mut lost = entries.clone();
            lost.remove(at);
            prop_assert!(!audit(&wallet, &mut lost).is_empty());
            let mut doubled = entries.clone();
            doubled.push(entries[at].clone());
            prop_assert!(!audit(&wallet, &mut doubled).is_empty());
            let mut changed = entries.clone();
            changed[at].amount += 1;
            prop_assert!(!audit(&wallet, &mut changed).is_empty());
            let overdrawn = Wallet { balance: -1, ..Wallet::default() };
            prop_assert!(!audit(&overdrawn, &mut []).is_empty());
        }
    }
}
