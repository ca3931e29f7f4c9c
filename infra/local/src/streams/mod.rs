//! Delivers the changes of tables to functions, as Lambda's event source mappings do: in order, one batch per shard at
//! a time, at least once.

mod checkpoints;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use serde_json::Value;
use tokio::sync::{Mutex, watch};
use touchline::config::Aws;
use touchline_stack::Stack;
use touchline_stack::resources::StreamMapping;
use touchline_stack::streams::{Record, StreamReader, sequence};

use crate::host::Host;
use checkpoints::Checkpoints;

/// How many attempts a batch gets before its first record is skipped. Lambda sends such a record to a queue instead.
const MAX_ATTEMPTS: u32 = 3;

/// The time between two reads of the streams. Requests cause reads too; the timed reads find the writes of
/// other processes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Every stream mapping of the template.
#[derive(Debug)]
pub(crate) struct Streams {
    reader: StreamReader,
    host: Arc<Host>,
    subscriptions: Vec<Subscription>,
    /// Locked during a delivery, so that deliveries run one after the other.
    checkpoints: Mutex<Checkpoints>,
}

#[derive(Debug)]
struct Subscription {
    function: String,
    stream_arn: String,
    /// The position of this mapping among the function's mappings to the same stream, from 0.
    ordinal: usize,
    mapping: StreamMapping,
}

impl Streams {
    /// Finds the streams of all mapped tables. Without a file, checkpoints are kept in memory.
    pub(crate) async fn open(
        stack: &Stack,
        aws: &Aws,
        http: SharedHttpClient,
        dynamodb: &aws_sdk_dynamodb::Client,
        host: Arc<Host>,
        checkpoint_file: Option<PathBuf>,
    ) -> Result<Self, String> {
        let mut subscriptions: Vec<Subscription> = Vec::new();
        for function in &stack.functions {
            for mapping in &function.streams {
                let stream_arn = stream_arn(dynamodb, &mapping.table).await?;
                let earlier = subscriptions
                    .iter()
                    .filter(|s| s.function == function.name && s.stream_arn == stream_arn);
                subscriptions.push(Subscription {
                    function: function.name.clone(),
                    ordinal: earlier.count(),
                    stream_arn,
                    mapping: mapping.clone(),
                });
            }
        }
        let endpoint = aws.dynamodb_endpoint.as_ref();
        Ok(Self {
            reader: StreamReader::new(&aws.region, aws.credentials.clone(), endpoint, http),
            host,
            subscriptions,
            checkpoints: Mutex::new(Checkpoints::open(checkpoint_file)),
        })
    }

    /// Returns streams without any mapping, for tests of other modules.
    #[cfg(test)]
    pub(crate) fn none(host: Arc<Host>) -> Self {
        let credentials = aws_sdk_dynamodb::config::Credentials::new("", "", None, None, "none");
        let http = aws_smithy_http_client::Builder::new().build_http();
        Self {
            reader: StreamReader::new("local", credentials, None, http),
            host,
            subscriptions: Vec::new(),
            checkpoints: Mutex::default(),
        }
    }

    /// Polls the streams until the stack stops.
    pub(crate) async fn run(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        if self.subscriptions.is_empty() {
            return;
        }
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        loop {
            let is_stopped = tokio::select! {
                _ = ticks.tick() => false,
                _ = stopped.wait_for(|stop| *stop) => true,
            };
            if is_stopped {
                return;
            }
            self.deliver_pending().await;
        }
    }

    /// Delivers all pending changes, including those that the deliveries themselves cause.
    ///
    /// Runs in its own task: a client that disconnects must not cancel a delivery halfway.
    pub(crate) async fn deliver_pending(self: &Arc<Self>) {
        if self.subscriptions.is_empty() {
            return;
        }
        let streams = Arc::clone(self);
        let _ = tokio::spawn(async move { streams.deliver_all().await }).await;
    }

    async fn deliver_all(&self) {
        let mut checkpoints = self.checkpoints.lock().await;
        loop {
            let mut delivered = 0;
            for subscription in &self.subscriptions {
                match self.deliver_next_batches(subscription, &mut checkpoints).await {
                    Ok(records) => delivered += records,
                    Err(error) => {
                        tracing::error!(function = subscription.function, error, "a stream cannot be read");
                    }
                }
            }
            if delivered == 0 {
                return;
            }
        }
    }

    /// Delivers one batch per shard and returns the number of records read.
    async fn deliver_next_batches(
        &self,
        subscription: &Subscription,
        checkpoints: &mut Checkpoints,
    ) -> Result<usize, String> {
        let Subscription { function, stream_arn, ordinal, mapping } = subscription;
        let mut delivered = 0;
        for shard in self.reader.shards(stream_arn).await? {
            let key = format!("{function}/{ordinal}/{stream_arn}/{shard}");
            let after = checkpoints.get(&key);
            let mut records = self.reader.records(stream_arn, &shard, after, mapping.batch_size).await?;
            let Some(last) = records.last().map(|record| sequence(record).to_owned()) else { continue };
            delivered += records.len();
            records.retain(|record| mapping.accepts(&self.reader.record(stream_arn, record)));
            self.invoke(subscription, &shard, &records).await;
            checkpoints.set(key, last);
        }
        Ok(delivered)
    }

    /// Invokes the function until every record of the batch is processed or skipped.
    async fn invoke(&self, subscription: &Subscription, shard: &str, records: &[Record]) {
        let Subscription { function, stream_arn, mapping, .. } = subscription;
        let mut first = 0;
        let mut attempts = 0;
        while first < records.len() {
            let batch = &records[first..];
            let event = self.reader.event(stream_arn, shard, batch);
            let failed_at = match self.host.invoke(function, event).await {
                Some(Ok(payload)) if mapping.reports_failures => first_failure(&payload, batch),
                Some(Err(error)) => {
                    tracing::error!(function, %error, "a batch failed");
                    Some(0)
                }
                Some(Ok(_)) | None => None,
            };
            let Some(failed_at) = failed_at else { break };
            if failed_at > 0 {
                (first, attempts) = (first + failed_at, 0);
            }
            attempts += 1;
            if attempts == MAX_ATTEMPTS {
                let record = sequence(&records[first]);
                tracing::error!(function, record, attempts, "a record was skipped");
                (first, attempts) = (first + 1, 0);
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
fn first_failure(payload: &Value, batch: &[Record]) -> Option<usize> {
    let failures = payload["batchItemFailures"].as_array()?;
    let indexes = failures.iter().map(|failure| {
        batch.iter().position(|record| failure["itemIdentifier"] == sequence(record)).unwrap_or(0)
    });
    indexes.min()
}
