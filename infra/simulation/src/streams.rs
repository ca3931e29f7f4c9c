//! DynamoDB Streams and Lambda's event source mappings: several shards that split while in use, parents before
//! children, batches cut anywhere, redeliveries, two readers of one shard, and failed batches that are halved.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline_stack::resources::StreamMapping;
use touchline_stack::streams::{event, sequence};

use crate::clock::VirtualClock;
use crate::dice::Dice;
use crate::dynamodb::Change;
use crate::fault::Faults;
use crate::lambda::Lambda;
use crate::signal::Signal;
use crate::trace::Trace;

/// The maximum number of shards of a stream that accept records at the same time.
const MAX_OPEN_SHARDS: usize = 6;

/// The maximum number of records that a lost position goes back.
const MAX_RECORDS_BACK: usize = 50;

/// How many of 1,000 batches Lambda gives up, in worlds that lose records.
const LOST_PER_MILLE: u32 = 15;

/// A shard splits after this many records, on average.
const RECORDS_PER_SPLIT: u32 = 120;

/// The streams of all tables.
#[derive(Debug)]
pub struct Streams {
    by_table: Mutex<BTreeMap<String, Stream>>,
    /// How many records each mapping has delivered, by mapping and shard.
    positions: Mutex<BTreeMap<(usize, usize), usize>>,
    /// Wakes the tasks that wait for a new record or a new position.
    changed: Signal,
    clock: VirtualClock,
    dice: Dice,
    /// Whether shards never split or end.
    is_steady: bool,
    /// Whether Lambda gives up some records.
    loses_records: bool,
}

#[derive(Debug, Default)]
struct Stream {
    shards: Vec<Shard>,
    last_sequence: u64,
}

#[derive(Debug)]
struct Shard {
    id: String,
    parent: Option<usize>,
    /// The shard holds the items whose hash is in this range, both ends included.
    range: (u16, u16),
    records: Vec<Value>,
    /// When another shard replaces this one.
    ends: DateTime<Utc>,
    is_open: bool,
}

impl Streams {
    /// Creates the streams of the tables.
    #[must_use]
    pub fn new(tables: &[String], clock: VirtualClock, dice: Dice) -> Self {
        let streams = tables.iter().map(|table| {
            let mut stream = Stream::default();
            for range in [(0, 0x7fff), (0x8000, 0xffff)] {
                stream.open(None, range, clock, &dice);
            }
            (table.clone(), stream)
        });
        Self {
            by_table: Mutex::new(streams.collect()),
            positions: Mutex::default(),
            changed: Signal::default(),
            clock,
            dice,
            is_steady: false,
            loses_records: false,
        }
    }

    /// Returns the same streams. Lambda gives up some of their records and never delivers them.
    #[must_use]
    pub fn losing_records(self) -> Self {
        Self { loses_records: true, ..self }
    }

    /// Creates streams whose shards never split or end. `shards` has the number of shards of each table.
    #[must_use]
    pub fn steady(shards: &BTreeMap<String, usize>, clock: VirtualClock, dice: Dice) -> Self {
        let streams = shards.iter().map(|(table, count)| {
            let mut stream = Stream::default();
            let start = |number: usize| u16::try_from(number * 0x1_0000 / count).unwrap_or(u16::MAX);
            for number in 0..*count {
                let end = if number + 1 == *count { u16::MAX } else { start(number + 1) - 1 };
                stream.open(None, (start(number), end), clock, &dice);
            }
            stream.shards.iter_mut().for_each(|shard| shard.ends = DateTime::<Utc>::MAX_UTC);
            (table.clone(), stream)
        });
        let by_table = Mutex::new(streams.collect());
        Self { by_table, is_steady: true, ..Self::new(&[], clock, dice) }
    }

    /// Appends a change to the stream of its table, if the table has one. Sometimes splits the shard.
    pub fn add(&self, change: &Change) {
        let mut streams = self.by_table.lock().expect("no holder of the lock panics");
        let Some(stream) = streams.get_mut(&change.key.table) else { return };
        stream.last_sequence += 1 + u64::from(self.dice.below(1_000));
        let record = record(change, stream.last_sequence, self.clock);
        let hash = hash(&change.key.pk);
        let index = stream
            .shards
            .iter()
            .position(|shard| shard.is_open && (shard.range.0..=shard.range.1).contains(&hash));
        let mut index = index.expect("the open shards cover every hash");
        if self.clock.time() > stream.shards[index].ends {
            stream.shards[index].is_open = false;
            stream.open(Some(index), stream.shards[index].range, self.clock, &self.dice);
            index = stream.shards.len() - 1;
        }
        stream.shards[index].records.push(record);
        let open = stream.shards.iter().filter(|shard| shard.is_open).count();
        if !self.is_steady && self.dice.once_in(RECORDS_PER_SPLIT) {
            stream.shards[index].is_open = false;
            let (low, high) = stream.shards[index].range;
            if open < MAX_OPEN_SHARDS && low < high {
                let middle = low + (high - low) / 2;
                stream.open(Some(index), (low, middle), self.clock, &self.dice);
                stream.open(Some(index), (middle + 1, high), self.clock, &self.dice);
            } else {
                stream.open(Some(index), (low, high), self.clock, &self.dice);
            }
        }
        drop(streams);
        self.changed.change();
    }

    /// Returns all records of a table, in the order of the changes.
    #[must_use]
    pub fn records(&self, table: &str) -> Vec<Value> {
        let streams = self.by_table.lock().expect("no holder of the lock panics");
        let shards = streams.get(table).map(|stream| stream.shards.as_slice()).unwrap_or_default();
        let mut records: Vec<Value> = shards.iter().flat_map(|shard| shard.records.clone()).collect();
        records.sort_by(|one, other| sequence(one).cmp(sequence(other)));
        records
    }

    /// Returns whether every mapping has delivered every record.
    #[must_use]
    pub fn are_drained(&self, mappings: &[StreamMapping]) -> bool {
        let streams = self.by_table.lock().expect("no holder of the lock panics");
        let positions = self.positions.lock().expect("no holder of the lock panics");
        mappings.iter().enumerate().all(|(number, mapping)| {
            let shards =
                streams.get(&mapping.table).map(|stream| stream.shards.as_slice()).unwrap_or_default();
            shards.iter().enumerate().all(|(index, shard)| {
                positions.get(&(number, index)).copied().unwrap_or(0) == shard.records.len()
            })
        })
    }

    /// Delivers the records of a mapping's stream to its function, forever. One task for each shard.
    pub async fn deliver(
        self: Arc<Self>,
        number: usize,
        mapping: StreamMapping,
        function: String,
        lambda: Arc<Lambda>,
        faults: Arc<Faults>,
        trace: Arc<Trace>,
    ) {
        let lost = Mutex::default();
        let mapping = Arc::new(Mapping { number, source: mapping, function, lambda, faults, trace, lost });
        let mut started = 0;
        let mut seen = 0;
        loop {
            let shards = {
                let streams = self.by_table.lock().expect("no holder of the lock panics");
                streams.get(&mapping.source.table).map_or(0, |stream| stream.shards.len())
            };
            for index in started..shards {
                tokio::spawn(Arc::clone(&self).deliver_shard(index, Arc::clone(&mapping)));
            }
            started = started.max(shards);
            self.changed.changed(&mut seen).await;
        }
    }

    async fn deliver_shard(self: Arc<Self>, index: usize, mapping: Arc<Mapping>) {
        let dice = mapping.faults.dice();
        let mut seen = 0;
        let mut position = 0;
        // The end of the records that were delivered or lost.
        let mut delivered = 0;
        // The maximum size of the next batch. After a failed batch it is half of that batch, as in Lambda.
        let mut limit = usize::MAX;
        loop {
            let Some((shard, records)) = self.batch(index, position, limit, &mapping) else {
                if self.has_ended(index, position, &mapping) {
                    return;
                }
                self.changed.changed(&mut seen).await;
                // Lambda gathers records for up to two seconds. Sometimes it is behind by minutes. Then batches are large.
                let longest = if mapping.faults.occurs("StreamBehind", 3) { 900_000 } else { 2_000 };
                tokio::time::sleep(dice.millis(0, longest)).await;
                continue;
            };
            let end = position + records.len();
            // A late second reader could still deliver records that were delivered before.
            if self.loses_records
                && position >= delivered
                && mapping.faults.occurs("LostBatch", LOST_PER_MILLE)
            {
                mapping.lose(index, position..end);
            }
            delivered = delivered.max(end);
            let accepted: Vec<Value> = (position..end)
                .zip(&records)
                .filter(|(at, record)| mapping.source.accepts(record) && !mapping.has_lost(index, *at))
                .map(|(_, record)| record.clone())
                .collect();
            let failed = if accepted.is_empty() { Ok(None) } else { mapping.invoke(&shard, &accepted).await };
            match failed {
                Ok(None) if mapping.faults.occurs("Redelivery", 40) => {}
                // The position was lost. An earlier one is still known.
                Ok(None) if mapping.faults.occurs("OldRedelivery", 10) => {
                    let back = dice.below(u32::try_from(end.min(MAX_RECORDS_BACK)).unwrap_or(1));
                    position = end - back as usize;
                }
                Ok(None) => (position, limit) = (end, usize::MAX),
                Ok(Some(number)) => {
                    let at = records.iter().position(|record| sequence(record) == number);
                    position += at.unwrap_or(0);
                    tokio::time::sleep(dice.millis(100, 2_000)).await;
                }
                Err(()) => {
                    limit = (records.len() / 2).max(1);
                    tokio::time::sleep(dice.millis(500, 5_000)).await;
                }
            }
            self.positions
                .lock()
                .expect("no holder of the lock panics")
                .insert((mapping.number, index), position);
            self.changed.change();
        }
    }

    /// Returns the shard's id and its next records, or `None` if there is nothing to deliver yet.
    fn batch(
        &self,
        index: usize,
        from: usize,
        limit: usize,
        mapping: &Mapping,
    ) -> Option<(String, Vec<Value>)> {
        let streams = self.by_table.lock().expect("no holder of the lock panics");
        let shards = &streams.get(&mapping.source.table)?.shards;
        let shard = &shards[index];
        // The records of the parent come first.
        if let Some(parent) = shard.parent {
            let positions = self.positions.lock().expect("no holder of the lock panics");
            let passed = positions.get(&(mapping.number, parent)).copied().unwrap_or(0);
            if passed < shards[parent].records.len()
                || !Self::is_passed(shards, parent, mapping.number, &positions)
            {
                return None;
            }
        }
        let open = &shard.records[from..];
        if open.is_empty() {
            return None;
        }
        let most = u32::try_from(open.len().min(limit).min(mapping.source.batch_size)).unwrap_or(1);
        let count = if self.dice.once_in(3) { 1 + self.dice.below(most) } else { most };
        Some((shard.id.clone(), open[..count as usize].to_vec()))
    }

    /// Returns whether a mapping has delivered a shard and all its ancestors.
    fn is_passed(
        shards: &[Shard],
        index: usize,
        mapping: usize,
        positions: &BTreeMap<(usize, usize), usize>,
    ) -> bool {
        let shard = &shards[index];
        let passed = positions.get(&(mapping, index)).copied().unwrap_or(0) == shard.records.len();
        passed && shard.parent.is_none_or(|parent| Self::is_passed(shards, parent, mapping, positions))
    }

    fn has_ended(&self, index: usize, position: usize, mapping: &Mapping) -> bool {
        let streams = self.by_table.lock().expect("no holder of the lock panics");
        let Some(stream) = streams.get(&mapping.source.table) else { return true };
        let shard = &stream.shards[index];
        !shard.is_open && position == shard.records.len()
    }
}

impl Stream {
    fn open(&mut self, parent: Option<usize>, range: (u16, u16), clock: VirtualClock, dice: &Dice) {
        let opened = clock.time();
        let id = format!("shardId-{:020}-{:08x}", opened.timestamp_millis(), dice.below(u32::MAX));
        // DynamoDB replaces a shard after about four hours. The times here vary more, to test short and long lives.
        let ends = opened + TimeDelta::minutes(i64::from(dice.between(30, 12 * 60)));
        self.shards.push(Shard { id, parent, range, records: Vec::new(), ends, is_open: true });
    }
}

/// An event source mapping.
#[derive(Debug)]
struct Mapping {
    number: usize,
    source: StreamMapping,
    function: String,
    lambda: Arc<Lambda>,
    faults: Arc<Faults>,
    trace: Arc<Trace>,
    /// The records that are never delivered: the shard, and the position in it.
    lost: Mutex<BTreeSet<(usize, usize)>>,
}

impl Mapping {
    fn lose(&self, shard: usize, records: Range<usize>) {
        self.trace.line(format_args!("stream {} loses {} records", self.source.table, records.len()));
        let mut lost = self.lost.lock().expect("no holder of the lock panics");
        lost.extend(records.map(|at| (shard, at)));
    }

    fn has_lost(&self, shard: usize, at: usize) -> bool {
        self.lost.lock().expect("no holder of the lock panics").contains(&(shard, at))
    }

    /// Invokes the function with a batch. Returns the number of the first failed record, or an error if the whole batch
    /// failed.
    async fn invoke(&self, shard: &str, records: &[Value]) -> Result<Option<String>, ()> {
        let arn = format!("arn:aws:dynamodb:eu-west-1:000000000000:table/{}/stream/1", self.source.table);
        let event = event(&arn, shard, records);
        self.trace.line(format_args!(
            "stream {} {shard}: {} records from {}",
            self.source.table,
            records.len(),
            records.first().map_or("", |record| sequence(record))
        ));
        if self.faults.occurs("TwoReaders", 30) {
            let (lambda, function, event) = (Arc::clone(&self.lambda), self.function.clone(), event.clone());
            // A late second reader delivers records that newer ones have followed.
            let dice = self.faults.dice();
            let delay = dice.millis(0, if dice.once_in(3) { 600_000 } else { 3_000 });
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                lambda.invoke(&function, event).await
            });
        }
        let invoked = self.lambda.invoke(&self.function, event).await;
        let payload = invoked.map_err(|_| ())?;
        let failures = payload["batchItemFailures"].as_array().cloned().unwrap_or_default();
        Ok(failures.first().and_then(|failure| failure["itemIdentifier"].as_str()).map(str::to_owned))
    }
}

/// Builds a record in the format in which Lambda sends it.
fn record(change: &Change, number: u64, clock: VirtualClock) -> Value {
    let name = match (&change.old, &change.new) {
        (None, _) => "INSERT",
        (_, None) => "REMOVE",
        _ => "MODIFY",
    };
    let mut dynamodb = json!({
        "ApproximateCreationDateTime": clock.time().timestamp(),
        "Keys": change.key.as_json(),
        "SequenceNumber": format!("1{number:023}"),
        "StreamViewType": "NEW_AND_OLD_IMAGES",
    });
    if let Some(old) = &change.old {
        dynamodb["OldImage"] = old.clone();
    }
    if let Some(new) = &change.new {
        dynamodb["NewImage"] = new.clone();
    }
    json!({ "eventName": name, "eventSource": "aws:dynamodb", "eventVersion": "1.1", "dynamodb": dynamodb })
}

/// Returns the hash of a partition key that decides which shard an item belongs to.
fn hash(pk: &str) -> u16 {
    let hash =
        pk.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    u16::try_from(hash >> 16).unwrap_or_default() ^ u16::try_from(hash & 0xffff).unwrap_or_default()
}
