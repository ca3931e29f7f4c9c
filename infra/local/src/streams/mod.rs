//! Delivers the changes of tables to functions, as Lambda's event source mappings do: in order, one batch per shard at
//! a time, at least once. Each mapping has its own worker, so a slow function delays only its own mapping.

mod checkpoints;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::error::DisplayErrorContext;
use futures_util::future::{FutureExt as _, join_all};
use serde_json::Value;
use tokio::sync::watch;
use touchline_stack::streams::{StreamReader, TRIMMED_AT_ONCE, event, sequence};

use crate::calls::{self, Observed};
use crate::delivery::{Inbox, Inboxes};
use crate::host::Host;
use crate::traffic::Traffic;
use checkpoints::Checkpoints;

const LOCK: &str = "no holder of the lock panics";

/// How many attempts a record gets before it is skipped. In the last attempt, the record is alone in its batch. Lambda
/// sends such a record to a queue instead.
/// A pass (see `delivery.rs`) also gets this many attempts to read its stream.
const MAX_ATTEMPTS: u32 = 3;

/// The maximum number of records that one read of a stream returns.
const MAX_RECORDS: usize = 1_000;

/// The time before a failed read of a stream is retried.
const READ_PAUSE: Duration = Duration::from_millis(100);

/// The maximum number of deletions for one mapping in a round of maintenance. One deletion removes up to
/// [`TRIMMED_AT_ONCE`] records. Records that remain are deleted in the next round.
const MAX_TRIMS: usize = 50;

/// The time between two rounds of maintenance. Each round also reads the streams, to find the writes of other
/// processes.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(1);

/// The time between two deletions. A deletion blocks the writes to the embedded store. A blocked write tries again only
/// after some milliseconds, so it would miss a shorter pause.
const TRIM_PAUSE: Duration = Duration::from_millis(10);

/// Every stream mapping of the template.
#[derive(Debug)]
pub(crate) struct Streams {
    reader: StreamReader,
    host: Arc<Host>,
    subscriptions: Vec<Subscription>,
    checkpoints: Mutex<Checkpoints>,
    /// While a page is open, the work of the deliveries is recorded.
    traffic: Traffic,
}

#[derive(Debug)]
struct Subscription {
    inbox: Arc<Inbox>,
    stream_arn: String,
    /// The position of this mapping among the function's mappings to the same stream, from 0.
    ordinal: usize,
    /// The shards, if they never change. A stream of the embedded store always has the same shard.
    fixed_shards: Option<Vec<String>>,
}

impl Subscription {
    async fn shards(&self, reader: &StreamReader) -> Result<Vec<String>, String> {
        match &self.fixed_shards {
            Some(shards) => Ok(shards.clone()),
            None => reader.shards(&self.stream_arn).await,
        }
    }

    /// Returns the name of the checkpoint for a shard.
    fn checkpoint(&self, shard: &str) -> String {
        format!("{}/{}/{}/{shard}", self.inbox.function, self.ordinal, self.stream_arn)
    }
}

impl Streams {
    /// Finds the streams of all mapped tables. Without a file, checkpoints are kept in memory.
    pub(crate) async fn open(
        inboxes: &Inboxes,
        reader: StreamReader,
        dynamodb: &aws_sdk_dynamodb::Client,
        host: Arc<Host>,
        checkpoint_file: Option<PathBuf>,
        traffic: Traffic,
    ) -> Result<Self, String> {
        let mut subscriptions: Vec<Subscription> = Vec::new();
        for inbox in inboxes.all() {
            let stream_arn = stream_arn(dynamodb, &inbox.mapping.table).await?;
            let earlier = subscriptions
                .iter()
                .filter(|s| s.inbox.function == inbox.function && s.stream_arn == stream_arn);
            let ordinal = earlier.count();
            let fixed_shards = match &reader {
                StreamReader::Embedded(_) => Some(reader.shards(&stream_arn).await?),
                StreamReader::Remote(_) => None,
            };
            subscriptions.push(Subscription { inbox: Arc::clone(inbox), stream_arn, ordinal, fixed_shards });
        }
        let checkpoints = Mutex::new(Checkpoints::open(checkpoint_file));
        Ok(Self { reader, host, subscriptions, checkpoints, traffic })
    }

    /// Delivers records until the stack stops.
    pub(crate) async fn run(self: Arc<Self>, stopped: watch::Receiver<bool>) {
        let workers = (0..self.subscriptions.len()).map(|index| {
            let (streams, stopped) = (Arc::clone(&self), stopped.clone());
            tokio::spawn(async move { streams.work(&streams.subscriptions[index], stopped).await })
        });
        let workers: Vec<_> = workers.collect();
        self.maintain(stopped).await;
        for worker in workers {
            let _ = worker.await;
        }
        self.checkpoints.lock().expect(LOCK).save();
    }

    async fn work(&self, subscription: &Subscription, mut stopped: watch::Receiver<bool>) {
        loop {
            let number = tokio::select! {
                number = subscription.inbox.begin_pass() => number,
                _ = stopped.wait_for(|stop| *stop) => return,
            };
            // A panic must not end the worker: HTTP requests wait for the end of the pass.
            let pass = AssertUnwindSafe(self.deliver(subscription)).catch_unwind().await;
            if pass.is_err() {
                tracing::error!(function = subscription.inbox.function, "a delivery panicked");
            }
            let Observed { tickets, spans, .. } = pass.unwrap_or_default();
            subscription.inbox.finish_pass(number, tickets.into_vec(), spans);
        }
    }

    /// Requests passes, saves the checkpoints and trims the streams, until the stack stops.
    async fn maintain(&self, mut stopped: watch::Receiver<bool>) {
        let mut ticks = tokio::time::interval(MAINTENANCE_INTERVAL);
        let mut trimmed = BTreeMap::new();
        loop {
            let is_stopped = tokio::select! {
                _ = ticks.tick() => false,
                _ = stopped.wait_for(|stop| *stop) => true,
            };
            if is_stopped {
                return;
            }
            for subscription in &self.subscriptions {
                subscription.inbox.request_pass();
            }
            let is_saved = self.checkpoints.lock().expect(LOCK).save();
            if is_saved && let Err(error) = self.trim(&mut trimmed).await {
                tracing::warn!(error, "a stream could not be trimmed");
            }
        }
    }

    /// Deletes the records that no mapping needs any more, so that the store does not grow with every write.
    /// `trimmed` has, for each table, the sequence number up to which its records are deleted.
    async fn trim(&self, trimmed: &mut BTreeMap<String, String>) -> Result<(), String> {
        let StreamReader::Embedded(streams) = &self.reader else { return Ok(()) };
        for subscription in &self.subscriptions {
            for shard in subscription.shards(&self.reader).await? {
                let Some(passed) = self.passed_by_all(&subscription.stream_arn, &shard) else { continue };
                let table = &subscription.inbox.mapping.table;
                let mut is_trimmed = trimmed.get(table) == Some(&passed);
                for _ in 0..MAX_TRIMS {
                    if is_trimmed {
                        break;
                    }
                    let (streams, table, through) = (streams.clone(), table.clone(), passed.clone());
                    let delete = tokio::task::spawn_blocking(move || streams.trim(&table, &through));
                    let deleted = delete.await.map_err(|error| error.to_string())??;
                    is_trimmed = deleted < TRIMMED_AT_ONCE;
                    tokio::time::sleep(TRIM_PAUSE).await;
                }
                if is_trimmed {
                    trimmed.insert(table.clone(), passed);
                }
            }
        }
        Ok(())
    }

    /// Returns the lowest checkpoint of the mappings in a shard: no mapping needs the records up to this sequence
    /// number. Returns `None` if a mapping has no checkpoint yet.
    fn passed_by_all(&self, stream_arn: &str, shard: &str) -> Option<String> {
        let checkpoints = self.checkpoints.lock().expect(LOCK);
        let mappings = self.subscriptions.iter().filter(|mapping| mapping.stream_arn == stream_arn);
        let each = mappings.map(|mapping| checkpoints.get(&mapping.checkpoint(shard)));
        // The numbers have the same length, so their order as text is their numeric order.
        each.collect::<Option<Vec<_>>>()?.into_iter().min().cloned()
    }

    /// Delivers all records that are in the stream when the pass begins. Returns what the invoked function did.
    async fn deliver(&self, subscription: &Subscription) -> Observed {
        let delivered = calls::observe_delivery(self.traffic.has_subscribers(), async {
            for attempt in 1..=MAX_ATTEMPTS {
                match self.deliver_shards(subscription).await {
                    Ok(()) => return,
                    Err(error) => {
                        let function = &subscription.inbox.function;
                        tracing::error!(function, error, attempt, "a stream cannot be read");
                        tokio::time::sleep(READ_PAUSE).await;
                    }
                }
            }
        });
        delivered.await.1
    }

    async fn deliver_shards(&self, subscription: &Subscription) -> Result<(), String> {
        let shards = subscription.shards(&self.reader).await?;
        let shards = shards.iter().map(|shard| self.deliver_shard(subscription, shard));
        join_all(shards).await.into_iter().collect()
    }

    async fn deliver_shard(&self, subscription: &Subscription, shard: &str) -> Result<(), String> {
        let Subscription { inbox, stream_arn, .. } = subscription;
        let key = subscription.checkpoint(shard);
        loop {
            let after = self.checkpoints.lock().expect(LOCK).get(&key).cloned();
            let limit = inbox.mapping.batch_size.min(MAX_RECORDS);
            let mut records = self.reader.records(stream_arn, shard, after.as_deref(), limit).await?;
            let Some(last) = records.last().map(|record| sequence(record).to_owned()) else { return Ok(()) };
            // In the embedded store, a short page is the last page. In another DynamoDB, more records can follow it.
            let is_last = records.len() < limit && matches!(self.reader, StreamReader::Embedded(_));
            records.retain(|record| inbox.mapping.accepts(record));
            self.invoke(subscription, shard, &records).await;
            self.checkpoints.lock().expect(LOCK).set(key.clone(), last);
            if is_last {
                return Ok(());
            }
        }
    }

    /// Invokes the function until every record of the batch is processed or skipped. As in Lambda, a batch that fails
    /// is halved, so that one bad record costs few invocations and only this record is skipped.
    async fn invoke(&self, subscription: &Subscription, shard: &str, records: &[Value]) {
        let Inbox { function, mapping, .. } = &*subscription.inbox;
        // The next batch is from `first` to the last of `ends`. Each halving adds an end before the others.
        let mut first = 0;
        let mut ends = vec![records.len()];
        // How many times in a row a batch that begins at `first` has failed there.
        let mut failures = 0;
        while let Some(&end) = ends.last() {
            if first == end {
                ends.pop();
                continue;
            }
            let batch = &records[first..end];
            let event = event(&subscription.stream_arn, shard, batch);
            let failed_at = match self.host.invoke(function, event).await {
                Some(Ok(payload)) if mapping.reports_failures => first_failure(&payload, batch),
                Some(Err(error)) => {
                    tracing::error!(function, %error, "a batch failed");
                    Some(0)
                }
                Some(Ok(_)) | None => None,
            };
            match failed_at {
                None => (first, failures) = (end, 0),
                Some(0) => {
                    failures += 1;
                    if batch.len() > 1 {
                        ends.push(first + batch.len() / 2);
                    }
                }
                Some(processed) => (first, failures) = (first + processed, 1),
            }
            if failures >= MAX_ATTEMPTS && batch.len() == 1 {
                let record = sequence(&records[first]);
                tracing::error!(function, record, failures, "a record was skipped");
                (first, failures) = (first + 1, 0);
            }
        }
    }
}

async fn stream_arn(dynamodb: &aws_sdk_dynamodb::Client, table: &str) -> Result<String, String> {
    let described = dynamodb.describe_table().table_name(table).send().await;
    let described = described.map_err(|error| DisplayErrorContext(error).to_string())?;
    let arn = described.table().and_then(|table| table.latest_stream_arn());
    arn.map(str::to_owned).ok_or_else(|| format!("the table {table} has no stream"))
}

/// Returns the index of the first record that the function reports as failed. As in Lambda, a report that
/// names an unknown record fails the whole batch.
fn first_failure(payload: &Value, batch: &[Value]) -> Option<usize> {
    let failures = payload["batchItemFailures"].as_array()?;
    let indexes = failures.iter().map(|failure| {
        batch.iter().position(|record| failure["itemIdentifier"] == sequence(record)).unwrap_or(0)
    });
    indexes.min()
}
