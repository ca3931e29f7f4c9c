//! A final, simulated: 5,000,000 predictions in the 300 seconds before kick-off, against partitions that take
//! 1,000 writes a second each. The clock is virtual; the keys are the product's own.

#![expect(clippy::print_stdout, reason = "it prints what it finds")]
#![expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]

use std::collections::HashMap;

use touchline::domain::UserId;
use touchline::storage::keys;

const PREDICTIONS: u64 = 5_000_000;
const SECONDS: u64 = 300;
const WRITES_PER_SECOND: u64 = 1_000;
const EVENT: u32 = 64;

/// How many come in a second, of those that come in all.
type Rush = fn(u64) -> u64;

/// The rate grows evenly until kick-off: the last second sees twice the mean.
fn growing(second: u64) -> u64 {
    let up_to = |s: u64| PREDICTIONS * s * (s + 1) / (SECONDS * (SECONDS + 1));
    up_to(second + 1) - up_to(second)
}

/// The same in every second.
fn even(second: u64) -> u64 {
    PREDICTIONS * (second + 1) / SECONDS - PREDICTIONS * second / SECONDS
}

/// A third of all in the last thirty seconds, and the rest before.
fn late(second: u64) -> u64 {
    let last = PREDICTIONS / 3;
    if second >= 270 {
        return last / 30 + u64::from(second == 299) * (last % 30);
    }
    let rest = PREDICTIONS - last;
    rest * (second + 1) / 270 - rest * second / 270
}

struct Outcome {
    partitions: usize,
    /// Writes in the busiest second of the busiest partition.
    peak: u64,
    throttled: u64,
}

/// Plays the last five minutes. Who is throttled does not come back.
fn play(rush: Rush, shards: u8) -> Outcome {
    let mut outcome = Outcome { partitions: 0, peak: 0, throttled: 0 };
    let mut user = 0_u32;
    let mut busy = HashMap::<String, u64>::new();
    for second in 0..SECONDS {
        for writes in busy.values_mut() {
            *writes = 0;
        }
        for _ in 0..rush(second) {
            // In no order: a large prime walks through all users, each once.
            user = (user + 2_147_483) % u32::try_from(PREDICTIONS).unwrap_or(u32::MAX);
            *busy.entry(keys::prediction(EVENT, shards, UserId(user + 1)).pk).or_default() += 1;
        }
        for writes in busy.values() {
            outcome.peak = outcome.peak.max(*writes);
            outcome.throttled += writes.saturating_sub(WRITES_PER_SECOND);
        }
    }
    outcome.partitions = busy.len();
    outcome
}

fn main() {
    println!("| arrivals | key | partitions | busiest partition, busiest second | throttled | lost |");
    println!("|---|---|---|---|---|---|");
    let rushes: [(&str, Rush); 3] =
        [("even", even), ("growing until kick-off", growing), ("a third in the last 30 s", late)];
    for (arrivals, rush) in rushes {
        assert_eq!((0..SECONDS).map(rush).sum::<u64>(), PREDICTIONS);
        for (key, shards) in [("featured: 64 shards", 64), ("4 shards", 4), ("unsharded", 1)] {
            let Outcome { partitions, peak, throttled } = play(rush, shards);
            let lost = throttled as f64 / PREDICTIONS as f64 * 100.0;
            println!("| {arrivals} | {key} | {partitions} | {peak} | {throttled} | {lost:.1} % |");
            assert!(shards < 64 || throttled == 0, "a featured match was throttled");
        }
    }
}
