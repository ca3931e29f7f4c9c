use std::collections::BTreeMap;
use std::sync::Mutex as StdMutex;

use aws_sdk_dynamodb::config::Credentials;
use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use touchline_stack::{EmbeddedStore, Template, tables};

use super::*;
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
        Changes: { Type: DynamoDB, Properties: { Stream: !GetAtt Things.StreamArn, BatchSize: 2, FunctionResponseTypes: [ReportBatchItemFailures] } }
";

/// The keys of each delivered batch.
type Batches = Arc<StdMutex<Vec<Vec<String>>>>;

fn keys(event: &Value) -> Vec<String> {
    let records = event["Records"].as_array().unwrap();
    records.iter().map(|r| r["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap().to_owned()).collect()
}

fn http() -> SharedHttpClient {
    aws_smithy_http_client::Builder::new().build_http()
}

/// One table, whose changes go to one function.
struct Setup {
    _store: EmbeddedStore,
    client: aws_sdk_dynamodb::Client,
    aws: Aws,
    stack: Stack,
    folder: tempfile::TempDir,
}

impl Setup {
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

    /// Connects the stream to a function that records each batch and returns `respond(event)`.
    async fn streams(
        &self,
        respond: impl Fn(&Value) -> Outcome + Send + Sync + 'static,
    ) -> (Arc<Streams>, Batches) {
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
        let file = Some(self.folder.path().join("streams.json"));
        let streams =
            Streams::open(&self.stack, &self.aws, http(), &self.client, Arc::new(host), file).await.unwrap();
        (Arc::new(streams), batches)
    }

    async fn put(&self, pk: &str) {
        let put = self.client.put_item().table_name("things").item("pk", AttributeValue::S(pk.into()));
        put.send().await.unwrap();
    }
}

#[tokio::test]
async fn each_change_is_delivered_once_and_in_order() {
    let setup = Setup::new().await;
    let (streams, batches) = setup.streams(|_| Ok(json!({ "batchItemFailures": [] }))).await;
    for pk in ["a", "b", "c"] {
        setup.put(pk).await;
    }
    streams.deliver_pending().await;
    assert_eq!(*batches.lock().unwrap(), [vec!["a", "b"], vec!["c"]]);
    streams.deliver_pending().await;
    assert_eq!(batches.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn after_a_restart_delivery_resumes_at_the_checkpoint() {
    let setup = Setup::new().await;
    let (streams, _) = setup.streams(|_| Ok(Value::Null)).await;
    setup.put("a").await;
    streams.deliver_pending().await;
    drop(streams);
    setup.put("b").await;
    let (streams, batches) = setup.streams(|_| Ok(Value::Null)).await;
    streams.deliver_pending().await;
    assert_eq!(*batches.lock().unwrap(), [vec!["b"]]);
}

#[tokio::test]
async fn a_failed_record_is_retried_and_then_skipped() {
    let setup = Setup::new().await;
    // The record `bad` never succeeds. The function reports only this record as failed.
    let (streams, batches) = setup
        .streams(|event| {
            let records = event["Records"].as_array().unwrap();
            let bad = records.iter().find(|record| record["dynamodb"]["Keys"]["pk"]["S"] == "bad");
            let failures: Vec<Value> =
                bad.iter().map(|r| json!({ "itemIdentifier": r["dynamodb"]["SequenceNumber"] })).collect();
            Ok(json!({ "batchItemFailures": failures }))
        })
        .await;
    for pk in ["a", "bad", "c"] {
        setup.put(pk).await;
    }
    streams.deliver_pending().await;
    let batches = batches.lock().unwrap();
    assert_eq!(batches.iter().filter(|batch| batch.contains(&"a".to_owned())).count(), 1, "{batches:?}");
    assert_eq!(batches.iter().filter(|batch| batch.contains(&"bad".to_owned())).count(), 3, "{batches:?}");
    assert_eq!(batches.iter().filter(|batch| batch.contains(&"c".to_owned())).count(), 1, "{batches:?}");
}

#[tokio::test]
async fn a_function_that_always_fails_does_not_block_the_stream() {
    let setup = Setup::new().await;
    let (streams, batches) = setup.streams(|_| Err(json!({ "errorMessage": "no" }))).await;
    for pk in ["a", "b"] {
        setup.put(pk).await;
    }
    streams.deliver_pending().await;
    assert_eq!(batches.lock().unwrap().len(), 6, "three attempts for `a`, then three for `b`");
}
