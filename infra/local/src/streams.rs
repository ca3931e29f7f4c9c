//! Delivers tables' changes to functions, as Lambda's event source mappings do: in order, one batch per
//! stream shard at a time, at least once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use serde_json::Value;
use tokio::sync::{Mutex, watch};
use touchline::config::Aws;
use touchline_stack::Stack;
use touchline_stack::streams::{Record, StreamReader, sequence};
use touchline_stack::template::Stream;

use crate::Host;

/// How often a batch is tried before its first record is given up. In Lambda it would go to a queue.
const TRIES: u32 = 3;

/// Every stream mapping of the template.
#[derive(Debug)]
pub struct Streams {
    reader: StreamReader,
    host: Arc<Host>,
    mappings: Vec<Mapping>,
    /// Where each mapping has got to in each shard. Held while delivering.
    checkpoints: Mutex<Checkpoints>,
}

#[derive(Debug)]
struct Mapping {
    function: String,
    /// The stream's name.
    stream: String,
    /// Which of the function's mappings of this stream it is.
    ordinal: usize,
    settings: Stream,
}

#[derive(Debug)]
struct Checkpoints {
    file: Option<PathBuf>,
    done: BTreeMap<String, String>,
}

impl Checkpoints {
    fn set(&mut self, key: String, sequence: String) {
        self.done.insert(key, sequence);
        let Some(file) = &self.file else { return };
        // Lost checkpoints mean that changes are delivered again, which functions must take anyway.
        let text = serde_json::to_string(&self.done).unwrap_or_default();
        let next = file.with_extension("next");
        if let Err(error) = std::fs::write(&next, text).and_then(|()| std::fs::rename(&next, file)) {
            tracing::warn!(%error, "the streams' progress could not be kept");
        }
    }
}

impl Streams {
    /// Finds the streams of the tables that functions listen to.
    pub async fn open(
        stack: &Stack,
        aws: &Aws,
        http: SharedHttpClient,
        dynamodb: &aws_sdk_dynamodb::Client,
        host: Arc<Host>,
        file: Option<PathBuf>,
    ) -> Result<Self, String> {
        let mut mappings = Vec::new();
        for function in &stack.functions {
            for stream in &function.streams {
                let table = dynamodb
                    .describe_table()
                    .table_name(&stream.table)
                    .send()
                    .await
                    .map_err(|error| DisplayErrorContext(error).to_string())?;
                let arn = table
                    .table()
                    .and_then(|table| table.latest_stream_arn())
                    .ok_or_else(|| format!("the table {} has no stream", stream.table))?;
                let same = |one: &&Mapping| one.function == function.name && one.stream == arn;
                mappings.push(Mapping {
                    function: function.name.clone(),
                    stream: arn.to_owned(),
                    ordinal: mappings.iter().filter(same).count(),
                    settings: stream.clone(),
                });
            }
        }
        let done = file
            .as_ref()
            .and_then(|file| std::fs::read_to_string(file).ok())
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default();
        Ok(Self {
            reader: reader(aws, http),
            host,
            mappings,
            checkpoints: Mutex::new(Checkpoints { file, done }),
        })
    }

    /// For tests of what happens around streams.
    #[cfg(test)]
    pub(crate) fn none(host: Arc<Host>) -> Self {
        let credentials = aws_sdk_dynamodb::config::Credentials::new("", "", None, None, "none");
        let http = aws_smithy_http_client::Builder::new().build_http();
        Self {
            reader: StreamReader::new("local", credentials, None, http),
            host,
            mappings: Vec::new(),
            checkpoints: Mutex::new(Checkpoints { file: None, done: BTreeMap::new() }),
        }
    }

    /// Delivers now and then, for writes that did not come through this process.
    pub async fn run(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        if self.mappings.is_empty() {
            return;
        }
        let mut ticks = tokio::time::interval(Duration::from_secs(1));
        loop {
            let ended = tokio::select! {
                _ = ticks.tick() => false,
                _ = stopped.wait_for(|stop| *stop) => true,
            };
            if ended {
                return;
            }
            self.drain().await;
        }
    }

    /// Delivers everything that has changed, and what those deliveries change, until nothing is left.
    ///
    /// In a task of its own: a client that hangs up must not interrupt a delivery half-way.
    pub async fn drain(self: &Arc<Self>) {
        if self.mappings.is_empty() {
            return;
        }
        let streams = Arc::clone(self);
        let _ = tokio::spawn(async move { streams.deliver_all().await }).await;
    }

    async fn deliver_all(&self) {
        let mut checkpoints = self.checkpoints.lock().await;
        loop {
            let mut delivered = 0;
            for mapping in &self.mappings {
                match self.deliver(mapping, &mut checkpoints).await {
                    Ok(records) => delivered += records,
                    Err(error) => {
                        tracing::error!(function = mapping.function, error, "a stream cannot be read");
                    }
                }
            }
            if delivered == 0 {
                return;
            }
        }
    }

    async fn deliver(&self, mapping: &Mapping, checkpoints: &mut Checkpoints) -> Result<usize, String> {
        let mut delivered = 0;
        for shard in self.reader.shards(&mapping.stream).await? {
            let key = format!("{}/{}/{}/{shard}", mapping.function, mapping.ordinal, mapping.stream);
            let after = checkpoints.done.get(&key);
            let batch_size = mapping.settings.batch_size;
            let mut records = self.reader.records(&mapping.stream, &shard, after, batch_size).await?;
            let Some(last) = records.last().map(|record| sequence(record).to_owned()) else { continue };
            delivered += records.len();
            records.retain(|record| mapping.settings.takes(&self.reader.record(&mapping.stream, record)));
            self.invoke(mapping, &shard, &records).await;
            checkpoints.set(key, last);
        }
        Ok(delivered)
    }

    /// Hands a batch over, until it is done with.
    async fn invoke(&self, mapping: &Mapping, shard: &str, records: &[Record]) {
        let mut from = 0;
        let mut tries = 0;
        while from < records.len() {
            let batch = &records[from..];
            let event = self.reader.event(&mapping.stream, shard, batch);
            let failed_at = match self.host.invoke(&mapping.function, event).await {
                Some(Ok(payload)) if mapping.settings.reports_failures => first_failure(&payload, batch),
                Some(Err(error)) => {
                    tracing::error!(function = mapping.function, %error, "a batch failed");
                    Some(0)
                }
                Some(Ok(_)) | None => None,
            };
            let Some(failed_at) = failed_at else { break };
            if failed_at > 0 {
                (from, tries) = (from + failed_at, 0);
            }
            tries += 1;
            if tries == TRIES {
                let record = sequence(&records[from]);
                tracing::error!(function = mapping.function, record, "a change was given up");
                (from, tries) = (from + 1, 0);
            }
        }
    }
}

fn reader(aws: &Aws, http: SharedHttpClient) -> StreamReader {
    StreamReader::new(&aws.region, aws.credentials.clone(), aws.dynamodb_endpoint.as_ref(), http)
}

/// The place of the first record that the function reports as failed. A report that names no record of
/// the batch fails all of it, as in Lambda.
fn first_failure(payload: &Value, batch: &[Record]) -> Option<usize> {
    let failures = payload["batchItemFailures"].as_array()?;
    let places = failures.iter().map(|failure| {
        batch.iter().position(|record| failure["itemIdentifier"] == sequence(record)).unwrap_or(0)
    });
    places.min()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex as StdMutex;

    use aws_sdk_dynamodb::config::Credentials;
    use aws_sdk_dynamodb::types::AttributeValue as Stored;
    use serde_json::json;
    use touchline_stack::{EmbeddedStore, Template, tables};

    use super::*;

    const TEMPLATE: &str = r"
Resources:
  Things:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: things
      AttributeDefinitions: [{ AttributeName: pk, AttributeType: S }]
      KeySchema: [{ AttributeName: pk, KeyType: HASH }]
      StreamSpecification: { StreamViewType: NEW_AND_OLD_IMAGES }
  Listener:
    Type: AWS::Serverless::Function
    Metadata: { BuildProperties: { Binary: listener } }
    Properties:
      Events:
        Changes: { Type: DynamoDB, Properties: { Stream: !GetAtt Things.StreamArn, BatchSize: 2, FunctionResponseTypes: [ReportBatchItemFailures] } }
";

    type Seen = Arc<StdMutex<Vec<Vec<String>>>>;

    /// What a delivery contained: the keys of its records.
    fn keys(event: &Value) -> Vec<String> {
        let records = event["Records"].as_array().unwrap();
        records.iter().map(|r| r["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap().to_owned()).collect()
    }

    struct Bench {
        _store: EmbeddedStore,
        client: aws_sdk_dynamodb::Client,
        aws: Aws,
        stack: Stack,
        folder: tempfile::TempDir,
    }

    impl Bench {
        async fn new() -> Self {
            let store = EmbeddedStore::in_memory().await.unwrap();
            let aws = Aws {
                region: "eu-west-1".into(),
                credentials: Credentials::new("test", "test", None, None, "test"),
                dynamodb_endpoint: Some(store.url()),
                sns_endpoint: None,
            };
            let client = touchline::storage::connect(&aws, http());
            let stack = Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::new()).unwrap();
            tables::create(&client, &stack.tables).await.unwrap();
            Self { _store: store, client, aws, stack, folder: tempfile::tempdir().unwrap() }
        }

        /// Streams into a function that notes what it gets and answers as told.
        async fn streams(
            &self,
            answer: impl Fn(&Value) -> crate::functions::Outcome + Send + Sync + 'static,
        ) -> (Arc<Streams>, Seen) {
            let seen = Seen::default();
            let note = Arc::clone(&seen);
            let mut host = Host::default();
            host.add(
                "listener",
                Duration::from_secs(5),
                Box::new(move |event| {
                    note.lock().unwrap().push(keys(&event));
                    let outcome = answer(&event);
                    Box::pin(async move { outcome })
                }),
            );
            let file = Some(self.folder.path().join("streams.json"));
            let streams = Streams::open(&self.stack, &self.aws, http(), &self.client, Arc::new(host), file)
                .await
                .unwrap();
            (Arc::new(streams), seen)
        }

        async fn put(&self, pk: &str) {
            let put = self.client.put_item().table_name("things").item("pk", Stored::S(pk.into()));
            put.send().await.unwrap();
        }
    }

    fn http() -> SharedHttpClient {
        aws_smithy_http_client::Builder::new().build_http()
    }

    #[tokio::test]
    async fn changes_arrive_in_order_in_batches_once() {
        let bench = Bench::new().await;
        let (streams, seen) = bench.streams(|_| Ok(json!({ "batchItemFailures": [] }))).await;
        for pk in ["a", "b", "c"] {
            bench.put(pk).await;
        }
        streams.drain().await;
        assert_eq!(*seen.lock().unwrap(), [vec!["a", "b"], vec!["c"]]);
        streams.drain().await;
        assert_eq!(seen.lock().unwrap().len(), 2);
    }

    #[tokio::test]
    async fn a_restart_goes_on_where_it_was() {
        let bench = Bench::new().await;
        let (streams, _) = bench.streams(|_| Ok(Value::Null)).await;
        bench.put("a").await;
        streams.drain().await;
        drop(streams);
        bench.put("b").await;
        let (streams, seen) = bench.streams(|_| Ok(Value::Null)).await;
        streams.drain().await;
        assert_eq!(*seen.lock().unwrap(), [vec!["b"]]);
    }

    #[tokio::test]
    async fn a_failed_record_is_tried_again_from_where_it_failed_and_given_up_in_the_end() {
        let bench = Bench::new().await;
        // `bad` never succeeds; the function reports just that record.
        let (streams, seen) = bench
            .streams(|event| {
                let records = event["Records"].as_array().unwrap();
                let bad = records.iter().find(|record| record["dynamodb"]["Keys"]["pk"]["S"] == "bad");
                let failures: Vec<Value> = bad
                    .iter()
                    .map(|r| json!({ "itemIdentifier": r["dynamodb"]["SequenceNumber"] }))
                    .collect();
                Ok(json!({ "batchItemFailures": failures }))
            })
            .await;
        for pk in ["a", "bad", "c"] {
            bench.put(pk).await;
        }
        streams.drain().await;
        let seen = seen.lock().unwrap();
        assert_eq!(seen.iter().filter(|batch| batch.contains(&"a".to_owned())).count(), 1, "{seen:?}");
        assert_eq!(seen.iter().filter(|batch| batch.contains(&"bad".to_owned())).count(), 3, "{seen:?}");
        assert_eq!(seen.iter().filter(|batch| batch.contains(&"c".to_owned())).count(), 1, "{seen:?}");
    }

    #[tokio::test]
    async fn a_function_that_always_fails_does_not_hold_up_the_stack() {
        let bench = Bench::new().await;
        let (streams, seen) = bench.streams(|_| Err(json!({ "errorMessage": "no" }))).await;
        for pk in ["a", "b"] {
            bench.put(pk).await;
        }
        streams.drain().await;
        assert_eq!(seen.lock().unwrap().len(), 6, "three tries for each record that heads a batch");
    }
}
