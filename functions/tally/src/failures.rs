//! Records that failed: which of them are redelivered, and which are set aside.
//!
//! Lambda redelivers a failed record and all records behind it, until they expire after a day. So a record that fails for
//! ever would block its stream shard, and the changes behind it would be lost. It is set aside instead: it is stored for
//! operators, and the records behind it proceed.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use touchline::domain::tally::{is_failure_noted, is_given_up};
use touchline::storage::StoreError;
use touchline::storage::stream::{Batch, Record};
use touchline::{App, lambda};

use crate::limits::CONCURRENT_WRITES;

/// A part of a record's work that was not done.
#[derive(Debug)]
pub struct Failure {
    /// The index of the record in its batch.
    index: usize,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Error { is_permanent: bool, reason: String },
    NoTime,
}

impl Failure {
    pub fn new(index: usize, error: &StoreError) -> Self {
        let cause = Cause::Error { is_permanent: error.is_permanent(), reason: error.to_string() };
        Self { index, cause }
    }

    /// A record that was not processed, because the time of the invocation is almost over.
    pub fn no_time(index: usize) -> Self {
        Self { index, cause: Cause::NoTime }
    }

    fn is_permanent(&self) -> bool {
        matches!(self.cause, Cause::Error { is_permanent: true, .. })
    }
}

/// Sets aside the records that cannot be processed. Returns the index of the first record to redeliver.
///
/// A record with a permanent error is set aside at once. Any other error is retried for some hours. After that, only the
/// first failed record of the batch is set aside: if the others fail for another reason than this one, each of them also gets
/// hours. So while all records fail, for example because a permission is missing, almost none of them is set aside.
pub async fn first_to_redeliver(
    app: &App,
    batch: &Batch,
    failures: Vec<Failure>,
) -> Result<Option<usize>, StoreError> {
    let now = app.clock.now();
    let (permanent, mut temporary): (Vec<_>, Vec<_>) = failures.into_iter().partition(Failure::is_permanent);
    let mut given_up = permanent;
    if let Some(first) = temporary.iter().map(|failure| failure.index).min() {
        let (of_first, others): (Vec<_>, Vec<_>) =
            temporary.into_iter().partition(|failure| failure.index == first);
        let was_tried = of_first.iter().any(|failure| !matches!(failure.cause, Cause::NoTime));
        if was_tried && fails_for_long(app, &batch.records[first], now).await {
            given_up.extend(of_first);
            temporary = others;
        } else {
            temporary = others.into_iter().chain(of_first).collect();
        }
    }
    set_aside(app, batch, given_up, now).await?;
    Ok(temporary.iter().map(|failure| failure.index).min())
}

async fn fails_for_long(app: &App, record: &Record, now: DateTime<Utc>) -> bool {
    if !record.changed_at.is_some_and(|changed_at| is_failure_noted(changed_at, now)) {
        return false;
    }
    match app.store.failing_since(&record.number, now).await {
        Ok(since) => is_given_up(since, now),
        Err(error) => {
            tracing::warn!(%error, "cannot store since when a stream record fails");
            false
        }
    }
}

/// Stores the records that cannot be read or processed. If a write fails, the whole batch is redelivered. Records that were
/// already counted are not counted again.
async fn set_aside(
    app: &App,
    batch: &Batch,
    failures: Vec<Failure>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let mut reasons = BTreeMap::<usize, Vec<String>>::new();
    for Failure { index, cause } in failures {
        if let Cause::Error { reason, .. } = cause {
            reasons.entry(index).or_default().push(reason);
        }
    }
    let unreadable =
        batch.unreadable.iter().map(|record| (&record.number, record.raw.clone(), "unreadable".to_owned()));
    let failed = reasons.into_iter().map(|(index, mut reasons)| {
        let record = &batch.records[index];
        reasons.dedup();
        (&record.number, record.identity(), reasons.join("; "))
    });
    let records: Vec<(&String, Value, String)> = unreadable.chain(failed).collect();
    if records.is_empty() {
        return Ok(());
    }
    for (number, _, reason) in &records {
        tracing::error!(number, reason, "set a stream record aside; its counts and copies may be wrong");
    }
    // Count the records first: an alarm must not depend on the writes.
    lambda::count(app, "SetAside", records.len());
    // The compiler cannot infer the closure's lifetimes without `collect`.
    let writes: Vec<_> = records
        .iter()
        .map(|(number, change, reason)| app.store.set_aside(number, change, reason, now))
        .collect();
    stream::iter(writes).buffer_unordered(CONCURRENT_WRITES).try_collect().await
}
