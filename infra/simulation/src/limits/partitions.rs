//! The partitions of one table or global index.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::bucket::Bucket;

/// What one partition accepts in a second.
pub const PARTITION: Throughput = Throughput { reads: 3_000.0, writes: 1_000.0 };

/// What a new on-demand table is ready for.
pub const NEW_TABLE: Throughput = Throughput { reads: 12_000.0, writes: 4_000.0 };

/// A partition that grows beyond this splits. An item collection of a table with a local index ends here.
pub const PARTITION_BYTES: f64 = 10.0 * 1024.0 * 1024.0 * 1024.0;

/// How long a partition is near its limit before it splits. AWS publishes no time and guarantees no split. Its published
/// experiments show splits after some minutes of load.
const HOT_FOR: Duration = Duration::from_mins(10);

/// The share of its limit from which a partition counts as hot.
const HOT: f64 = 0.8;

/// How many of its latest accesses a partition remembers, to find the key at which it splits.
const SAMPLES: usize = 64;

/// Units a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throughput {
    pub reads: f64,
    pub writes: f64,
}

/// Whether units are read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Read,
    Write,
}

/// A key of a table or index.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ItemKey {
    pub pk: String,
    pub sk: String,
}

/// The partition that came nearest to its limit.
#[derive(Debug, Clone, PartialEq)]
pub struct Busiest {
    /// The partition key that most of the units went to.
    pub pk: String,
    pub kind: Kind,
    /// Units a second.
    pub rate: f64,
}

impl Busiest {
    /// Returns the rate as a share of the limit.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.rate / limit(self.kind)
    }
}

/// The depth of a bucket: the units of a second, or of ten requests of the model, which weigh more if the model is coarse.
#[must_use]
pub fn depth(rate: f64, scale: u32) -> f64 {
    rate.max(10.0 * f64::from(scale))
}

fn limit(kind: Kind) -> f64 {
    match kind {
        Kind::Read => PARTITION.reads,
        Kind::Write => PARTITION.writes,
    }
}

/// A place in the order of all items: the hash of the partition key, then the sort key.
type Place = (u64, String);

#[derive(Debug)]
pub struct Partitions {
    /// In the order of their places.
    list: Vec<Partition>,
    /// Whether a split can divide the items of one partition key. Not with a local index.
    divides_collections: bool,
    began: Instant,
    scale: u32,
    /// The time over which the load is averaged.
    window: Duration,
    busiest: Option<Busiest>,
}

#[derive(Debug)]
struct Partition {
    /// The first place.
    start: Place,
    reads: Meter,
    writes: Meter,
    bytes: f64,
    samples: VecDeque<Place>,
}

/// The bucket of a partition, and its use in the current window.
#[derive(Debug)]
struct Meter {
    bucket: Bucket,
    /// The number of the current window.
    window: u32,
    used: f64,
    hot_since: Option<Instant>,
    /// The partition key with most of the units, and its votes (Boyer–Moore). Exact if one key has more than half.
    leader: (String, f64),
}

impl Meter {
    fn new(kind: Kind, scale: u32, now: Instant) -> Self {
        let rate = limit(kind);
        let bucket = Bucket::new(rate, depth(rate, scale), now);
        Self { bucket, window: 0, used: 0.0, hot_since: None, leader: (String::new(), 0.0) }
    }

    fn count(&mut self, pk: &str, units: f64) {
        self.used += units;
        if self.leader.0 == pk {
            self.leader.1 += units;
        } else if self.leader.1 < units {
            self.leader = (pk.to_owned(), units);
        } else {
            self.leader.1 -= units;
        }
    }
}

impl Partitions {
    /// Creates the partitions that a throughput takes, in a model of 1:`scale`.
    #[must_use]
    pub fn new(throughput: Throughput, has_local_index: bool, scale: u32, now: Instant) -> Self {
        let window = Duration::from_secs_f64(f64::from(scale).sqrt());
        let needed = (throughput.writes / PARTITION.writes).max(throughput.reads / PARTITION.reads);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands at most")]
        let count = (needed.ceil() as u64).max(1);
        let list = (0..count)
            .map(|number| Partition::new(((u64::MAX / count) * number, String::new()), scale, now))
            .collect();
        Self { list, divides_collections: !has_local_index, began: now, scale, window, busiest: None }
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns whether the partition of a key takes another request.
    pub fn admits(&mut self, key: &ItemKey, kind: Kind, now: Instant) -> bool {
        let index = self.find(&place(key));
        self.list[index].meter(kind).bucket.has_any(now)
    }

    /// Returns when the partition of a key takes another request.
    pub fn admits_at(&mut self, key: &ItemKey, kind: Kind, now: Instant) -> Instant {
        let index = self.find(&place(key));
        self.list[index].meter(kind).bucket.paid_at(now)
    }

    /// Counts the units of a request, after it was carried out. Splits the partition if it has been hot for long.
    pub fn charge(&mut self, key: &ItemKey, kind: Kind, units: f64, now: Instant) {
        let place = place(key);
        let index = self.find(&place);
        self.end_window(index, kind, now);
        let partition = &mut self.list[index];
        partition.samples.push_back(place);
        if partition.samples.len() > SAMPLES {
            partition.samples.pop_front();
        }
        let meter = partition.meter(kind);
        meter.bucket.take(units, now);
        meter.count(&key.pk, units);
        if meter.hot_since.is_some_and(|since| now.duration_since(since) >= HOT_FOR) {
            self.split(index, now);
        }
    }

    /// Ends the window of a meter if its time is over.
    fn end_window(&mut self, index: usize, kind: Kind, now: Instant) {
        let seconds = self.window.as_secs_f64();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a world lasts days")]
        let window = (now.duration_since(self.began).as_secs_f64() / seconds) as u32;
        let meter = self.list[index].meter(kind);
        if meter.window == window {
            return;
        }
        let ended = Busiest { pk: std::mem::take(&mut meter.leader.0), kind, rate: meter.used / seconds };
        let is_next = meter.window + 1 == window;
        (meter.window, meter.used, meter.leader.1) = (window, 0.0, 0.0);
        if ended.share() >= HOT && is_next {
            meter.hot_since.get_or_insert(now);
        } else {
            meter.hot_since = None;
        }
        if self.busiest.as_ref().is_none_or(|busiest| ended.share() > busiest.share()) {
            self.busiest = Some(ended);
        }
    }

    /// Adds the bytes by which an item grew. Splits the partition if it is full.
    pub fn grow(&mut self, key: &ItemKey, bytes: f64, now: Instant) {
        let index = self.find(&place(key));
        self.list[index].bytes += bytes;
        if self.list[index].bytes > PARTITION_BYTES {
            self.split(index, now);
        }
    }

    /// Returns the partition that came nearest to its limit in any window.
    #[must_use]
    pub fn busiest(&self) -> Option<&Busiest> {
        self.busiest.as_ref()
    }

    fn find(&self, place: &Place) -> usize {
        self.list.partition_point(|partition| partition.start <= *place) - 1
    }

    /// Splits a partition at the middle of its latest accesses. Does nothing if all of them are at one place that cannot be
    /// divided.
    fn split(&mut self, index: usize, now: Instant) {
        let partition = &mut self.list[index];
        (partition.reads.hot_since, partition.writes.hot_since) = (None, None);
        let mut places: Vec<Place> = partition.samples.drain(..).collect();
        if !self.divides_collections {
            for place in &mut places {
                place.1.clear();
            }
        }
        places.sort();
        let middle = places.get(places.len() / 2);
        let at = middle.into_iter().chain(&places).find(|place| **place > partition.start).cloned();
        let Some(at) = at else { return };
        partition.bytes /= 2.0;
        let mut upper = Partition::new(at, self.scale, now);
        upper.bytes = partition.bytes;
        self.list.insert(index + 1, upper);
    }
}

impl Partition {
    fn new(start: Place, scale: u32, now: Instant) -> Self {
        Self {
            start,
            reads: Meter::new(Kind::Read, scale, now),
            writes: Meter::new(Kind::Write, scale, now),
            bytes: 0.0,
            samples: VecDeque::new(),
        }
    }

    fn meter(&mut self, kind: Kind) -> &mut Meter {
        match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
        }
    }
}

fn place(key: &ItemKey) -> Place {
    // FNV-1a, then the finalizer of SplitMix64, because FNV-1a hardly changes the upper bits of similar keys.
    let mut hash = key.pk.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ (hash >> 31), key.sk.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(pk: &str, sk: &str) -> ItemKey {
        ItemKey { pk: pk.into(), sk: sk.into() }
    }

    /// Writes one unit to each of the keys in turn, `rate` times a second. Returns how many were throttled.
    fn write(partitions: &mut Partitions, keys: &[ItemKey], rate: u32, from: Instant, seconds: u32) -> u32 {
        let mut throttled = 0;
        for number in 0..rate * seconds {
            let now = from + SECOND * number / rate;
            let key = &keys[number as usize % keys.len()];
            if partitions.admits(key, Kind::Write, now) {
                partitions.charge(key, Kind::Write, 1.0, now);
            } else {
                throttled += 1;
            }
        }
        throttled
    }

    #[test]
    fn a_new_table_has_four_partitions_and_a_warm_one_more() {
        let count =
            |reads, writes| Partitions::new(Throughput { reads, writes }, false, 1, Instant::now()).count();
        assert_eq!(count(12_000.0, 4_000.0), 4);
        assert_eq!(count(12_000.0, 20_000.0), 20);
        assert_eq!(count(90_000.0, 4_000.0), 30);
    }

    #[test]
    fn one_key_takes_a_thousand_writes_a_second_however_warm_the_table_is() {
        let start = Instant::now();
        let new = || Partitions::new(Throughput { reads: 0.0, writes: 50_000.0 }, false, 1, start);
        let keys: Vec<ItemKey> = (0..10).map(|sk| key("hot", &sk.to_string())).collect();
        assert_eq!(write(&mut new(), &keys, 1_000, start, 5), 0);
        let mut hot = new();
        let throttled = write(&mut hot, &keys, 2_000, start, 10);
        // The bucket is full at the start, so the first second has none.
        assert!((8_000..10_000).contains(&throttled), "{throttled}");
        let busiest = hot.busiest().unwrap();
        assert_eq!((busiest.pk.as_str(), busiest.kind), ("hot", Kind::Write));
        assert!((900.0..2_100.0).contains(&busiest.rate), "{busiest:?}");
    }

    #[test]
    fn a_hot_partition_splits_after_minutes_and_a_local_index_prevents_it() {
        let keys: Vec<ItemKey> = (0..10).map(|sk| key("hot", &sk.to_string())).collect();
        for (has_local_index, expected) in [(false, 2), (true, 1)] {
            let start = Instant::now();
            let throughput = Throughput { reads: 0.0, writes: 1_000.0 };
            let mut partitions = Partitions::new(throughput, has_local_index, 1, start);
            write(&mut partitions, &keys, 1_500, start, 300);
            assert_eq!(partitions.count(), 1, "five minutes are not enough");
            write(&mut partitions, &keys, 1_500, start + 300 * SECOND, 400);
            // A table with a local index can only cut before the collection, which leaves it whole.
            assert_eq!(partitions.count(), 2);
            let cut = &partitions.list[1].start;
            assert_eq!(usize::from(!cut.1.is_empty()) + 1, expected, "{cut:?}");
            let more = start + 700 * SECOND;
            let throttled = write(&mut partitions, &keys, 1_500, more, 60);
            assert_eq!(throttled > 10_000, has_local_index, "{throttled}");
        }
    }

    #[test]
    fn a_full_partition_splits() {
        let start = Instant::now();
        let mut partitions = Partitions::new(Throughput { reads: 0.0, writes: 1_000.0 }, false, 1, start);
        let keys: Vec<ItemKey> = (0..50).map(|pk| key(&pk.to_string(), "")).collect();
        write(&mut partitions, &keys, 50, start, 1);
        for key in &keys {
            partitions.grow(key, PARTITION_BYTES / 40.0, start);
        }
        assert_eq!(partitions.count(), 2);
    }
}
