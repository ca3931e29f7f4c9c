//! Queues the boards that have changed. The function `standings` builds them.

use std::collections::{BTreeMap, BTreeSet};

use touchline::domain::standings::Board;
use touchline::storage::stream::{Change, Record};

use crate::failures::Failure;
use crate::limits::TimeLimit;

/// Queues the boards of all changed statistics, with one write for each stream shard. Returns the records that failed.
pub async fn queue_changed_boards(time: &TimeLimit<'_>, records: &[Record]) -> Vec<Failure> {
    let mut changed: BTreeMap<&str, (BTreeSet<Board>, Vec<usize>)> = BTreeMap::new();
    for (index, record) in records.iter().enumerate() {
        if let Change::UserStats { boards, .. } = &record.change
            && !boards.is_empty()
        {
            let (of_shard, indexes) = changed.entry(&record.shard).or_default();
            of_shard.extend(boards);
            indexes.push(index);
        }
    }
    let mut failures = Vec::new();
    for (shard, (boards, indexes)) in changed {
        let (store, now) = (&time.app.store, time.app.clock.now());
        if let Err(error) = store.queue_boards(&boards, shard, now).await {
            tracing::warn!(%error, "cannot queue changed boards");
            failures.extend(indexes.into_iter().map(|index| Failure::new(index, &error)));
        }
    }
    failures
}
