//! Counters of rows. They are updated with every change of a row.
//!
//! A change adds a difference to the counters: the counts of the new row minus the counts of the old row. If
//! every difference is added exactly once, the counters equal a count of all rows.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{AddAssign, Sub};

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::points::RULES;
use super::prediction::{Pick, Prediction};
use super::room::{Day, Member};

/// From this age on, `tally` stores when a stream record failed first. Most failures end before that.
const FAILURES_NOTED_AFTER: TimeDelta = TimeDelta::hours(1);

/// How long a stream record may fail after its first stored failure. The records behind it wait for it, and expire a day
/// after their change. So the limit must be much shorter than a day.
const MAY_FAIL_FOR: TimeDelta = TimeDelta::hours(5);

/// Returns whether the first failure of a stream record must be stored.
#[must_use]
pub fn is_failure_noted(changed_at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now - changed_at >= FAILURES_NOTED_AFTER
}

/// Returns whether a stream record has failed for so long that it is set aside.
///
/// The age of the record does not decide this. After an outage of `tally`, all records are old, and a record that fails
/// once is to be retried.
#[must_use]
pub fn is_given_up(failing_since: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    now - failing_since >= MAY_FAIL_FOR
}

/// Declares a struct of counters. Each counter is stored under the name of its field.
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: i64),*
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }

        impl Sub for $name {
            type Output = Self;

            fn sub(self, other: Self) -> Self {
                Self { $($field: self.$field - other.$field),* }
            }
        }

        impl Counters for $name {
            fn fields(&self) -> Vec<(Cow<'static, str>, i64)> {
                vec![$((stringify!($field).into(), self.$field)),*]
            }

            fn set(&mut self, name: &str, count: i64) {
                match name {
                    $(stringify!($field) => self.$field = count,)*
                    _ => {}
                }
            }
        }
    };
}

/// A set of counters that can be added up and stored.
pub trait Counters: Clone + Default + PartialEq + AddAssign + Sub<Output = Self> {
    /// Returns the name and the value of each counter. The counter is stored in the attribute of that name. A
    /// missing attribute means zero.
    fn fields(&self) -> Vec<(Cow<'static, str>, i64)>;

    /// Sets the counter that is stored under `name`. Ignores names of other attributes.
    fn set(&mut self, name: &str, count: i64);

    /// Returns the name and the value of each attribute that an addition assigns, instead of adding to it.
    fn assigned(&self) -> Vec<(Cow<'static, str>, i64)> {
        Vec::new()
    }
}

counters! {
    /// Counts of the predictions for a match.
    EventCounts {
        predictions,
        /// Predictions of a home win.
        home,
        /// Predictions of a draw.
        draw,
        /// Predictions of an away win.
        away,
        /// The sum of all confidences, in percent.
        confidence,
    }
}

impl EventCounts {
    /// Returns only the number of predictions. The difference of the other counts before and after a prediction tells what
    /// its user predicts, however many there are.
    #[must_use]
    pub fn without_picks(self) -> Self {
        Self { predictions: self.predictions, ..Self::default() }
    }
}

counters! {
    /// Counts of the predictions of one user for all matches.
    UserStats {
        /// Predictions whose points were calculated, including predictions with 0 points.
        settled,
        /// Settled predictions with the right outcome.
        correct,
        points,
        /// Settled predictions with the exact score.
        exact,
    }
}

counters! {
    /// Counts of the members of a room.
    RoomTotals {
        members,
        /// Members whom an operator has taken off the boards.
        unranked,
        /// Members who have predicted the match of the room.
        predictions,
        /// Members who predict a home win.
        home,
        /// Members who predict a draw.
        draw,
        /// Members who predict an away win.
        away,
    }
}

impl RoomTotals {
    /// Like [`EventCounts::without_picks`].
    #[must_use]
    pub fn without_picks(self) -> Self {
        Self { home: 0, draw: 0, away: 0, ..self }
    }
}

/// The number of rows in each shard of a match or a room. A reader skips the shards without rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShardRows(BTreeMap<u8, i64>);

impl ShardRows {
    const SHARD: &str = "in:";

    /// Returns what one row adds to the counters.
    #[must_use]
    pub fn one(shard: u8) -> Self {
        Self(BTreeMap::from([(shard, 1)]))
    }

    /// Sets the counter that is stored under `name`. Ignores names of other attributes.
    fn set(&mut self, name: &str, count: i64) {
        if let Some(shard) = name.strip_prefix(Self::SHARD).and_then(|shard| shard.parse().ok()) {
            self.0.insert(shard, count);
        }
    }

    /// Returns the shards that hold rows, with the number of their rows, in order. If the rows do not add up to `total`,
    /// some were counted by a version without these counters. Then every shard may hold rows, and the numbers are
    /// estimates.
    #[must_use]
    pub fn used(&self, total: i64, shards: u8) -> Vec<(u8, usize)> {
        let rows = |count: i64| usize::try_from(count).unwrap_or(0);
        if self.0.values().sum::<i64>() == total {
            self.0
                .iter()
                .map(|(shard, count)| (*shard, rows(*count)))
                .filter(|(_, count)| *count > 0)
                .collect()
        } else {
            let estimate = rows(total).div_ceil(usize::from(shards)).max(1);
            (0..shards).map(|shard| (shard, estimate)).collect()
        }
    }

    fn fields(&self) -> impl Iterator<Item = (Cow<'static, str>, i64)> {
        self.0.iter().map(|(shard, count)| (format!("{}{shard}", Self::SHARD).into(), *count))
    }
}

/// Counts of the predictions for a match: in total and by shard.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventTally {
    pub counts: EventCounts,
    pub shards: ShardRows,
}

impl EventTally {
    /// Returns what one prediction adds to the counters.
    #[must_use]
    pub fn of(row: &Prediction, shard: u8) -> Self {
        Self { counts: EventCounts::of(row), shards: ShardRows::one(shard) }
    }
}

impl AddAssign for EventTally {
    fn add_assign(&mut self, other: Self) {
        self.counts += other.counts;
        add(&mut self.shards.0, other.shards.0, 1);
    }
}

impl Sub for EventTally {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        self.counts = self.counts - other.counts;
        add(&mut self.shards.0, other.shards.0, -1);
        self
    }
}

impl Counters for EventTally {
    fn fields(&self) -> Vec<(Cow<'static, str>, i64)> {
        self.counts.fields().into_iter().chain(self.shards.fields()).collect()
    }

    fn set(&mut self, name: &str, count: i64) {
        self.counts.set(name, count);
        self.shards.set(name, count);
    }
}

/// Counts of the members of a room: in total, by shard, by primary team and by the day they were last seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoomCounts {
    pub totals: RoomTotals,
    /// Members by shard.
    pub shards: ShardRows,
    /// Members by the id of their primary team. Members without a primary team are not included.
    pub teams: BTreeMap<u32, i64>,
    /// Members by the day on which they were last seen.
    pub days: BTreeMap<Day, i64>,
}

impl RoomCounts {
    const TEAM: &str = "team:";
    const DAY: &str = "day:";

    /// Returns what one member adds to the counters.
    #[must_use]
    pub fn of(member: &Member, shard: u8) -> Self {
        if !member.has_joined() {
            return Self::default();
        }
        let picked = |pick| i64::from(member.pick == Some(pick));
        let totals = RoomTotals {
            members: 1,
            unranked: i64::from(member.unranked),
            predictions: i64::from(member.pick.is_some()),
            home: picked(Pick::Home),
            draw: picked(Pick::Draw),
            away: picked(Pick::Away),
        };
        Self {
            totals,
            shards: ShardRows::one(shard),
            teams: member.team.map(|team| (team, 1)).into_iter().collect(),
            days: member.seen.map(|day| (day, 1)).into_iter().collect(),
        }
    }

    /// Returns whether `name` is the name of a day counter that is old enough to remove. [`Self::active`]
    /// needs the last seven days. Day counters are kept for one more week, because clocks differ and changes
    /// can be delivered late.
    #[must_use]
    pub fn is_outdated(name: &str, today: Day) -> bool {
        let day = name.strip_prefix(Self::DAY).and_then(|day| day.parse().ok()).map(Day);
        day.is_some_and(|day| day.0 < today.week_start().0 - 7)
    }

    /// Returns the number of members seen in the last seven days, including `today`.
    #[must_use]
    pub fn active(&self, today: Day) -> i64 {
        self.days.range(today.week_start()..).map(|(_, members)| members).sum()
    }
}

/// Adds `sign` times `from` to `to`, key by key, and removes counts that become 0.
fn add<K: Ord>(to: &mut BTreeMap<K, i64>, from: BTreeMap<K, i64>, sign: i64) {
    for (key, count) in from {
        *to.entry(key).or_default() += sign * count;
    }
    to.retain(|_, count| *count != 0);
}

impl AddAssign for RoomCounts {
    fn add_assign(&mut self, other: Self) {
        self.totals += other.totals;
        add(&mut self.shards.0, other.shards.0, 1);
        add(&mut self.teams, other.teams, 1);
        add(&mut self.days, other.days, 1);
    }
}

impl Sub for RoomCounts {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        self.totals = self.totals - other.totals;
        add(&mut self.shards.0, other.shards.0, -1);
        add(&mut self.teams, other.teams, -1);
        add(&mut self.days, other.days, -1);
        self
    }
}

impl Counters for RoomCounts {
    fn fields(&self) -> Vec<(Cow<'static, str>, i64)> {
        let teams = self.teams.iter().map(|(team, count)| (format!("{}{team}", Self::TEAM).into(), *count));
        let days = self.days.iter().map(|(day, count)| (format!("{}{}", Self::DAY, day.0).into(), *count));
        self.totals.fields().into_iter().chain(self.shards.fields()).chain(teams).chain(days).collect()
    }

    fn set(&mut self, name: &str, count: i64) {
        if let Some(team) = name.strip_prefix(Self::TEAM).and_then(|team| team.parse().ok()) {
            self.teams.insert(team, count);
        } else if let Some(day) = name.strip_prefix(Self::DAY).and_then(|day| day.parse().ok()) {
            self.days.insert(Day(day), count);
        } else {
            self.totals.set(name, count);
            self.shards.set(name, count);
        }
    }
}

impl EventCounts {
    /// Returns what one prediction adds to the counters.
    #[must_use]
    pub fn of(row: &Prediction) -> Self {
        let pick = row.forecast.pick();
        Self {
            predictions: 1,
            home: i64::from(pick == Pick::Home),
            draw: i64::from(pick == Pick::Draw),
            away: i64::from(pick == Pick::Away),
            confidence: i64::from(row.confidence.percent()),
        }
    }

    /// Returns the average confidence in percent, to two decimals, or 0 without predictions.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "sums stay far below 2^52")]
    pub fn average_confidence(&self) -> f64 {
        if self.predictions <= 0 {
            return 0.0;
        }
        (self.confidence as f64 / self.predictions as f64 * 100.0).round() / 100.0
    }
}

impl UserStats {
    /// Returns these counts, or their negatives if `sign` is -1.
    #[must_use]
    pub fn times(self, sign: i64) -> Self {
        Self {
            settled: sign * self.settled,
            correct: sign * self.correct,
            points: sign * self.points,
            exact: sign * self.exact,
        }
    }

    /// Returns the fraction of settled predictions with the right outcome, to four decimals, or 0 without
    /// settled predictions.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub fn accuracy(&self) -> f64 {
        if self.settled <= 0 {
            return 0.0;
        }
        (self.correct as f64 / self.settled as f64 * 10_000.0).round() / 10_000.0
    }

    /// Returns the sort key of a ranking by correct predictions, then by accuracy. Returns `None` without
    /// settled predictions.
    #[must_use]
    pub fn ranking_key(&self) -> Option<i64> {
        (self.settled > 0).then(|| self.correct * 1_000_001 + self.correct * 1_000_000 / self.settled)
    }

    /// Returns what one prediction adds to the counters.
    #[must_use]
    pub fn of(row: &Prediction) -> Self {
        match row.points {
            None => Self::default(),
            Some(points) => Self {
                settled: 1,
                correct: i64::from(points > 0),
                points: i64::from(points),
                exact: i64::from(points == RULES.exact),
            },
        }
    }
}

/// Returns what a change from row `old` to row `new` adds to the counters. `of` returns what one row adds.
#[must_use]
pub fn difference<C: Counters, R>(of: impl Fn(&R) -> C, old: Option<&R>, new: Option<&R>) -> C {
    new.map_or_else(C::default, &of) - old.map_or_else(C::default, &of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::UserId;
    use crate::domain::prediction::{Confidence, Forecast, Stamp};

    fn row(pick: Pick, confidence: i64, points: Option<u32>) -> Prediction {
        Prediction {
            event_id: 9,
            user_id: UserId(7),
            forecast: Forecast::new(pick, None).unwrap(),
            confidence: Confidence::new(confidence).unwrap(),
            created: Stamp::parse("1763208000000-00000000").unwrap(),
            changed: Stamp::parse("1763208000000-00000000").unwrap(),
            edits: 1,
            points,
            revision: 0,
            settled_in: None,
        }
    }

    #[test]
    fn a_changed_pick_moves_from_one_counter_to_another() {
        let (old, new) = (row(Pick::Home, 80, None), row(Pick::Draw, 30, None));
        assert_eq!(
            difference(EventCounts::of, Some(&old), Some(&new)),
            EventCounts { predictions: 0, home: -1, draw: 1, away: 0, confidence: -50 }
        );
        assert_eq!(difference(UserStats::of, Some(&old), Some(&new)), UserStats::default());
    }

    #[test]
    fn an_edit_stays_in_its_shard() {
        let (old, new) = (row(Pick::Home, 80, None), row(Pick::Draw, 30, None));
        let edit = difference(|row| EventTally::of(row, 3), Some(&old), Some(&new));
        assert_eq!(edit.shards, ShardRows::default());
        let first = difference(|row| EventTally::of(row, 3), None, Some(&new));
        assert!(first.fields().contains(&("in:3".into(), 1)));
    }

    #[test]
    fn only_shards_with_rows_are_used_unless_older_rows_are_not_counted_by_shard() {
        let mut rows = ShardRows::default();
        assert_eq!(rows.used(0, 64), []);
        for (name, count) in [("in:7", 2), ("in:9", 0), ("in:40", 1), ("home", 5)] {
            rows.set(name, count);
        }
        assert_eq!(rows.used(3, 64), [(7, 2), (40, 1)]);
        assert_eq!(rows.used(5, 4), [(0, 2), (1, 2), (2, 2), (3, 2)]);
    }

    #[test]
    fn corrected_points_change_the_statistics_by_the_difference() {
        let open = row(Pick::Home, 50, None);
        let right = row(Pick::Home, 50, Some(4));
        let wrong = row(Pick::Home, 50, Some(0));
        let settled = difference(UserStats::of, Some(&open), Some(&right));
        assert_eq!(settled, UserStats { settled: 1, correct: 1, points: 4, exact: 1 });
        let corrected = difference(UserStats::of, Some(&right), Some(&wrong));
        assert_eq!(corrected, UserStats { settled: 0, correct: -1, points: -4, exact: -1 });
        let void = difference(UserStats::of, Some(&wrong), Some(&open));
        assert_eq!(void, UserStats { settled: -1, ..UserStats::default() });
    }

    #[test]
    fn the_average_confidence_has_two_decimals_and_is_0_without_predictions() {
        let counts = |predictions, confidence| EventCounts { predictions, confidence, ..Default::default() };
        assert!((counts(3, 200).average_confidence() - 66.67).abs() < 1e-9);
        assert!((counts(0, 0).average_confidence() - 0.0).abs() < 1e-9);
    }
}
