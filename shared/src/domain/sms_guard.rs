//! Limits against SMS pumping: an attacker requests codes for numbers of expensive countries, to earn a share of the price.
//!
//! Users enter the codes that they request, and an attacker does not. So each calling prefix has an allowance that grows with
//! the codes which were entered. A prefix without entered codes gets only trials, of which all such prefixes share a few a
//! day. A cap per hour and a budget limit what is left.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{AddAssign, Sub};

use chrono::{DateTime, Datelike, Days, DurationRound as _, NaiveDate, TimeDelta, Timelike as _, Utc};

use super::calling_prefix::{CallingPrefix, PerPrefix};
use super::tally::Counters;
use super::time::midnight_after;

/// The share of messages whose codes must be entered, in percent. If fewer are entered, sending stops.
const MIN_VERIFIED: i64 = 20;

/// How many messages without an entered code a prefix may have in two hours, however few users it has, as long as as many
/// codes were entered in a week.
const TOLERATED: i64 = 50;

/// A prefix with many users may have more messages without an entered code: this part of the codes of a week. At kick-off,
/// many users request a code before the first of them enters it.
const TOLERATED_PART: i64 = 10;

/// How many days of entered codes count, including the current day.
pub const WEEK: u64 = 7;

/// The limits of text messages.
#[derive(Debug, Clone)]
pub struct GuardRules {
    /// How many messages a prefix can get in a UTC hour.
    pub per_hour: PerPrefix<i64>,
    /// How many entered codes a prefix is assumed to have in a week, in addition to those that it has.
    pub credit: PerPrefix<i64>,
    /// The price of a message, in millionths of a US dollar.
    pub price: PerPrefix<i64>,
    /// How many messages a day all prefixes without entered codes can get together.
    pub trials_per_day: i64,
    /// `None` if messages cost nothing.
    pub budget: Option<Budget>,
}

/// How much can be spent, in millionths of a US dollar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    pub per_day: i64,
    pub per_month: i64,
}

/// Counters of text messages: for a prefix and a day by the hour, or for a month by the day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SmsCounts {
    /// Messages by the hour in which they were sent.
    sent: BTreeMap<u32, i64>,
    /// Entered codes by the hour in which their message was sent.
    verified: BTreeMap<u32, i64>,
    /// The price of the messages, in millionths of a US dollar, by the day of the month.
    spent: BTreeMap<u32, i64>,
}

impl SmsCounts {
    const SENT: &str = "sent:";
    const VERIFIED: &str = "verified:";
    const SPENT: &str = "spent:";

    /// Returns the name of the counter of the messages that are sent in this hour.
    #[must_use]
    pub fn sent_in(at: DateTime<Utc>) -> String {
        format!("{}{}", Self::SENT, at.hour())
    }

    /// Returns the counters with one message that was sent at `at`.
    #[must_use]
    pub fn message(at: DateTime<Utc>) -> Self {
        Self { sent: BTreeMap::from([(at.hour(), 1)]), ..Self::default() }
    }

    /// Returns the counters with `count` entered codes, whose messages were sent at `at`.
    #[must_use]
    pub fn entered(at: DateTime<Utc>, count: i64) -> Self {
        Self { verified: BTreeMap::from([(at.hour(), count)]), ..Self::default() }
    }

    /// Returns the counters with the price of a message that was sent at `at`.
    #[must_use]
    pub fn price(at: DateTime<Utc>, price: i64) -> Self {
        Self { spent: BTreeMap::from([(at.day(), price)]), ..Self::default() }
    }

    fn maps(&self) -> [(&'static str, &BTreeMap<u32, i64>); 3] {
        [(Self::SENT, &self.sent), (Self::VERIFIED, &self.verified), (Self::SPENT, &self.spent)]
    }

    fn add(&mut self, other: Self, sign: i64) {
        let pairs = [
            (&mut self.sent, other.sent),
            (&mut self.verified, other.verified),
            (&mut self.spent, other.spent),
        ];
        for (to, from) in pairs {
            for (key, count) in from {
                *to.entry(key).or_default() += sign * count;
            }
            to.retain(|_, count| *count != 0);
        }
    }
}

impl AddAssign for SmsCounts {
    fn add_assign(&mut self, other: Self) {
        self.add(other, 1);
    }
}

impl Sub for SmsCounts {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        self.add(other, -1);
        self
    }
}

impl Counters for SmsCounts {
    fn fields(&self) -> Vec<(Cow<'static, str>, i64)> {
        let of = |(name, counts): (&'static str, &BTreeMap<u32, i64>)| {
            counts.iter().map(|(key, count)| (format!("{name}{key}").into(), *count)).collect::<Vec<_>>()
        };
        self.maps().into_iter().flat_map(of).collect()
    }

    fn set(&mut self, name: &str, count: i64) {
        let maps = [
            (Self::SENT, &mut self.sent),
            (Self::VERIFIED, &mut self.verified),
            (Self::SPENT, &mut self.spent),
        ];
        for (start, map) in maps {
            if let Some(key) = name.strip_prefix(start).and_then(|key| key.parse().ok()) {
                map.insert(key, count);
            }
        }
    }
}

/// What was sent to a prefix lately, and what was spent on all prefixes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct History {
    pub sent_this_hour: i64,
    sent_last_hour: i64,
    /// The codes of the messages of this and the last hour that were entered.
    verified: i64,
    verified_in_week: i64,
    spent_today: i64,
    spent_this_month: i64,
}

impl History {
    /// Returns the history at `now`. `days` are the counters of a prefix by day, `month` those of the current month.
    #[must_use]
    pub fn of(days: &BTreeMap<NaiveDate, SmsCounts>, month: &SmsCounts, now: DateTime<Utc>) -> Self {
        let last_hour = now - TimeDelta::hours(1);
        let in_hour = |at: DateTime<Utc>, counts: fn(&SmsCounts) -> &BTreeMap<u32, i64>| {
            let found = days.get(&at.date_naive()).and_then(|day| counts(day).get(&at.hour()));
            found.copied().unwrap_or_default()
        };
        let first = now.date_naive() - Days::new(WEEK - 1);
        let verified_in_week = days.range(first..).flat_map(|(_, day)| day.verified.values()).sum();
        Self {
            sent_this_hour: in_hour(now, |day| &day.sent),
            sent_last_hour: in_hour(last_hour, |day| &day.sent),
            verified: in_hour(now, |day| &day.verified) + in_hour(last_hour, |day| &day.verified),
            verified_in_week,
            spent_today: month.spent.get(&now.day()).copied().unwrap_or_default(),
            spent_this_month: month.spent.values().sum(),
        }
    }
}

/// How many more messages a prefix can get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// This many.
    Left(i64),
    /// No code was entered in a week, so messages are trials.
    Trials,
    /// Too few codes are entered. Networks from which the owner of a phone has logged in before still get messages.
    Stopped(Stopped),
}

/// Nothing is sent to a prefix for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no messages are sent to this prefix for another {} s", retry_after.num_seconds())]
pub struct Stopped {
    pub retry_after: TimeDelta,
}

impl Stopped {
    /// The counters of an hour begin at zero, so an hour's limit ends with the hour.
    #[must_use]
    pub fn until_next_hour(now: DateTime<Utc>) -> Self {
        let hour = TimeDelta::hours(1);
        Self { retry_after: now.duration_trunc(hour).unwrap_or(now) + hour - now }
    }

    /// All trials of the day are used up.
    #[must_use]
    pub fn until_midnight(now: DateTime<Utc>) -> Self {
        Self { retry_after: midnight_after(now.date_naive()) - now }
    }
}

/// Why no message can be sent, whoever requests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the budget for text messages is used up")]
    BudgetReached,
    #[error(transparent)]
    CapReached(#[from] Stopped),
}

impl GuardRules {
    /// Returns how many more messages a prefix can get.
    pub fn allowance(
        &self,
        prefix: &CallingPrefix,
        history: &History,
        now: DateTime<Utc>,
    ) -> Result<Allowance, Refusal> {
        let by_cap = self.per_hour.of(prefix) - history.sent_this_hour;
        if by_cap <= 0 {
            return Err(Stopped::until_next_hour(now).into());
        }
        let by_budget = self.budget.map_or(i64::MAX, |budget| {
            let left =
                (budget.per_day - history.spent_today).min(budget.per_month - history.spent_this_month);
            left / self.price.of(prefix).max(1)
        });
        if by_budget <= 0 {
            return Err(Refusal::BudgetReached);
        }
        let proven = self.credit.of(prefix) + history.verified_in_week;
        if proven <= 0 {
            return Ok(Allowance::Trials);
        }
        let tolerated = proven.min(TOLERATED).max(proven / TOLERATED_PART);
        let by_codes = tolerated + history.verified * 100 / MIN_VERIFIED
            - history.sent_this_hour
            - history.sent_last_hour;
        if by_codes <= 0 {
            return Ok(Allowance::Stopped(Stopped::until_next_hour(now)));
        }
        Ok(Allowance::Left(by_codes.min(by_cap).min(by_budget)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Phone;

    fn rules() -> GuardRules {
        GuardRules {
            per_hour: PerPrefix::same(1_000),
            credit: PerPrefix::same(0),
            price: PerPrefix::same(100_000),
            trials_per_day: 3,
            budget: Some(Budget { per_day: 20_000_000, per_month: 100_000_000 }),
        }
    }

    fn prefix() -> CallingPrefix {
        CallingPrefix::of(&Phone::parse("+447700900123").unwrap())
    }

    fn noon() -> DateTime<Utc> {
        "2026-11-15T12:10:00Z".parse().unwrap()
    }

    fn allowance(history: History) -> Result<Allowance, Refusal> {
        rules().allowance(&prefix(), &history, noon())
    }

    #[test]
    fn a_prefix_without_entered_codes_gets_trials() {
        assert_eq!(allowance(History::default()), Ok(Allowance::Trials));
    }

    #[test]
    fn entered_codes_earn_further_messages() {
        let one = History { sent_this_hour: 1, verified: 1, verified_in_week: 1, ..History::default() };
        assert_eq!(allowance(one), Ok(Allowance::Left(5)), "1 is tolerated, 5 are earned, 1 is sent");
        let credit = GuardRules { credit: PerPrefix::same(500), ..rules() };
        let left = credit.allowance(&prefix(), &History::default(), noon());
        assert_eq!(left, Ok(Allowance::Left(50)));
    }

    #[test]
    fn sending_stops_when_less_than_a_fifth_of_the_codes_is_entered() {
        let busy = |sent_this_hour, verified| History {
            sent_this_hour,
            sent_last_hour: 20,
            verified,
            verified_in_week: 400,
            ..History::default()
        };
        assert_eq!(allowance(busy(29, 0)), Ok(Allowance::Left(1)), "50 are tolerated");
        let stopped = Stopped { retry_after: TimeDelta::minutes(50) };
        assert_eq!(allowance(busy(30, 0)), Ok(Allowance::Stopped(stopped)));
        assert_eq!(allowance(busy(30, 1)), Ok(Allowance::Left(5)));
        let known = History { verified_in_week: 9_000, ..busy(800, 0) };
        assert_eq!(allowance(known), Ok(Allowance::Left(80)), "a tenth of the week is tolerated");
    }

    #[test]
    fn the_cap_of_an_hour_holds_even_if_all_codes_are_entered() {
        let full = History { sent_this_hour: 1_000, verified: 1_000, ..History::default() };
        let stopped = Stopped { retry_after: TimeDelta::minutes(50) };
        assert_eq!(allowance(full), Err(Refusal::CapReached(stopped)));
    }

    #[test]
    fn nothing_is_sent_when_a_budget_is_used_up() {
        let spent = |spent_today, spent_this_month| History {
            verified_in_week: 500,
            spent_today,
            spent_this_month,
            ..History::default()
        };
        assert_eq!(allowance(spent(19_900_000, 19_900_000)), Ok(Allowance::Left(1)));
        for history in [spent(19_900_001, 19_900_001), spent(0, 100_000_000)] {
            assert_eq!(allowance(history), Err(Refusal::BudgetReached));
        }
    }

    #[test]
    fn a_history_has_the_last_two_hours_and_the_last_seven_days() {
        let day = |text: &str| text.parse::<NaiveDate>().unwrap();
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let mut days = BTreeMap::<NaiveDate, SmsCounts>::new();
        for (sent_at, entered) in [
            ("2026-11-08T12:00:00Z", 1),
            ("2026-11-09T12:00:00Z", 2),
            ("2026-11-14T22:00:00Z", 4),
            ("2026-11-14T23:00:00Z", 8),
            ("2026-11-15T00:10:00Z", 16),
        ] {
            let counts = days.entry(day(&sent_at[..10])).or_default();
            *counts += SmsCounts::message(at(sent_at));
            *counts += SmsCounts::entered(at(sent_at), entered);
        }
        let mut month = SmsCounts::price(at("2026-11-14T22:00:00Z"), 5);
        month += SmsCounts::price(at("2026-11-15T00:00:00Z"), 7);
        let expected = History {
            sent_this_hour: 1,
            sent_last_hour: 1,
            verified: 8 + 16,
            verified_in_week: 2 + 4 + 8 + 16,
            spent_today: 7,
            spent_this_month: 12,
        };
        assert_eq!(History::of(&days, &month, at("2026-11-15T00:30:00Z")), expected);
    }

    proptest! {
        #[test]
        fn counters_round_trip(sent in 0_i64..9, entered in 0_i64..9, price in 0_i64..9) {
            let mut counts = SmsCounts::default();
            for _ in 0..sent {
                counts += SmsCounts::message(noon());
            }
            if entered > 0 {
                counts += SmsCounts::entered(noon(), entered);
            }
            if price > 0 {
                counts += SmsCounts::price(noon(), price);
            }
            let mut read = SmsCounts::default();
            for (name, count) in counts.fields() {
                read.set(&name, count);
            }
            prop_assert_eq!(&read, &counts);
            prop_assert_eq!(counts.clone() - read, SmsCounts::default());
        }
    }
}
