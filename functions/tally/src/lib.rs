//! Processes the streams of the tables: updates counters exactly once, copies data into memberships and the room
//! directory, and queues the boards that have changed.
//!
//! A batch has records of one stream shard, in the order of the changes. Delivery is at least once, and a
//! redelivery can split the records into other batches. The records are grouped by the counter item that they
//! change. Each group is stored with one conditional write. The write also stores the last sequence number of
//! the group, so that a redelivered record is not counted again. A failed write does not affect other groups.
//!
//! The work for a user is limited (see `copies.rs`), and so is the time of a batch. What does not fit is redelivered.

mod boards;
mod copies;
mod failures;
mod limits;
mod rebuild;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::marker::Sighting;
use touchline::domain::standings::UserTally;
use touchline::domain::tally::{Counters, EventTally, RoomCounts, difference};
use touchline::storage::StoreError;
use touchline::storage::exactly_once::Addition;
use touchline::storage::stream::{Batch, Change, Record};
use touchline::storage::tallies::{Aggregate, Whole};

use failures::Failure;
use limits::{CONCURRENT_WRITES, TimeLimit};

/// Processes one batch. The response names the first record to redeliver, if any. An operator can also invoke the
/// function with `{"rebuild_directory": {}}`.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, StoreError> {
    if let Some(order) = event.get("rebuild_directory") {
        return rebuild::rebuild(&app, order).await;
    }
    let batch = Batch::read(event)?;
    let time = TimeLimit::before(deadline, &app);
    let not_counted = PendingCounts::of(&batch.records).write(&time).await;
    // Before the copies, which take longer: the boards can be built meanwhile.
    let not_queued = boards::queue_changed_boards(&time, &batch.records).await;
    let not_copied = copies::copy_changes(&time, &batch.records).await;
    let failures = not_counted.into_iter().chain(not_copied).chain(not_queued).collect();
    let first_failed = failures::first_to_redeliver(&app, &batch, failures).await?;
    let failed = first_failed.map(|index| batch.records[index].number.clone());
    let failures: Vec<Value> = failed.iter().map(|number| json!({ "itemIdentifier": number })).collect();
    // With a tumbling window, the response must have a `state`. The window is configured only because it adds
    // the shard id to the Lambda event.
    Ok(json!({ "batchItemFailures": failures, "state": {} }))
}

/// What a batch adds to counters, grouped by counter item.
#[derive(Default)]
struct PendingCounts<'a> {
    events: Additions<'a, EventTally>,
    users: Additions<'a, UserTally>,
    rooms: Additions<'a, RoomCounts>,
    /// The matches and rooms whose parts have changed, with the index of their first record.
    sums: BTreeMap<Whole, usize>,
}

/// The additions of a batch, grouped by counter item and stream shard. All records have the same shard, unless
/// the Lambda event lacks a shard id. Each group keeps the order of the batch. Each addition comes with the index
/// of its record in the batch.
type Additions<'a, C> = BTreeMap<(Aggregate, &'a str), Vec<(usize, Addition<C>)>>;

impl<'a> PendingCounts<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut pending = Self::default();
        for (index, record) in records.iter().enumerate() {
            match &record.change {
                Change::Prediction { shard, old, new, sighting } => {
                    let Some(row) = new.as_ref().or(old.as_ref()) else { continue };
                    let (old, new) = (old.as_ref(), new.as_ref());
                    let event = Aggregate::EventPart { event: row.event_id, shard: *shard };
                    let counts = difference(|row| EventTally::of(row, *shard), old, new);
                    add(&mut pending.events, event, index, record, counts);
                    let user = Aggregate::User(row.user_id);
                    see(&mut pending.users, user.clone(), index, record, sighting.as_ref());
                    add(&mut pending.users, user, index, record, UserTally::change(old, new));
                }
                Change::Member { shard, old, new, .. } => {
                    let Some(row) = new.as_ref().or(old.as_ref()) else { continue };
                    let room = Aggregate::RoomPart { room: row.room_id.clone(), shard: *shard };
                    let counts = difference(|row| RoomCounts::of(row, *shard), old.as_ref(), new.as_ref());
                    add(&mut pending.rooms, room, index, record, counts);
                }
                Change::Marker { aggregate, sighting } => match aggregate {
                    Aggregate::EventPart { .. } => {
                        see(&mut pending.events, aggregate.clone(), index, record, Some(sighting));
                    }
                    Aggregate::RoomPart { .. } => {
                        see(&mut pending.rooms, aggregate.clone(), index, record, Some(sighting));
                    }
                    // Markers of users are in predictions.
                    Aggregate::User(_) => {}
                },
                Change::Part(whole) => {
                    pending.sums.entry(whole.clone()).or_insert(index);
                }
                Change::Room { .. }
                | Change::UserStats { .. }
                | Change::Team { .. }
                | Change::SessionEnded { .. }
                | Change::Cleanup(_)
                | Change::Other => {}
            }
        }
        pending
    }

    /// Writes every group, and the sums of the matches and rooms whose parts have changed. Returns the records that failed.
    async fn write(&self, time: &TimeLimit<'_>) -> Vec<Failure> {
        let events = write(time, &self.events).await;
        let users = write(time, &self.users).await;
        let rooms = write(time, &self.rooms).await;
        let sums = self.roll_up(time).await;
        events.into_iter().chain(users).chain(rooms).chain(sums).collect()
    }

    /// Adds up the parts of the matches and rooms whose parts have changed, once for each.
    async fn roll_up(&self, time: &TimeLimit<'_>) -> Vec<Failure> {
        let mut sums: Vec<(Whole, usize)> = self.sums.clone().into_iter().collect();
        sums.sort_by_key(|(_, first)| *first);
        let sums = sums.into_iter().map(|(whole, first)| async move {
            if !time.admits(first) {
                return Some(Failure::no_time(first));
            }
            let error = time.app.store.roll_up(&whole).await.err()?;
            tracing::warn!(%error, ?whole, "cannot add up counters");
            Some(Failure::new(first, &error))
        });
        let failed: Vec<Option<Failure>> =
            stream::iter(sums).buffer_unordered(CONCURRENT_WRITES).collect().await;
        failed.into_iter().flatten().collect()
    }
}

fn add<'a, C: Counters>(
    additions: &mut Additions<'a, C>,
    aggregate: Aggregate,
    index: usize,
    record: &'a Record,
    counts: C,
) {
    // Skip a record that adds zero. Do not skip a group whose sum is zero: a later batch may redeliver only
    // some records of the group, and would count them if the group's last sequence number were not stored.
    if counts != C::default() {
        let addition = Addition { sequence: record.sequence, counts, sighting: None };
        additions.entry((aggregate, &record.shard)).or_default().push((index, addition));
    }
}

/// Adds the marker of a recount. It counts nothing.
fn see<'a, C: Counters>(
    additions: &mut Additions<'a, C>,
    aggregate: Aggregate,
    index: usize,
    record: &'a Record,
    sighting: Option<&Sighting>,
) {
    if let Some(sighting) = sighting {
        let addition =
            Addition { sequence: record.sequence, counts: C::default(), sighting: Some(sighting.clone()) };
        additions.entry((aggregate, &record.shard)).or_default().push((index, addition));
    }
}

async fn write<C: Counters>(time: &TimeLimit<'_>, additions: &Additions<'_, C>) -> Vec<Failure> {
    let (app, now) = (time.app, time.app.clock.now());
    // Write the groups in the order of the batch. In another order, a batch that runs out of time could fail at one of its
    // first records each time, and never get further.
    let mut groups: Vec<_> = additions.iter().collect();
    groups.sort_by_key(|(_, records)| records.first().map(|(index, _)| *index));
    let writes = groups.into_iter().map(|((aggregate, shard), records)| async move {
        let Some((first, _)) = records.first() else { return Vec::new() };
        if !time.admits(*first) {
            return records.iter().map(|(index, _)| Failure::no_time(*index)).collect();
        }
        let group: Vec<_> = records.iter().map(|(_, addition)| addition.clone()).collect();
        let written = app.store.fold(aggregate, shard, &group, now).await;
        let Err(error) = written else { return Vec::new() };
        tracing::warn!(%error, ?aggregate, "cannot update a counter");
        records.iter().map(|(index, _)| Failure::new(*index, &error)).collect()
    });
    // The compiler cannot infer the closure's lifetimes without `collect`.
    let writes: Vec<_> = writes.collect();
    let failed: Vec<Vec<Failure>> = stream::iter(writes).buffer_unordered(CONCURRENT_WRITES).collect().await;
    failed.into_iter().flatten().collect()
}
