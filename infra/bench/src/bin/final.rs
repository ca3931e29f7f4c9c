//! Simulates a final: 5,000,000 predictions in the 300 seconds before kick-off. Each DynamoDB partition accepts 1,000
//! writes per second. The clock is virtual; the partition keys are those of the product.
//!
//! `final-bench [--write]`. The figures are the same in every run, and a run takes seconds.

#![expect(clippy::cast_precision_loss, reason = "the counts are far below 2^52")]

use std::collections::HashMap;

use touchline::domain::UserId;
use touchline::storage::keys;
use touchline_bench::report::Report;

const PREDICTIONS: u64 = 5_000_000;
const SECONDS: u64 = 300;
const WRITES_PER_SECOND: u64 = 1_000;
const EVENT: u32 = 64;

/// A function that returns how many predictions arrive in a given second. Seconds are numbered from 0. The sum
/// over all seconds is `PREDICTIONS`.
type Arrivals = fn(u64) -> u64;

/// Lets the rate grow linearly until kick-off. The last second has twice the mean rate.
fn growing(second: u64) -> u64 {
    let total_before = |s: u64| PREDICTIONS * s * (s + 1) / (SECONDS * (SECONDS + 1));
    total_before(second + 1) - total_before(second)
}

/// Spreads the predictions evenly over all seconds.
fn even(second: u64) -> u64 {
    PREDICTIONS * (second + 1) / SECONDS - PREDICTIONS * second / SECONDS
}

/// Puts a third of the predictions into the last 30 seconds.
fn late(second: u64) -> u64 {
    let last_third = PREDICTIONS / 3;
    if second >= 270 {
        return last_third / 30 + u64::from(second == 299) * (last_third % 30);
    }
    let rest = PREDICTIONS - last_third;
    rest * (second + 1) / 270 - rest * second / 270
}

struct Outcome {
    partitions: usize,
    /// The most writes to one partition in one second.
    peak: u64,
    throttled: u64,
}

/// Simulates the last five minutes before kick-off. Throttled writes are not retried.
fn simulate(arrivals: Arrivals, shards: u8) -> Outcome {
    let mut outcome = Outcome { partitions: 0, peak: 0, throttled: 0 };
    let mut user = 0_u32;
    let mut writes_by_partition = HashMap::<String, u64>::new();
    for second in 0..SECONDS {
        for writes in writes_by_partition.values_mut() {
            *writes = 0;
        }
        for _ in 0..arrivals(second) {
            // The step and the number of users are coprime, so each user predicts once, in scattered order.
            user = (user + 2_147_483) % u32::try_from(PREDICTIONS).unwrap_or(u32::MAX);
            *writes_by_partition.entry(keys::prediction(EVENT, shards, UserId(user + 1)).pk).or_default() +=
                1;
        }
        for writes in writes_by_partition.values() {
            outcome.peak = outcome.peak.max(*writes);
            outcome.throttled += writes.saturating_sub(WRITES_PER_SECOND);
        }
    }
    outcome.partitions = writes_by_partition.len();
    outcome
}

fn main() {
    let mut report = Report::new("final-bench");
    report.line("| arrivals | key | partitions | busiest partition, busiest second | throttled | lost |");
    report.line("|---|---|---|---|---|---|");
    let patterns: [(&str, Arrivals); 3] =
        [("even", even), ("growing until kick-off", growing), ("a third in the last 30 s", late)];
    for (name, arrivals) in patterns {
        assert_eq!((0..SECONDS).map(arrivals).sum::<u64>(), PREDICTIONS);
        for (key, shards) in [("featured: 64 shards", 64), ("4 shards", 4), ("unsharded", 1)] {
            let Outcome { partitions, peak, throttled } = simulate(arrivals, shards);
            let lost = throttled as f64 / PREDICTIONS as f64 * 100.0;
            report.line(format!("| {name} | {key} | {partitions} | {peak} | {throttled} | {lost:.1} % |"));
            assert!(shards < 64 || throttled == 0, "a featured match was throttled");
        }
    }
    report.finish();
}
