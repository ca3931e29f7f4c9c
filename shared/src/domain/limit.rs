//! Rate limits over a sliding window.
//!
//! For each phone, network or user with a limit, a DynamoDB item holds the ids of the last admitted
//! requests, newest first. A limit of 5 in 10 minutes admits a request if the fifth newest id is absent or at
//! least 10 minutes old. So no period of 10 minutes has more than 5 requests, whenever it begins. One
//! conditional write checks the limit and records the request, without a read.

use chrono::{DateTime, TimeDelta, Utc};

/// At most `count` requests in any period of length `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub count: usize,
    pub window: TimeDelta,
}

/// A rate limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rate limit is exceeded for another {} s", retry_after.num_seconds())]
pub struct Limited {
    /// The time until the next request is admitted.
    pub retry_after: TimeDelta,
}

/// Makes the id of a request: its time in milliseconds, and a nonce that makes the id unique within the
/// millisecond.
///
/// Until the year 2286, sorting ids as text sorts them by time.
#[must_use]
pub fn request_id(at: DateTime<Utc>, nonce: u32) -> String {
    format!("{:013}-{nonce:08x}", at.timestamp_millis())
}

/// Returns a text that sorts after every id whose age is at least `window`, and before all newer ids.
///
/// An id is `<milliseconds>-<nonce>`, and the text is `<milliseconds>~`. `~` sorts after `-`, so the text also
/// sorts after ids that are exactly `window` old.
#[must_use]
pub fn outside(window: TimeDelta, now: DateTime<Utc>) -> String {
    format!("{:013}~", (now - window).timestamp_millis())
}

pub(super) fn time_of(id: &str) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(id.get(..13)?.parse().ok()?)
}

/// Returns how many ids an item must hold to check all `limits`.
#[must_use]
pub fn depth(limits: &[Limit]) -> usize {
    limits.iter().map(|limit| limit.count).max().unwrap_or(0)
}

/// Returns the time until the next request is admitted, at least one second. `ids` are the ids of the last
/// admitted requests, newest first.
#[must_use]
pub fn retry_after(ids: &[String], limits: &[Limit], now: DateTime<Utc>) -> TimeDelta {
    limits
        .iter()
        .filter_map(|limit| {
            let oldest = time_of(ids.get(limit.count.checked_sub(1)?)?)?;
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
    fn the_wait_ends_when_the_fifth_newest_id_leaves_the_window() {
        let ids: Vec<_> = (0..5).rev().map(|n| request_id(at(n * 60), 0)).collect();
        assert_eq!(retry_after(&ids, &LIMITS, at(300)), TimeDelta::seconds(300));
    }

    #[test]
    fn the_longest_wait_of_several_limits_applies() {
        let ids: Vec<_> = (0..10).rev().map(|n| request_id(at(n), 0)).collect();
        assert_eq!(retry_after(&ids, &LIMITS, at(10)), TimeDelta::days(1) - TimeDelta::seconds(10));
    }

    proptest! {
        #[test]
        fn ids_sort_in_the_order_of_their_times(a in 0_i64..4_000_000_000_000, b in 0_i64..4_000_000_000_000, n: u32, m: u32) {
            let of = |ms| DateTime::from_timestamp_millis(ms).unwrap();
            if a != b {
                prop_assert_eq!(request_id(of(a), n) < request_id(of(b), m), a < b);
            }
        }

        #[test]
        fn an_id_is_outside_the_window_if_it_is_at_least_ten_minutes_old(age in 0_i64..2_000_000, nonce: u32) {
            let now = at(0);
            let old = request_id(now - TimeDelta::milliseconds(age), nonce);
            prop_assert_eq!(old <= outside(TimeDelta::minutes(10), now), age >= 600_000);
        }
    }
}
