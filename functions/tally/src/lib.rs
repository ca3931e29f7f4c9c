//! Processes the streams of the tables: updates counters exactly once, and copies data into memberships and
//! the room directory.
//!
//! A batch has records of one stream shard, in the order of the changes. Delivery is at least once, and a
//! redelivery can split the records into other batches. The records are grouped by the counter item that they
//! change. Each group is stored with one conditional write. The write also stores the last sequence number of
//! the group, so that a redelivered record is not counted again. A failed write does not affect other groups.

mod copies;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::tally::{Counters, EventTally, RoomCounts, UserStats, difference};
use touchline::storage::StoreError;
use touchline::storage::exactly_once::Addition;
use touchline::storage::stream::{Batch, Change, Record};
use touchline::storage::tallies::Aggregate;

use copies::CONCURRENT_WRITES;

/// Processes one batch. The response names the first record to redeliver, if any.
pub async fn handle(app: App, event: Value) -> Result<Value, StoreError> {
    let batch = Batch::read(event)?;
    let counts = PendingCounts::of(&batch.records);
    let (not_counted, not_copied) =
        (counts.write(&app).await, copies::copy_changes(&app, &batch.records).await);
    for record in &batch.unreadable {
        // If this write fails, the whole batch is redelivered. Records that were already counted are not
        // counted again.
        app.store.save_unreadable(record, app.clock.now()).await?;
    }
    let first_failed = not_counted.into_iter().chain(not_copied).min();
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
    users: Additions<'a, UserStats>,
    rooms: Additions<'a, RoomCounts>,
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
                Change::Prediction { shard, old, new } => {
                    let Some(row) = new.as_ref().or(old.as_ref()) else { continue };
                    let (old, new) = (old.as_ref(), new.as_ref());
                    let event = Aggregate::Event(row.event_id);
                    let counts = difference(|row| EventTally::of(row, *shard), old, new);
                    add(&mut pending.events, event, index, record, counts);
                    let user = Aggregate::User(row.user_id);
                    add(&mut pending.users, user, index, record, difference(UserStats::of, old, new));
                }
                Change::Member { shard, old, new, .. } => {
                    let Some(row) = new.as_ref().or(old.as_ref()) else { continue };
                    let room = Aggregate::Room(row.room_id.clone());
                    let counts = difference(|row| RoomCounts::of(row, *shard), old.as_ref(), new.as_ref());
                    add(&mut pending.rooms, room, index, record, counts);
                }
                Change::Room { .. } | Change::UserStats { .. } | Change::Team { .. } | Change::Other => {}
            }
        }
        pending
    }

    /// Writes every group. Returns the index of the first record in a failed group.
    async fn write(&self, app: &App) -> Option<usize> {
        let events = write(app, &self.events).await;
        let users = write(app, &self.users).await;
        let rooms = write(app, &self.rooms).await;
        events.into_iter().chain(users).chain(rooms).min()
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
        let addition = Addition { sequence: record.sequence, counts };
        additions.entry((aggregate, &record.shard)).or_default().push((index, addition));
    }
}

async fn write<C: Counters>(app: &App, additions: &Additions<'_, C>) -> Option<usize> {
    let now = app.clock.now();
    let writes = additions.iter().map(|((aggregate, shard), group)| async move {
        let first = group.first().map(|(index, _)| *index)?;
        let group: Vec<_> = group.iter().map(|(_, addition)| addition.clone()).collect();
        let written = app.store.fold(aggregate, shard, &group, now).await;
        written.err().map(|error| {
            tracing::warn!(%error, ?aggregate, "cannot update a counter; its records will be redelivered");
            first
        })
    });
    // The compiler cannot infer the closure's lifetimes without `collect`.
    let writes: Vec<_> = writes.collect();
    let failed: Vec<Option<usize>> = stream::iter(writes).buffer_unordered(CONCURRENT_WRITES).collect().await;
    failed.into_iter().flatten().min()
}
