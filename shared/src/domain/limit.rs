//! Limits over a sliding window, as a register of the latest times.
//!
//! The item holds the last N admissions, newest first. "At most 5 in 10 minutes" then means: the fifth
//! newest is absent or older than 10 minutes. That is exact (no window edges), and one conditional
//! write both checks and records, with no read before it.

use chrono::{DateTime, TimeDelta, Utc};

/// At most `count` in `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub count: usize,
    pub window: TimeDelta,
}

/// Refused for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("limited for {} s", retry_after.num_seconds())]
pub struct Limited {
    pub retry_after: TimeDelta,
}

/// One admission's mark: its time, then a nonce that tells it from others of the same millisecond.
///
/// Marks compare as text the way their times compare, until the year 2286.
#[must_use]
pub fn mark(at: DateTime<Utc>, nonce: u32) -> String {
    format!("{:013}-{nonce:08x}", at.timestamp_millis())
}

/// The greatest mark that lies wholly outside a window that ends at `now`.
///
/// `~` sorts after every digit, so that all marks of that last millisecond are outside too.
#[must_use]
pub fn outside(window: TimeDelta, now: DateTime<Utc>) -> String {
    format!("{:013}~", (now - window).timestamp_millis())
}

pub(super) fn time_of(mark: &str) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(mark.get(..13)?.parse().ok()?)
}

/// How many marks the register must keep for `limits`.
#[must_use]
pub fn depth(limits: &[Limit]) -> usize {
    limits.iter().map(|limit| limit.count).max().unwrap_or(0)
}

/// How long until one more is admitted, given the marks as they stand, newest first.
#[must_use]
pub fn retry_after(marks: &[String], limits: &[Limit], now: DateTime<Utc>) -> TimeDelta {
    limits
        .iter()
        .filter_map(|limit| {
            let oldest = time_of(marks.get(limit.count.checked_sub(1)?)?)?;
            Some(oldest + limit.window - now)
        })
        .max()
        .unwrap_or_default()
        .max(TimeDelta::seconds(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: [Limit; 2] =
        [Limit { count: 5, window: TimeDelta::minutes(10) }, Limit { count: 10, window: TimeDelta::days(1) }];

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_763_000_000 + seconds, 0).unwrap()
    }

    #[test]
    fn waits_for_the_fifth_newest_to_leave_the_window() {
        let marks: Vec<_> = (0..5).rev().map(|n| mark(at(n * 60), 0)).collect();
        assert_eq!(retry_after(&marks, &LIMITS, at(300)), TimeDelta::seconds(300));
    }

    #[test]
    fn the_longest_wait_counts() {
        let marks: Vec<_> = (0..10).rev().map(|n| mark(at(n), 0)).collect();
        assert_eq!(retry_after(&marks, &LIMITS, at(10)), TimeDelta::days(1) - TimeDelta::seconds(10));
    }

    proptest! {
        #[test]
        fn marks_sort_as_their_times(a in 0_i64..4_000_000_000_000, b in 0_i64..4_000_000_000_000, n: u32, m: u32) {
            let of = |ms| DateTime::from_timestamp_millis(ms).unwrap();
            if a != b {
                prop_assert_eq!(mark(of(a), n) < mark(of(b), m), a < b);
            }
        }

        #[test]
        fn a_mark_is_outside_exactly_when_its_age_reaches_the_window(age in 0_i64..2_000_000, nonce: u32) {
            let now = at(0);
            let old = mark(now - TimeDelta::milliseconds(age), nonce);
            prop_assert_eq!(old <= outside(TimeDelta::minutes(10), now), age >= 600_000);
        }
    }
}
