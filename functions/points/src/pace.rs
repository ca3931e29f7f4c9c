//! How fast a run writes points. DynamoDB accepts 1,000 writes a second for a partition. If `points` wrote more, DynamoDB
//! would also throttle the fans whose predictions for other matches are in that partition.

use chrono::{DateTime, TimeDelta, Utc};
use touchline::storage::settlements::MAX_AWARDS;

/// A shard gets at most the highest rate divided by this number. With the default of 24,000 points a second, that is 888.
const FEWEST_SHARDS: u8 = 27;

/// How long the points of a match take in seconds, unless there are very few or very many. Most predictions arrive in the
/// minutes before kick-off, so the partitions can probably accept the points at this rate.
const SETTLES_IN: u32 = 200;

/// The lowest rate is the highest rate divided by this number. It applies to matches with few predictions, or whose
/// predictions are not counted yet.
const LOWEST_RATE_DIVISOR: u32 = 24;

/// How long a page of predictions takes at most. A run that begins a page shortly before it must stop still has time to finish it.
const PAGE_TAKES: TimeDelta = TimeDelta::seconds(10);

/// How long the rows of a batch take at most. With larger batches, a slow pace would write many rows in one burst, and then
/// none for a long time.
const BATCH_TAKES: TimeDelta = TimeDelta::milliseconds(250);

/// The maximum number of predictions in a page. A run has a page of every shard in memory.
const LARGEST_PAGE: i64 = if cfg!(test) { 3 } else { 1_000 };

/// How many points a match gets in a second.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    /// Of all shards together.
    per_second: u32,
    /// The highest rate of any match.
    highest: u32,
}

impl Rate {
    /// Returns the rate of a match with this number of predictions.
    #[must_use]
    pub fn of(predictions: i64, highest: u32) -> Self {
        let highest = highest.max(1);
        let in_time = u32::try_from(predictions / i64::from(SETTLES_IN)).unwrap_or_default();
        Self { per_second: in_time.clamp((highest / LOWEST_RATE_DIVISOR).max(1), highest), highest }
    }

    /// Returns the time from one write of a shard to the next.
    fn interval(self, shards: u8) -> TimeDelta {
        let seconds = |count: u8, per_second: u32| 1_000_000_000 * i64::from(count) / i64::from(per_second);
        let evenly = seconds(shards, self.per_second);
        TimeDelta::nanoseconds(evenly.max(seconds(FEWEST_SHARDS, self.highest)))
    }

    /// Returns the number of predictions in a page of a shard.
    #[must_use]
    pub fn page(self, shards: u8) -> usize {
        usize::try_from(count_in(PAGE_TAKES, self.interval(shards)).clamp(1, LARGEST_PAGE)).unwrap_or(1)
    }
}

/// Returns the number of rows in a batch, if a row is written in each interval.
fn batch(interval: TimeDelta) -> usize {
    usize::try_from(count_in(BATCH_TAKES, interval)).unwrap_or(usize::MAX).clamp(1, MAX_AWARDS)
}

/// Returns how many intervals fit into a time.
fn count_in(time: TimeDelta, interval: TimeDelta) -> i64 {
    let times = time.num_nanoseconds().zip(interval.num_nanoseconds());
    times.map_or(1, |(time, interval)| time / interval.max(1))
}

/// Spreads the writes of one shard over time.
#[derive(Debug)]
pub struct Pace {
    /// The time from one write to the next.
    interval: TimeDelta,
    /// How many predictions the shard reads next, and after that.
    next_page: usize,
    page: usize,
    /// How long the shard waits before its first write, so that not all shards begin at the same moment.
    delay: TimeDelta,
    /// When the next write may begin. `None` before the first one.
    next: Option<DateTime<Utc>>,
}

impl Pace {
    /// Returns the pace of a shard, so that all shards of its match together have this rate.
    ///
    /// All shards store their progress in the same item, after every page. The first pages have different sizes, so that these
    /// writes do not coincide.
    pub fn of_shard(shard: u8, shards: u8, rate: Rate) -> Self {
        let page = rate.page(shards);
        let next_page = (page * (usize::from(shard) + 1)).div_ceil(usize::from(shards.max(1)));
        let interval = rate.interval(shards);
        let batch = i32::try_from(batch(interval).min(page)).unwrap_or(i32::MAX);
        let delay = interval * batch * i32::from(shard) / i32::from(shards.max(1));
        Self { interval, next_page, page, delay, next: None }
    }

    /// Returns how many predictions to read next.
    pub fn page(&mut self) -> usize {
        std::mem::replace(&mut self.next_page, self.page)
    }

    /// Returns the number of rows in a batch.
    pub fn batch(&self) -> usize {
        batch(self.interval)
    }

    /// Returns when to write the next `rows` rows.
    pub fn turn(&mut self, rows: usize, now: DateTime<Utc>) -> DateTime<Utc> {
        let turn = self.next.map_or(now + self.delay, |next| next.max(now));
        self.next = Some(turn + self.interval * i32::try_from(rows).unwrap_or(i32::MAX));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: DateTime<Utc> = DateTime::UNIX_EPOCH;

    const FULL: Rate = Rate { per_second: 24_000, highest: 24_000 };

    /// Returns when a shard that has written 1,000 rows may continue, in milliseconds since it began.
    fn after_1000_rows(shards: u8) -> i64 {
        let mut pace = Pace::of_shard(0, shards, FULL);
        for _ in 0..40 {
            pace.turn(25, START);
        }
        (pace.turn(25, START) - START).num_milliseconds()
    }

    #[test]
    fn the_points_of_most_matches_take_200_seconds() {
        let rate = |predictions| Rate::of(predictions, 24_000).per_second;
        assert_eq!(rate(1_000_000), 5_000);
        assert_eq!(rate(4_800_000), 24_000);
        assert_eq!(rate(50_000_000), 24_000, "the limit");
        assert_eq!(rate(100_000), 1_000, "few predictions");
        assert_eq!(rate(0), 1_000);
        assert_eq!(Rate::of(-1, 1).per_second, 1);
    }

    #[test]
    fn all_shards_of_a_match_together_write_24_000_rows_a_second() {
        assert_eq!(after_1000_rows(240), 10_000);
        assert_eq!(after_1000_rows(64), 2_666);
    }

    #[test]
    fn a_shard_of_a_small_match_stays_below_the_limit_of_a_partition() {
        for shards in 1..=26 {
            assert_eq!(after_1000_rows(shards), 1_125, "{shards} shards");
        }
        let a_million = Rate::of(1_000_000, 24_000);
        assert_eq!(a_million.interval(4), FULL.interval(4), "as many as a partition takes");
        assert_eq!(a_million.interval(64), TimeDelta::microseconds(12_800));
    }

    #[test]
    fn the_shards_of_a_match_do_not_begin_at_the_same_moment() {
        // A batch of the tests has at most the 3 rows of a page.
        let first = |shard| Pace::of_shard(shard, 240, FULL).turn(3, START);
        assert_eq!(first(0), START);
        assert_eq!(first(120), START + TimeDelta::milliseconds(15));
    }

    #[test]
    fn a_shard_that_was_slow_does_not_catch_up() {
        let mut pace = Pace::of_shard(0, 240, FULL);
        assert_eq!(pace.turn(25, START), START);
        let later = START + TimeDelta::seconds(60);
        assert_eq!(pace.turn(25, later), later);
        assert_eq!(pace.turn(25, later), later + TimeDelta::milliseconds(250));
    }

    #[test]
    fn the_first_pages_of_the_shards_end_at_different_times() {
        let pages = |shard| {
            let mut pace = Pace { page: 1_000, ..Pace::of_shard(shard, 4, FULL) };
            [pace.page(), pace.page(), pace.page()]
        };
        assert_eq!(
            [0, 1, 2, 3].map(|shard| pages(shard)[0]),
            [1, 2, 3, 3],
            "of the 3 in a page of the tests"
        );
        assert_eq!(pages(0), [1, 1_000, 1_000]);
    }

    #[test]
    fn a_batch_has_the_rows_of_a_quarter_of_a_second_or_one() {
        let batch =
            |shards, highest| Pace::of_shard(0, shards, Rate { per_second: highest, highest }).batch();
        assert_eq!(batch(4, 24_000), MAX_AWARDS);
        assert_eq!(batch(240, 24_000), 25);
        assert_eq!(batch(240, 12_000), 12);
        assert_eq!(batch(240, 240), 1);
    }

    #[test]
    fn a_page_takes_at_most_ten_seconds() {
        let page = |highest| Rate { per_second: highest, highest }.page(240);
        assert_eq!(page(240), 3, "the largest page of the tests");
        assert_eq!(page(48), 2);
        assert_eq!(page(1), 1);
    }
}
