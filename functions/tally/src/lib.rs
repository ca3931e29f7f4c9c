//! Folds tables' changes into counts, exactly once.
//!
//! A batch comes from one shard of a stream, in order, at least once, and maybe in other batches the next
//! time. It is grouped by what it changes; each group is added in one conditional write that also notes
//! how far it goes. So whatever comes again is known, and a group that fails takes no other with it.

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::tally::{Counters, EventCounts, UserRecord, change};
use touchline::storage::StoreError;
use touchline::storage::stream::{Batch, Change, Record};
use touchline::storage::tallies::{Addition, Aggregate};

/// How many groups are written at once.
const AT_ONCE: usize = 16;

/// One delivery. The answer names the first record that must come again, if any.
pub async fn handle(app: App, event: Value) -> Result<Value, StoreError> {
    let batch = Batch::read(event)?;
    let groups = Groups::of(&batch.records);
    let first_failed = groups.fold(&app).await;
    let failed = first_failed.map(|at| batch.records[at].number.clone()).or(batch.unreadable);
    let failures: Vec<Value> = failed.iter().map(|number| json!({ "itemIdentifier": number })).collect();
    // `state` belongs to the window, which is there for the shard's name alone.
    Ok(json!({ "batchItemFailures": failures, "state": {} }))
}

/// Changes by what they change. Within one, in the order of the batch, each with its place in it.
#[derive(Default)]
struct Groups<'a> {
    events: Group<'a, EventCounts>,
    users: Group<'a, UserRecord>,
}

type Group<'a, C> = BTreeMap<(Aggregate, &'a str), Vec<(usize, Addition<C>)>>;

impl<'a> Groups<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut groups = Self::default();
        for (at, record) in records.iter().enumerate() {
            let Change::Prediction { old, new } = &record.change else { continue };
            let Some(row) = new.as_ref().or(old.as_ref()) else { continue };
            let (old, new) = (old.as_ref(), new.as_ref());
            let event = Aggregate::Event(row.event_id);
            add(&mut groups.events, event, at, record, change(EventCounts::of, old, new));
            let user = Aggregate::User(row.user_id);
            add(&mut groups.users, user, at, record, change(UserRecord::of, old, new));
        }
        groups
    }

    /// Writes every group. Returns the place of the first record of those that failed.
    async fn fold(&self, app: &App) -> Option<usize> {
        let events = fold(app, &self.events).await;
        let users = fold(app, &self.users).await;
        events.into_iter().chain(users).min()
    }
}

fn add<'a, C: Counters>(
    group: &mut Group<'a, C>,
    aggregate: Aggregate,
    at: usize,
    record: &'a Record,
    counts: C,
) {
    // A record that adds nothing may be left out; a run whose sum is nothing may not, because the next
    // time only a part of it may come.
    if counts != C::default() {
        let addition = Addition { sequence: record.sequence.clone(), counts };
        group.entry((aggregate, &record.lane)).or_default().push((at, addition));
    }
}

async fn fold<C: Counters>(app: &App, groups: &Group<'_, C>) -> Option<usize> {
    let now = app.clock.now();
    let folding = groups.iter().map(|((aggregate, lane), additions)| async move {
        let first = additions.first().map(|(at, _)| *at)?;
        let additions: Vec<_> = additions.iter().map(|(_, addition)| addition.clone()).collect();
        let folded = app.store.fold(aggregate, lane, &additions, now).await;
        folded.err().map(|error| {
            tracing::warn!(%error, ?aggregate, "a count could not be written; its changes come again");
            first
        })
    });
    // Collected: the compiler cannot see through the closure otherwise.
    let folding: Vec<_> = folding.collect();
    let failed: Vec<Option<usize>> = stream::iter(folding).buffer_unordered(AT_ONCE).collect().await;
    failed.into_iter().flatten().min()
}
