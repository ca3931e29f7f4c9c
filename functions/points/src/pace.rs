//! How fast a run writes points. DynamoDB accepts 1,000 writes a second for a partition, and throttles everybody who
//! writes there above it: also fans who predict another match. So `points` stays below.

use std::time::Duration;

use tokio::time::Instant;

/// A match with fewer shards writes as slowly for each as a match with this many. With the default of 24,000 points a
/// second, that is 888 for a shard.
const FEWEST_SHARDS: u8 = 27;

/// How long a page of predictions takes. A run reads no page that it cannot finish before its deadline.
const PAGE_TAKES: Duration = Duration::from_secs(10);

/// The maximum number of predictions in a page. All shards have a page in memory.
const LARGEST_PAGE: u32 = if cfg!(test) { 3 } else { 1_000 };

/// Spreads the writes of one shard over time.
#[derive(Debug)]
pub struct Pace {
    /// The time from one write to the next.
    interval: Duration,
    page: usize,
    next: Instant,
}

impl Pace {
    /// Returns the pace of each shard of a match, so that all shards together get `per_second` points a second.
    pub fn of_shard(shards: u8, per_second: u32) -> Self {
        let share = u32::from(shards.max(FEWEST_SHARDS));
        let interval = Duration::from_secs(1) * share / per_second.max(1);
        Self { interval, page: page_of_shard(shards, per_second), next: Instant::now() }
    }

    /// Returns how many predictions to read at once. The progress is stored after every page.
    pub fn page(&self) -> usize {
        self.page
    }

    /// Returns when to write the next `rows` rows.
    pub fn turn(&mut self, rows: usize) -> Instant {
        let turn = self.next.max(Instant::now());
        self.next = turn + self.interval * u32::try_from(rows).unwrap_or(u32::MAX);
        turn
    }
}

/// Returns how many predictions of a shard a run reads at once.
#[must_use]
pub fn page_of_shard(shards: u8, per_second: u32) -> usize {
    let in_time = u64::from(per_second) * PAGE_TAKES.as_secs() / u64::from(shards.max(FEWEST_SHARDS));
    usize::try_from(in_time.clamp(1, LARGEST_PAGE.into())).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns how many seconds a shard takes for so many rows, in batches of 25.
    fn seconds_for(rows: usize, shards: u8, per_second: u32) -> f64 {
        let mut pace = Pace::of_shard(shards, per_second);
        let began = Instant::now();
        for _ in 0..rows / 25 {
            pace.turn(25);
        }
        (pace.next - began).as_secs_f64()
    }

    #[tokio::test(start_paused = true)]
    async fn the_shards_of_a_match_share_its_points_a_second() {
        for (shards, expected) in [(240, 10.0), (64, 1_000.0 * 64.0 / 24_000.0)] {
            let seconds = seconds_for(1_000, shards, 24_000);
            assert!((seconds - expected).abs() < 0.01, "{shards} shards: {seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_of_a_small_match_stays_below_the_limit_of_a_partition() {
        for shards in 1..=26 {
            let seconds = seconds_for(1_000, shards, 24_000);
            assert!((1.1..1.2).contains(&seconds), "{shards} shards: {seconds}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_shard_that_waited_does_not_catch_up() {
        let mut pace = Pace::of_shard(240, 24_000);
        tokio::time::advance(Duration::from_secs(60)).await;
        let now = Instant::now();
        assert_eq!(pace.turn(25), now);
        assert_eq!(pace.turn(25), now + Duration::from_millis(250));
    }

    #[test]
    fn a_page_takes_at_most_ten_seconds() {
        assert_eq!(page_of_shard(240, 240), 3, "the largest page of the tests");
        assert_eq!(page_of_shard(240, 48), 2);
        assert_eq!(page_of_shard(240, 1), 1);
    }
}
