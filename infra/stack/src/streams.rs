//! Reads the streams of tables. Returns the records in the format in which Lambda sends them to functions.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::config::{Credentials, SharedHttpClient};
use aws_sdk_dynamodbstreams::Client;
use aws_sdk_dynamodbstreams::config::Region;
use aws_sdk_dynamodbstreams::error::DisplayErrorContext;
use aws_sdk_dynamodbstreams::types::{
    AttributeValue, OperationType, Record, ShardIteratorType, StreamDescription,
};
use dynoxide::actions::describe_stream::DescribeStreamRequest;
use dynoxide::actions::get_records::GetRecordsRequest;
use dynoxide::actions::get_shard_iterator::GetShardIteratorRequest;
use dynoxide::{Database, DynoxideError};
use rusqlite::Connection;
use serde_json::{Map, Value, json};

/// The streams of one DynamoDB.
#[derive(Debug, Clone)]
pub enum StreamReader {
    /// The embedded DynamoDB, read in this process.
    Embedded(EmbeddedStreams),
    /// Any DynamoDB, read through the SDK.
    Remote(RemoteStreams),
}

impl StreamReader {
    /// Returns the ids of a stream's shards.
    pub async fn shards(&self, stream: &str) -> Result<Vec<String>, String> {
        match self {
            Self::Embedded(streams) => streams.shards(stream),
            Self::Remote(streams) => streams.shards(stream).await,
        }
    }

    /// Reads up to `limit` records of a shard. Starts after the record with the sequence number `after`, or
    /// at the oldest record if `after` is `None`. Each record has the format of an element of `Records` in a
    /// Lambda event.
    pub async fn records(
        &self,
        stream: &str,
        shard: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Value>, String> {
        match self {
            Self::Embedded(streams) => streams.records(stream, shard, after, limit),
            Self::Remote(streams) => streams.records(stream, shard, after, limit).await,
        }
    }
}

/// Builds the event for a batch of one shard's records, in the format that Lambda uses for mappings with a
/// tumbling window.
#[must_use]
pub fn event(stream: &str, shard: &str, records: &[Value]) -> Value {
    json!({
        "Records": records,
        "shardId": shard,
        "eventSourceARN": stream,
        "state": {},
        "isFinalInvokeForWindow": false,
        "isWindowTerminatedEarly": false,
    })
}

/// Returns the record's sequence number, which orders the records of a shard.
#[must_use]
pub fn sequence(record: &Value) -> &str {
    record["dynamodb"]["SequenceNumber"].as_str().unwrap_or_default()
}

/// The maximum number of records that one call of [`EmbeddedStreams::trim`] deletes. Writes to the store wait for
/// the call, so it must be short.
pub const TRIMMED_AT_ONCE: usize = 100;

/// The streams of the embedded DynamoDB.
#[derive(Clone)]
pub struct EmbeddedStreams {
    database: Database,
    /// A connection to the engine's table of stream records. [`Self::trim`] deletes old records through this
    /// connection, because the engine itself never deletes a record.
    table: Arc<Mutex<Connection>>,
}

impl fmt::Debug for EmbeddedStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EmbeddedStreams")
    }
}

impl EmbeddedStreams {
    pub(crate) fn new(database: Database, table: Arc<Mutex<Connection>>) -> Self {
        Self { database, table }
    }

    fn shards(&self, stream: &str) -> Result<Vec<String>, String> {
        let request = DescribeStreamRequest { stream_arn: stream.into(), ..DescribeStreamRequest::default() };
        let described = self.database.describe_stream(request).map_err(|error| message(&error))?;
        Ok(described.stream_description.shards.into_iter().map(|shard| shard.shard_id).collect())
    }

    fn records(
        &self,
        stream: &str,
        shard: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Value>, String> {
        let start = if after.is_some() { "AFTER_SEQUENCE_NUMBER" } else { "TRIM_HORIZON" };
        let found = self
            .database
            .get_shard_iterator(GetShardIteratorRequest {
                stream_arn: stream.into(),
                shard_id: shard.into(),
                shard_iterator_type: start.into(),
                sequence_number: after.map(str::to_owned),
            })
            .map_err(|error| message(&error))?;
        let Some(shard_iterator) = found.shard_iterator else { return Ok(Vec::new()) };
        let request = GetRecordsRequest { shard_iterator, limit: Some(limit) };
        let page = self.database.get_records(request).map_err(|error| message(&error))?;
        page.records
            .into_iter()
            .map(|record| {
                let mut record = serde_json::to_value(record).map_err(|error| error.to_string())?;
                record["eventSourceARN"] = stream.into();
                Ok(record)
            })
            .collect()
    }

    /// Deletes the oldest stream records of a table: at most [`TRIMMED_AT_ONCE`] records, and no record after
    /// the sequence number `through`. Keeps the newest record, because the engine continues its numbering from
    /// there. Returns the number of deleted records.
    pub fn trim(&self, table: &str, through: &str) -> Result<usize, String> {
        // The engine stores sequence numbers without this offset. It adds the offset when it returns a number, so
        // that the number has as many digits as on AWS.
        const OFFSET: i128 = 100_000_000_000_000_000_000;
        let through = through.parse::<i128>().map_err(|error| error.to_string())? - OFFSET;
        let through = i64::try_from(through).map_err(|error| error.to_string())?;
        let connection = self.table.lock().map_err(|error| error.to_string())?;
        let mut delete = connection
            .prepare_cached(
                "DELETE FROM _stream_records WHERE rowid IN (
                     SELECT rowid FROM _stream_records
                     WHERE table_name = ?1 AND CAST(sequence_number AS INTEGER) <= ?2
                     AND CAST(sequence_number AS INTEGER) < (
                         SELECT MAX(CAST(sequence_number AS INTEGER)) FROM _stream_records
                         WHERE table_name = ?1)
                     ORDER BY CAST(sequence_number AS INTEGER) LIMIT ?3)",
            )
            .map_err(|error| error.to_string())?;
        delete.execute(rusqlite::params![table, through, TRIMMED_AT_ONCE]).map_err(|error| error.to_string())
    }
}

fn message(error: &DynoxideError) -> String {
    error.to_string()
}

/// The streams of a DynamoDB that is reached through the SDK.
#[derive(Debug, Clone)]
pub struct RemoteStreams {
    client: Client,
    region: String,
}

impl RemoteStreams {
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

    async fn shards(&self, stream: &str) -> Result<Vec<String>, String> {
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

    async fn records(
        &self,
        stream: &str,
        shard: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<Value>, String> {
        let iterator = self
            .client
            .get_shard_iterator()
            .stream_arn(stream)
            .shard_id(shard)
            .shard_iterator_type(match after {
                Some(_) => ShardIteratorType::AfterSequenceNumber,
                None => ShardIteratorType::TrimHorizon,
            })
            .set_sequence_number(after.map(str::to_owned))
            .send()
            .await
            .map_err(|error| DisplayErrorContext(error).to_string())?;
        let Some(iterator) = iterator.shard_iterator else { return Ok(Vec::new()) };
        let page = self
            .client
            .get_records()
            .shard_iterator(iterator)
            .limit(limit.try_into().unwrap_or(i32::MAX))
            .send()
            .await
            .map_err(|error| DisplayErrorContext(error).to_string())?;
        let records = page.records.unwrap_or_default();
        Ok(records.iter().map(|record| self.record(stream, record)).collect())
    }

    fn record(&self, stream: &str, record: &Record) -> Value {
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
