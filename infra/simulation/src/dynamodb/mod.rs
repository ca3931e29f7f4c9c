//! DynamoDB as it is on AWS: a real engine behind a network that loses, delays and repeats calls.
//!
//! A replica, which lags behind, answers queries of global indexes and some eventually consistent reads. Every change
//! also goes to the streams.

mod changes;
mod guards;
mod replica;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::config::SharedHttpClient;
use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use dynoxide::Database;
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use touchline_stack::direct::{self, RequestBody};

pub use changes::Change;
use changes::{Written, image, written};
pub use guards::{Guard, Guards};
use replica::Replica;

use crate::dice::Dice;
use crate::fault::{Fault, Weather};
use crate::process::Process;
use crate::streams::Streams;
use crate::trace::Trace;

/// The tables of a world, with the network in front of them. Clones share the tables.
#[derive(Clone)]
pub struct DynamoDb(Arc<Shared>);

struct Shared {
    primary: Database,
    /// Every item of the primary, so that the state before a write is known without a read.
    items: Mutex<HashMap<Written, Value>>,
    replica: Mutex<Replica>,
    guards: Mutex<Guards>,
    streams: Arc<Streams>,
    weather: Arc<Weather>,
    /// Draws the delays, and which eventually consistent reads are stale.
    dice: Dice,
    trace: Arc<Trace>,
}

impl fmt::Debug for DynamoDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DynamoDb")
    }
}

impl DynamoDb {
    /// Creates a store without tables.
    ///
    /// # Panics
    ///
    /// If the engine does not start.
    #[must_use]
    pub fn new(streams: Arc<Streams>, weather: Arc<Weather>, dice: Dice, trace: Arc<Trace>) -> Self {
        let memory = || Database::memory().expect("the engine starts");
        let replica = Mutex::new(Replica::new(memory()));
        let (primary, items) = (memory(), Mutex::default());
        Self(Arc::new(Shared {
            primary,
            items,
            replica,
            guards: Mutex::default(),
            streams,
            weather,
            dice,
            trace,
        }))
    }

    /// Returns an HTTP client for the SDK.
    #[must_use]
    pub fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(self.clone())
    }

    /// Returns every item of a table, sorted by key.
    #[must_use]
    pub fn items(&self, table: &str) -> Vec<Value> {
        let items = self.0.items.lock().expect("no holder of the lock panics");
        let mut found: Vec<_> = items.iter().filter(|(key, _)| key.table == table).collect();
        found.sort_by_key(|(key, _)| *key);
        found.into_iter().map(|(_, item)| item.clone()).collect()
    }

    /// Deletes the items whose time to live has passed. DynamoDB does this up to days late.
    pub fn expire(&self, table: &str, now: i64) {
        for item in self.items(table) {
            let expires = item["expires_at"]["N"].as_str().and_then(|text| text.parse::<f64>().ok());
            #[expect(clippy::cast_precision_loss, reason = "timestamps are far below 2^52")]
            if expires.is_some_and(|expires| expires < now as f64) {
                let key = json!({ "pk": item["pk"], "sk": item["sk"] });
                self.execute("DeleteItem", &json!({ "TableName": table, "Key": key }));
            }
        }
    }

    /// Carries one call to the store and its response back, with delays and maybe with a fault.
    async fn carry(
        self,
        operation: String,
        mut body: Value,
        process: Arc<Process>,
    ) -> Result<HttpResponse, ConnectorError> {
        // Remove the idempotency token, so that only the conditions of a write make its retries safe. DynamoDB forgets a
        // token after ten minutes, and clients retry for longer.
        if let Some(body) = body.as_object_mut() {
            body.remove("ClientRequestToken");
        }
        tokio::time::sleep(self.0.dice.millis(0, 4)).await;
        let fault = self.0.weather.draw(&operation);
        let lost = || ConnectorError::io("lost on the network".into());
        let response = match fault {
            None => self.execute(&operation, &body),
            Some(Fault::LoseRequest) => {
                self.trace(&process, &operation, &body, fault, None);
                return Err(lost());
            }
            Some(Fault::LoseResponse) => {
                let response = self.execute(&operation, &body);
                self.trace(&process, &operation, &body, fault, Some(&response));
                return Err(lost());
            }
            Some(Fault::Late) => {
                let (store, delay) = (self.clone(), self.0.dice.millis(2_000, 6_000));
                self.trace(&process, &operation, &body, fault, None);
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let response = store.execute(&operation, &body);
                    store.trace(&process, &operation, &body, fault, Some(&response));
                });
                // The SDK gives up this attempt after its timeout.
                return std::future::pending().await;
            }
            Some(Fault::DeliverTwice) => {
                let response = self.execute(&operation, &body);
                let (store, delay) = (self.clone(), self.0.dice.millis(1, 3_000));
                let (operation, body) = (operation.clone(), body.clone());
                let process = Arc::clone(&process);
                tokio::spawn(async move {
                    tokio::time::sleep(delay).await;
                    let response = store.execute(&operation, &body);
                    store.trace(&process, &operation, &body, fault, Some(&response));
                });
                response
            }
            Some(Fault::Throttle) => error(400, "ProvisionedThroughputExceededException", Value::Null),
            Some(Fault::Conflict) => conflict(&operation, &body, &self.0.dice),
            Some(Fault::InternalError) => error(500, "InternalServerError", Value::Null),
            Some(Fault::InternalErrorAfter) => {
                self.execute(&operation, &body);
                error(500, "InternalServerError", Value::Null)
            }
            Some(Fault::Partial) => self.execute_part(&operation, body.clone()),
            Some(Fault::CrashBefore | Fault::CrashAfter) => {
                let response = (fault == Some(Fault::CrashAfter)).then(|| self.execute(&operation, &body));
                self.trace(&process, &operation, &body, fault, response.as_ref());
                return process.crash().await;
            }
        };
        self.trace(&process, &operation, &body, fault, Some(&response));
        tokio::time::sleep(self.0.dice.millis(0, 3)).await;
        Ok(response)
    }

    fn trace(
        &self,
        process: &Process,
        operation: &str,
        body: &Value,
        fault: Option<Fault>,
        response: Option<&HttpResponse>,
    ) {
        let status = response.map_or(0, |response| response.status().as_u16());
        let fault = fault.map_or(String::new(), |fault| format!(" {fault:?}"));
        let target = target(operation, body);
        self.0.trace.line(format_args!("  {} {operation} {target} -> {status}{fault}", process.name));
    }

    /// Executes a call on the engine. Passes the changes on to the replica and to the streams.
    pub fn execute(&self, operation: &str, body: &Value) -> HttpResponse {
        let keys = written(operation, body);
        if keys.is_empty() {
            return self.read(operation, body);
        }
        let Shared { primary, items, .. } = &*self.0;
        let response = direct::execute(primary, operation, RequestBody::Json(body));
        let is_success = response.status().is_success();
        if !is_success || operation == "BatchExecuteStatement" || has_condition(body) {
            let mut guards = self.0.guards.lock().expect("no holder of the lock panics");
            guards::count(&mut guards, operation, body, &body_of(&response));
        }
        if !is_success {
            return response;
        }
        for key in keys {
            let new = image(primary, &key);
            let mut items = items.lock().expect("no holder of the lock panics");
            let old = match &new {
                Some(item) => items.insert(key.clone(), item.clone()),
                None => items.remove(&key),
            };
            drop(items);
            if old != new {
                let Written { table, pk, sk } = key;
                self.changed(Change { table, pk, sk, old, new });
            }
        }
        response
    }

    /// Returns how often the conditions of writes held and failed.
    #[must_use]
    pub fn guards(&self) -> Guards {
        self.0.guards.lock().expect("no holder of the lock panics").clone()
    }

    fn changed(&self, change: Change) {
        let lag =
            if self.0.dice.once_in(20) { self.0.dice.millis(0, 5_000) } else { self.0.dice.millis(0, 60) };
        self.0.streams.add(&change);
        self.0.replica.lock().expect("no holder of the lock panics").add(Instant::now() + lag, change);
    }

    fn read(&self, operation: &str, body: &Value) -> HttpResponse {
        let is_consistent = match operation {
            // Each table of a batch has its own setting, and our batches read one table.
            "BatchGetItem" => body["RequestItems"]
                .as_object()
                .is_none_or(|tables| tables.values().all(|table| table["ConsistentRead"] == true)),
            "GetItem" | "Query" | "Scan" => body["ConsistentRead"] == true,
            _ => true,
        };
        // A global index always lags. Of the other eventually consistent reads, one in three is stale.
        let lags = !is_consistent && (body.get("IndexName").is_some() || self.0.dice.once_in(3));
        if !lags {
            return direct::execute(&self.0.primary, operation, RequestBody::Json(body));
        }
        let mut replica = self.0.replica.lock().expect("no holder of the lock panics");
        replica.catch_up(Instant::now());
        direct::execute(&replica.database, operation, RequestBody::Json(body))
    }

    /// Executes only the first part of a batch. The response names the rest as unprocessed.
    fn execute_part(&self, operation: &str, mut body: Value) -> HttpResponse {
        let dice = &self.0.dice;
        if operation == "BatchExecuteStatement" {
            let statements = body["Statements"].as_array_mut().expect("a batch has statements");
            let kept = dice.below(u32::try_from(statements.len()).unwrap_or(1)) as usize;
            let skipped = statements.split_off(kept).len();
            let mut response =
                if kept == 0 { json!({ "Responses": [] }) } else { body_of(&self.execute(operation, &body)) };
            let responses = response["Responses"].as_array_mut().expect("a batch has responses");
            let throttled = json!({ "Error": { "Code": "ThrottlingError", "Message": "injected" } });
            responses.extend(std::iter::repeat_n(throttled, skipped));
            return direct::response(200, response.to_string());
        }
        let is_write = operation == "BatchWriteItem";
        let mut unprocessed = Map::new();
        let tables = body["RequestItems"].as_object_mut().expect("a batch has tables");
        for (table, requests) in tables.iter_mut() {
            let list = if is_write { &mut *requests } else { &mut requests["Keys"] };
            let list = list.as_array_mut().expect("a batch has requests");
            // At least one request is processed. DynamoDB throttles the whole batch otherwise.
            let kept = 1 + dice.below(u32::try_from(list.len()).unwrap_or(1)) as usize;
            let rest = list.split_off(kept.min(list.len()));
            if !rest.is_empty() {
                let rest = if is_write {
                    json!(rest)
                } else {
                    let mut left = requests.clone();
                    left["Keys"] = json!(rest);
                    left
                };
                unprocessed.insert(table.clone(), rest);
            }
        }
        let mut response = body_of(&self.execute(operation, &body));
        response[if is_write { "UnprocessedItems" } else { "UnprocessedKeys" }] = unprocessed.into();
        direct::response(200, response.to_string())
    }
}

impl HttpClient for DynamoDb {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for DynamoDb {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body: Value = request
            .body()
            .bytes()
            .and_then(|bytes| serde_json::from_slice(bytes).ok())
            .expect("the SDK sends JSON");
        let store = self.clone();
        match Process::current() {
            Some(process) => HttpConnectorFuture::new(store.carry(operation, body, process)),
            // Outside of a process, calls have no faults. They prepare and check the world.
            None => HttpConnectorFuture::new(async move { Ok(store.execute_everywhere(&operation, &body)) }),
        }
    }
}

impl DynamoDb {
    /// Executes a call. Creates tables in the replica, too.
    fn execute_everywhere(&self, operation: &str, body: &Value) -> HttpResponse {
        if matches!(operation, "CreateTable" | "UpdateTimeToLive") {
            let replica = self.0.replica.lock().expect("no holder of the lock panics");
            let _ = direct::execute(&replica.database, operation, RequestBody::Json(body));
        }
        self.execute(operation, body)
    }
}

/// A time that is longer than any delay of the network or of the replica.
pub const LONGEST_DELAY: Duration = Duration::from_secs(7);

fn has_condition(body: &Value) -> bool {
    body.get("ConditionExpression").is_some() || body.get("TransactItems").is_some()
}

fn body_of(response: &HttpResponse) -> Value {
    response.body().bytes().and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default()
}

fn error(status: u16, code: &str, more: Value) -> HttpResponse {
    let mut body =
        json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "injected" });
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    direct::response(status, body.to_string())
}

/// Returns the error for a conflict with another transaction.
fn conflict(operation: &str, body: &Value, dice: &Dice) -> HttpResponse {
    if operation != "TransactWriteItems" {
        return error(400, "TransactionConflictException", Value::Null);
    }
    let items = body["TransactItems"].as_array().map_or(1, Vec::len);
    let conflicting = dice.below(u32::try_from(items).unwrap_or(1)) as usize;
    let reasons: Vec<Value> = (0..items)
        .map(|at| json!({ "Code": if at == conflicting { "TransactionConflict" } else { "None" } }))
        .collect();
    error(400, "TransactionCanceledException", json!({ "CancellationReasons": reasons }))
}

/// Names the table and the first key of a request, for the trace.
fn target(operation: &str, body: &Value) -> String {
    if let Some(first) = written(operation, body).first() {
        return format!("{} {} {}", first.table, first.pk, first.sk);
    }
    let key = &body["Key"];
    let table = body["TableName"].as_str().unwrap_or_default();
    match key["pk"]["S"].as_str() {
        Some(pk) => format!("{table} {pk} {}", key["sk"]["S"].as_str().unwrap_or_default()),
        None => format!("{table} {}", body["ExpressionAttributeValues"]),
    }
}
