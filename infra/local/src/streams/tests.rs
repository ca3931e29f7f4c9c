use std::collections::BTreeMap;
use std::sync::Mutex as StdMutex;

use aws_sdk_dynamodb::config::Credentials;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use touchline::config::Aws;
use touchline_stack::{EmbeddedStore, Stack, Template, direct, tables};

use super::*;
use crate::calls::CallObserver;
use crate::host::Outcome;

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
        Changes: { Type: DynamoDB, Properties: { Stream: !GetAtt Things.StreamArn, BatchSize: 8, FunctionResponseTypes: [ReportBatchItemFailures] } }
";

/// The keys of each delivered batch.
type Batches = Arc<StdMutex<Vec<Vec<String>>>>;

fn keys(event: &Value) -> Vec<String> {
    let records = event["Records"].as_array().unwrap();
    records.iter().map(|r| r["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap().to_owned()).collect()
}

/// One table, whose changes go to one function.
struct Setup {
    store: EmbeddedStore,
    aws: Aws,
    stack: Stack,
    folder: tempfile::TempDir,
}

/// A running stream, with a client whose writes it delivers.
struct Running {
    client: aws_sdk_dynamodb::Client,
    batches: Batches,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl Setup {
    async fn new() -> Self {
        let store = EmbeddedStore::open(None).unwrap();
        let aws = Aws {
            region: "eu-west-1".into(),
            credentials: Credentials::new("test", "test", None, None, "test"),
            dynamodb_endpoint: Some(direct::ENDPOINT.into()),
            sns_endpoint: None,
            secrets_endpoint: None,
            lambda_endpoint: None,
        };
        let stack = Template::parse(TEMPLATE).unwrap().resolve(&BTreeMap::new()).unwrap();
        let client = touchline::storage::connect(&aws, store.http_client());
        tables::create(&client, &stack.tables).await.unwrap();
        Self { store, aws, stack, folder: tempfile::tempdir().unwrap() }
    }

    /// Connects the stream to a function that records each batch and returns `respond(event)`.
    async fn start(&self, respond: impl Fn(&Value) -> Outcome + Send + Sync + 'static) -> Running {
        let batches = Batches::default();
        let recorded = Arc::clone(&batches);
        let mut host = Host::default();
        host.add(
            "listener",
            Duration::from_secs(5),
            Box::new(move |event| {
                recorded.lock().unwrap().push(keys(&event));
                let outcome = respond(&event);
                Box::pin(async move { outcome })
            }),
        );
        let inboxes = Inboxes::new(&self.stack);
        let observer = CallObserver::new(inboxes.clone(), None);
        let client =
            touchline::storage::connect(&self.aws, observer.client("writer", self.store.http_client()));
        let reader = StreamReader::Embedded(self.store.streams());
        let file = Some(self.folder.path().join("streams.json"));
        let streams =
            Streams::open(&inboxes, reader, &client, Arc::new(host), file, Traffic::default()).await.unwrap();
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(Arc::new(streams).run(stopped));
        Running { client, batches, stop, task }
    }

    /// Writes items as another process would: the stream is not notified.
    async fn put_unobserved(&self, pks: &[&str]) {
        let client = touchline::storage::connect(&self.aws, self.store.http_client());
        for pk in pks {
            let put = client.put_item().table_name("things").item("pk", AttributeValue::S((*pk).into()));
            put.send().await.unwrap();
        }
    }

    /// Returns the number of records in the store's stream.
    async fn stored_records(&self) -> usize {
        let client = touchline::storage::connect(&self.aws, self.store.http_client());
        let arn = stream_arn(&client, "things").await.unwrap();
        let reader = StreamReader::Embedded(self.store.streams());
        let shards = reader.shards(&arn).await.unwrap();
        reader.records(&arn, &shards[0], None, 1_000).await.unwrap().len()
    }
}

impl Running {
    async fn put(&self, pk: &str) {
        let put = self.client.put_item().table_name("things").item("pk", AttributeValue::S(pk.into()));
        put.send().await.unwrap();
    }

    /// Writes items, and waits until they are delivered.
    async fn deliver(&self, pks: &[&str]) {
        let ((), observed) = calls::observe(false, async {
            for pk in pks {
                self.put(pk).await;
            }
        })
        .await;
        observed.tickets.delivered().await;
    }

    fn batches(&self) -> Vec<Vec<String>> {
        self.batches.lock().unwrap().clone()
    }

    fn deliveries(&self, pk: &str) -> usize {
        self.batches().concat().iter().filter(|delivered| *delivered == pk).count()
    }

    async fn stop(self) {
        self.stop.send(true).unwrap();
        self.task.await.unwrap();
    }
}

#[expect(clippy::unnecessary_wraps, reason = "`Setup::start` takes a function that returns an `Outcome`")]
fn succeed(_: &Value) -> Outcome {
    Ok(json!({ "batchItemFailures": [] }))
}

#[tokio::test(start_paused = true)]
async fn each_change_is_delivered_once_and_in_order() {
    let setup = Setup::new().await;
    setup.put_unobserved(&["a", "b", "c"]).await;
    let running = setup.start(succeed).await;
    tokio::time::sleep(2 * MAINTENANCE_INTERVAL).await;
    assert_eq!(running.batches(), [vec!["a", "b", "c"]]);
    running.deliver(&["d"]).await;
    assert_eq!(running.batches(), [vec!["a", "b", "c"], vec!["d"]]);
}

#[tokio::test]
async fn after_a_restart_delivery_resumes_at_the_checkpoint() {
    let setup = Setup::new().await;
    let running = setup.start(succeed).await;
    running.deliver(&["a"]).await;
    running.stop().await;
    let running = setup.start(succeed).await;
    running.deliver(&["b"]).await;
    assert_eq!(running.batches().concat(), ["b"]);
}

/// The write is not observed, like a write of another process.
#[tokio::test(start_paused = true)]
async fn writes_of_other_processes_are_delivered_within_seconds() {
    let setup = Setup::new().await;
    let running = setup.start(succeed).await;
    setup.put_unobserved(&["a"]).await;
    tokio::time::sleep(2 * MAINTENANCE_INTERVAL).await;
    assert_eq!(running.batches().concat(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn delivered_records_are_trimmed_except_the_last() {
    let setup = Setup::new().await;
    let running = setup.start(succeed).await;
    running.deliver(&["a", "b", "c"]).await;
    // Records are trimmed only after the checkpoints are saved, so wait until maintenance has saved them.
    tokio::time::sleep(2 * MAINTENANCE_INTERVAL).await;
    assert_eq!(setup.stored_records().await, 1);
    running.deliver(&["d"]).await;
    assert_eq!(running.batches().concat(), ["a", "b", "c", "d"]);
}

#[tokio::test]
async fn a_failed_record_is_retried_and_then_skipped() {
    let setup = Setup::new().await;
    // The record `bad` never succeeds. The function reports only this record as failed.
    let running = setup
        .start(|event| {
            let records = event["Records"].as_array().unwrap();
            let bad = records.iter().find(|record| record["dynamodb"]["Keys"]["pk"]["S"] == "bad");
            let failures: Vec<Value> =
                bad.iter().map(|r| json!({ "itemIdentifier": r["dynamodb"]["SequenceNumber"] })).collect();
            Ok(json!({ "batchItemFailures": failures }))
        })
        .await;
    running.deliver(&["a", "bad", "c"]).await;
    let counts = ["a", "bad", "c"].map(|pk| running.deliveries(pk));
    assert_eq!(counts, [1, 3, 1], "{:?}", running.batches());
}

#[tokio::test(start_paused = true)]
async fn a_function_that_always_fails_does_not_block_the_stream() {
    let setup = Setup::new().await;
    setup.put_unobserved(&["a", "b"]).await;
    let running = setup.start(|_| Err(json!({ "errorMessage": "no" }))).await;
    tokio::time::sleep(2 * MAINTENANCE_INTERVAL).await;
    assert_eq!(running.batches().len(), 6, "three attempts before `a` is skipped, then three before `b` is");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_is_halved_until_only_the_bad_record_is_skipped() {
    let setup = Setup::new().await;
    setup.put_unobserved(&["a", "b", "c", "d", "e", "bad", "g", "h"]).await;
    let fail_if_bad = |event: &Value| {
        if keys(event).contains(&"bad".to_owned()) {
            return Err(json!({ "errorMessage": "no" }));
        }
        succeed(event)
    };
    let running = setup.start(fail_if_bad).await;
    tokio::time::sleep(2 * MAINTENANCE_INTERVAL).await;
    let batches = running.batches().iter().map(|batch| batch.join(" ")).collect::<Vec<_>>();
    let halved = ["a b c d e bad g h", "a b c d", "e bad g h", "e bad", "e"];
    assert_eq!(batches, [&halved[..], &["bad", "bad", "bad", "g h"]].concat());
}
