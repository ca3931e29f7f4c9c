//! Reads the streams of tables and converts their records to the events that Lambda sends to functions.

use std::collections::HashMap;

use aws_sdk_dynamodb::config::{Credentials, SharedHttpClient};
use aws_sdk_dynamodbstreams::Client;
use aws_sdk_dynamodbstreams::config::Region;
use aws_sdk_dynamodbstreams::error::DisplayErrorContext;
use aws_sdk_dynamodbstreams::types::{AttributeValue, OperationType, ShardIteratorType, StreamDescription};
use serde_json::{Map, Value, json};

pub use aws_sdk_dynamodbstreams::types::Record;

/// A client that reads DynamoDB streams.
#[derive(Debug, Clone)]
pub struct StreamReader {
    client: Client,
    region: String,
}

impl StreamReader {
    #[must_use]
    pub fn new(
        region: &str,
        credentials: Credentials,
        endpoint: Option<&String>,
        http: SharedHttpClient,
    ) -> Self {
        let mut config = aws_sdk_dynamodbstreams::Config::builder()
            .region(Region::new(region.to_owned()))
            .credentials_provider(credentials)
            .http_client(http);
        if let Some(endpoint) = endpoint {
            config = config.endpoint_url(endpoint);
        }
        Self { client: Client::from_conf(config.build()), region: region.to_owned() }
    }

    /// Returns the ids of a stream's shards.
    pub async fn shards(&self, stream: &str) -> Result<Vec<String>, String> {
        let described = self
            .client
            .describe_stream()
            .stream_arn(stream)
            .send()
            .await
            .map_err(|error| DisplayErrorContext(error).to_string())?;
        let shards = described.stream_description().map(StreamDescription::shards).unwrap_or_default();
        Ok(shards.iter().map(|shard| shard.shard_id().unwrap_or_default().to_owned()).collect())
    }

    /// Reads up to `limit` records of a shard that follow the sequence number `after`. Without `after`, it
    /// reads from the oldest record on.
    pub async fn records(
        &self,
        stream: &str,
        shard: &str,
        after: Option<&String>,
        limit: i32,
    ) -> Result<Vec<Record>, String> {
        let iterator = self
            .client
            .get_shard_iterator()
            .stream_arn(stream)
            .shard_id(shard)
            .shard_iterator_type(match after {
                Some(_) => ShardIteratorType::AfterSequenceNumber,
                None => ShardIteratorType::TrimHorizon,
            })
            .set_sequence_number(after.cloned())
            .send()
            .await
            .map_err(|error| DisplayErrorContext(error).to_string())?;
        let Some(iterator) = iterator.shard_iterator else { return Ok(Vec::new()) };
        let page = self
            .client
            .get_records()
            .shard_iterator(iterator)
            .limit(limit)
            .send()
            .await
            .map_err(|error| DisplayErrorContext(error).to_string())?;
        Ok(page.records.unwrap_or_default())
    }

    /// Builds the event for a batch of one shard's records, in the format that Lambda uses for mappings with
    /// a tumbling window.
    #[must_use]
    pub fn event(&self, stream: &str, shard: &str, records: &[Record]) -> Value {
        json!({
            "Records": records.iter().map(|record| self.record(stream, record)).collect::<Vec<_>>(),
            "shardId": shard,
            "eventSourceARN": stream,
            "state": {},
            "isFinalInvokeForWindow": false,
            "isWindowTerminatedEarly": false,
        })
    }

    /// Converts one record to an element of the event's `Records`.
    #[must_use]
    pub fn record(&self, stream: &str, record: &Record) -> Value {
        let change = record.dynamodb();
        let image = |item: Option<&HashMap<String, AttributeValue>>| {
            item.map(|item| {
                Value::Object(item.iter().map(|(name, value)| (name.clone(), attribute(value))).collect())
            })
        };
        let mut dynamodb = Map::new();
        if let Some(change) = change {
            let fields = [
                ("Keys", image(change.keys())),
                ("NewImage", image(change.new_image())),
                ("OldImage", image(change.old_image())),
                ("SequenceNumber", change.sequence_number().map(Value::from)),
                ("SizeBytes", change.size_bytes().map(Value::from)),
                ("StreamViewType", change.stream_view_type().map(|view| view.as_str().into())),
                (
                    "ApproximateCreationDateTime",
                    change.approximate_creation_date_time().map(|at| at.secs().into()),
                ),
            ];
            for (name, value) in fields {
                if let Some(value) = value {
                    dynamodb.insert(name.into(), value);
                }
            }
        }
        json!({
            "eventID": record.event_id(),
            "eventName": record.event_name().map(OperationType::as_str),
            "eventVersion": record.event_version().unwrap_or("1.1"),
            "eventSource": "aws:dynamodb",
            "awsRegion": self.region,
            "dynamodb": dynamodb,
            "eventSourceARN": stream,
        })
    }
}

/// Returns the record's sequence number, which orders the records of a shard.
#[must_use]
pub fn sequence(record: &Record) -> &str {
    record.dynamodb().and_then(|change| change.sequence_number()).unwrap_or_default()
}

/// Converts an attribute to DynamoDB's JSON format.
fn attribute(value: &AttributeValue) -> Value {
    let binary = |blob: &aws_sdk_dynamodbstreams::primitives::Blob| aws_smithy_types::base64::encode(blob);
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(number) => json!({ "N": number }),
        AttributeValue::Bool(flag) => json!({ "BOOL": flag }),
        AttributeValue::Null(flag) => json!({ "NULL": flag }),
        AttributeValue::B(blob) => json!({ "B": binary(blob) }),
        AttributeValue::Ss(texts) => json!({ "SS": texts }),
        AttributeValue::Ns(numbers) => json!({ "NS": numbers }),
        AttributeValue::Bs(blobs) => json!({ "BS": blobs.iter().map(binary).collect::<Vec<_>>() }),
        AttributeValue::L(items) => json!({ "L": items.iter().map(attribute).collect::<Vec<_>>() }),
        AttributeValue::M(map) => {
            let map: Map<String, Value> =
                map.iter().map(|(name, value)| (name.clone(), attribute(value))).collect();
            json!({ "M": map })
        }
        _ => Value::Null,
    }
}
