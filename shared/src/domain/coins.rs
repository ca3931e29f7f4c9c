//! Virtual coins: amounts, the daily bonus, and what a wallet's entries must add up to.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Field, Raw, Reason, UserId};

/// How many coins one call moves.
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
        // Not trimmed, not folded: it is an identifier, and two that differ are two.
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
super::field::shown_as!(ReferenceId, { "type": "string" });

/// What identifies a movement in a wallet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKey {
    /// `reference_id` of a deduction.
    Reference(ReferenceId),
    /// The header `Idempotency-Key` of a deduction without a reference.
    Header(ReferenceId),
    /// A deduction with neither stands for itself.
    Alone(String),
    /// The bonus of a day.
    Day(NaiveDate),
    /// An operator's grant.
    Grant(ReferenceId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    Deduct,
    Daily,
    Grant,
}

/// A movement of coins, as it was made. Never changed afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub transaction_id: String,
    pub user_id: UserId,
    /// 1 for a wallet's first; without gaps.
    pub sequence: u64,
    pub kind: EntryKind,
    /// Signed: what was taken is negative.
    pub amount: i64,
    /// Before and after.
    pub previous_balance: i64,
    pub balance: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_id: Option<ReferenceId>,
    /// Of a daily bonus: the streak, and its part of the amount.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streak_days: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streak_bonus: Option<u32>,
    #[serde(with = "chrono::serde::ts_milliseconds")]
    pub created_at: DateTime<Utc>,
    /// The id of the request that wrote it. A retry recognises its own entry by it.
    #[serde(rename = "mark")]
    pub request_id: String,
}

/// What a wallet holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Wallet {
    pub balance: i64,
    /// How many entries there are.
    pub entries: u64,
    pub streak_days: u32,
    pub claimed_on: Option<NaiveDate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CoinError {
    #[error("the balance does not suffice")]
    Insufficient { balance: i64, required: u32 },
    #[error("claimed already")]
    AlreadyClaimed { next_claim_at: DateTime<Utc> },
    /// `by_header` where it is the header's key, not the body's reference.
    #[error("the reference stands for another movement")]
    ReferenceReused { by_header: bool },
}

/// How the daily bonus grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DailyRules {
    pub base: u32,
    /// For each day of a streak after the first.
    pub step: u32,
    /// The most that a streak adds.
    pub most: u32,
}

/// What a claim brings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub streak_days: u32,
    /// The streak's part of `coins`.
    pub bonus: u32,
    pub coins: u32,
}

/// The midnight after a day: when the next bonus can be claimed.
#[must_use]
pub fn midnight_after(day: NaiveDate) -> DateTime<Utc> {
    day.checked_add_days(Days::new(1)).unwrap_or(day).and_time(NaiveTime::MIN).and_utc()
}

impl Wallet {
    /// Takes coins, if there are enough.
    pub fn deduct(&self, amount: Amount) -> Result<i64, CoinError> {
        let left = self.balance - i64::from(amount.coins());
        if left < 0 {
            return Err(CoinError::Insufficient { balance: self.balance, required: amount.coins() });
        }
        Ok(left)
    }

    /// The bonus of a day, once. A wallet that was claimed on a later day, by a clock that is ahead, has
    /// been claimed.
    pub fn claim(&self, rules: DailyRules, today: NaiveDate) -> Result<Claim, CoinError> {
        let streak_days = match self.claimed_on {
            Some(last) if last >= today => {
                return Err(CoinError::AlreadyClaimed { next_claim_at: midnight_after(last) });
            }
            Some(last) if last.succ_opt() == Some(today) => self.streak_days.saturating_add(1),
            _ => 1,
        };
        let bonus = rules.step.saturating_mul(streak_days - 1).min(rules.most);
        Ok(Claim { streak_days, bonus, coins: rules.base.saturating_add(bonus) })
    }

    /// The streak as it stands: over once a day was missed.
    #[must_use]
    pub fn streak(&self, today: NaiveDate) -> u32 {
        match self.claimed_on {
            Some(last) if last >= today || last.succ_opt() == Some(today) => self.streak_days,
            _ => 0,
        }
    }

    /// When the next bonus can be claimed: now, or after midnight.
    #[must_use]
    pub fn next_claim_at(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        match self.claimed_on {
            Some(last) if last >= now.date_naive() => midnight_after(last),
            _ => now,
        }
    }
}

/// What is wrong with a wallet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Fault {
    #[error("the entries add up to {sum}, the balance is {balance}")]
    Sum { sum: i64, balance: i64 },
    #[error("entry {expected} is missing or there twice")]
    Sequence { expected: u64 },
    #[error("the wallet counts {counted} entries, there are {found}")]
    Count { counted: u64, found: u64 },
    #[error("entry {sequence} leads to {balance}")]
    Negative { sequence: u64, balance: i64 },
    #[error("entry {sequence} does not go from the balance before to the one after")]
    Chain { sequence: u64 },
    #[error("an item of the wallet cannot be read")]
    Unreadable,
    #[error("the wallet moved all the time and could not be looked at")]
    Moving,
}

/// Checks a wallet against its entries, in whatever order they come.
#[must_use]
pub fn audit(wallet: &Wallet, entries: &mut [Entry]) -> Vec<Fault> {
    entries.sort_by_key(|entry| entry.sequence);
    let mut faults = Vec::new();
    let (mut before, mut sum) = (0, 0);
    for (entry, expected) in entries.iter().zip(1..) {
        if entry.sequence != expected {
            faults.push(Fault::Sequence { expected });
            break;
        }
        if entry.previous_balance != before || entry.previous_balance + entry.amount != entry.balance {
            faults.push(Fault::Chain { sequence: entry.sequence });
        }
        if entry.balance < 0 {
            faults.push(Fault::Negative { sequence: entry.sequence, balance: entry.balance });
        }
        before = entry.balance;
    }
    for entry in entries.iter() {
        sum += entry.amount;
    }
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

    const RULES: DailyRules = DailyRules { base: 10, step: 5, most: 30 };

    fn day(text: &str) -> NaiveDate {
        text.parse().unwrap()
    }

    fn after(last: &str, streak_days: u32) -> Wallet {
        Wallet { claimed_on: Some(day(last)), streak_days, ..Wallet::default() }
    }

    #[test]
    fn a_week_of_bonuses() {
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
    fn calendars() {
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

    /// Two devices around midnight: their servers' clocks differ by some milliseconds.
    #[test]
    fn a_clock_that_is_behind_claims_nothing() {
        let error = after("2026-11-16", 3).claim(RULES, day("2026-11-15")).unwrap_err();
        let next_claim_at = "2026-11-17T00:00:00Z".parse().unwrap();
        assert_eq!(error, CoinError::AlreadyClaimed { next_claim_at });
    }

    #[test]
    fn streaks_and_the_next_claim_as_shown() {
        let wallet = after("2026-11-15", 3);
        let at = |text: &str| -> DateTime<Utc> { text.parse().unwrap() };
        assert_eq!(wallet.streak(day("2026-11-15")), 3);
        assert_eq!(wallet.streak(day("2026-11-16")), 3, "still to be kept up");
        assert_eq!(wallet.streak(day("2026-11-17")), 0);
        assert_eq!(wallet.next_claim_at(at("2026-11-15T23:59:59Z")), at("2026-11-16T00:00:00Z"));
        assert_eq!(wallet.next_claim_at(at("2026-11-16T00:00:00Z")), at("2026-11-16T00:00:00Z"));
        assert_eq!(Wallet::default().next_claim_at(at("2026-11-16T08:00:00Z")), at("2026-11-16T08:00:00Z"));
    }

    #[test]
    fn references_are_taken_as_they_are() {
        for text in ["x", "order 7", " padded ", "Ünïcödé", &"x".repeat(64)] {
            assert_eq!(ReferenceId::parse(text).unwrap().as_str(), text);
        }
        for text in ["", "a\nb", "\u{0}", &"x".repeat(65)] {
            assert!(ReferenceId::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        /// Over any calendar of claims: the streak is the length of the run of days that ends today.
        #[test]
        fn a_streak_is_the_run_of_days_up_to_today(
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
        fn nothing_is_taken_that_is_not_there(balance in 0..2_000_000_i64, coins in 1..=1_000_000_i64) {
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

        /// A true ledger is sound; with any one entry lost, doubled or changed it is not.
        #[test]
        fn an_audit_finds_what_is_wrong(
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
