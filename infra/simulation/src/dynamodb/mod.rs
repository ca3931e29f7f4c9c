//! A model of DynamoDB on AWS: a real engine behind a network that loses, delays and repeats calls.
//!
//! Global indexes and some eventually consistent reads miss the latest changes. Every change also goes to the streams.

mod changes;
mod guards;
mod lag;
mod limited;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
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
use lag::Lag;

use crate::costs::Units;
use crate::dice::Dice;
use crate::fault::{Fault, Faults, reads_predictions};
use crate::limits::Limits;
use crate::process::Process;
use crate::signal::Signal;
use crate::streams::Streams;
use crate::trace::Trace;

/// The tables of a world, with the network in front of them. Clones share the tables.
#[derive(Clone)]
pub struct DynamoDb(Arc<State>);

struct State {
    primary: Database,
    /// Every item of the primary, so that the state before a write is known without a read.
    items: Mutex<HashMap<Written, Value>>,
    /// What eventually consistent reads of tables can miss.
    replica: Mutex<Lag>,
    /// What queries of indexes miss. Local indexes lag here as global ones do, which is stricter than AWS.
    indexes: Mutex<Lag>,
    guards: Mutex<Guards>,
    streams: Arc<Streams>,
    faults: Arc<Faults>,
    /// Draws the delays, and which eventually consistent reads are stale.
    dice: Dice,
    trace: Arc<Trace>,
    /// Changes when `points` has read predictions.
    points_read: Signal,
    rewrite: OnceLock<Rewrite>,
    limits: OnceLock<Arc<Limits>>,
}

/// Changes the body of a request before the store carries it out. The first two arguments are the operation and the
/// fault of the call.
pub type Rewrite = Box<dyn Fn(&str, Option<Fault>, &mut Value) + Send + Sync>;

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
    pub fn new(streams: Arc<Streams>, faults: Arc<Faults>, dice: Dice, trace: Arc<Trace>) -> Self {
        let primary = Database::memory().expect("the engine starts");
        Self::on(primary, streams, faults, dice, trace)
    }

    /// Creates a store with the tables of an engine. The items that the engine has already are not among [`Self::items`].
    #[must_use]
    pub fn on(
        primary: Database,
        streams: Arc<Streams>,
        faults: Arc<Faults>,
        dice: Dice,
        trace: Arc<Trace>,
    ) -> Self {
        Self(Arc::new(State {
            primary,
            items: Mutex::default(),
            replica: Mutex::default(),
            indexes: Mutex::default(),
            guards: Mutex::default(),
            streams,
            faults,
            dice,
            trace,
            points_read: Signal::default(),
            rewrite: OnceLock::new(),
            limits: OnceLock::new(),
        }))
    }

    /// Rewrites every request of a process, for tests that remove a safeguard. Only the first call has an effect.
    pub fn rewrite_requests(&self, rewrite: Rewrite) {
        let _ = self.0.rewrite.set(rewrite);
    }

    /// Sets the limits. Only the first call has an effect.
    pub fn limit(&self, limits: Arc<Limits>) {
        let _ = self.0.limits.set(limits);
    }

    /// Returns an HTTP client for the SDK.
    #[must_use]
    pub fn http_client(&self) -> SharedHttpClient {
        SharedHttpClient::new(self.clone())
    }

    /// Returns one item.
    #[must_use]
    pub fn item(&self, table: &str, pk: &str, sk: &str) -> Option<Value> {
        let key = Written { table: table.to_owned(), pk: pk.to_owned(), sk: sk.to_owned() };
        self.0.items.lock().expect("no holder of the lock panics").get(&key).cloned()
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
            body.insert("ReturnConsumedCapacity".into(), "TOTAL".into());
        }
        tokio::time::sleep(self.0.dice.millis(0, 4)).await;
        let fault = self.0.faults.draw(&operation, &body, &process);
        if let Some(rewrite) = self.0.rewrite.get() {
            rewrite(&operation, fault, &mut body);
        }
        let lost = || {
            process.stop_counting();
            ConnectorError::io("lost on the network".into())
        };
        let response = match fault {
            None => self.execute_in(&process, &operation, &body).await,
            Some(Fault::LoseRequest) => {
                self.trace(&process, &operation, &body, fault, None);
                return Err(lost());
            }
            Some(Fault::LoseResponse) => {
                let response = self.execute(&operation, &body);
                self.trace(&process, &operation, &body, fault, Some(&response));
                return Err(lost());
            }
            Some(late @ (Fault::Late | Fault::LatePrediction | Fault::LateProgress)) => {
                let dice = &self.0.dice;
                let delay = match late {
                    Fault::LatePrediction => Delay::UntilPointsRead,
                    Fault::LateProgress => Delay::For(dice.millis(60_500, 115_000)),
                    _ => Delay::new(dice, 2_000, 6_000),
                };
                let store = self.clone();
                self.trace(&process, &operation, &body, fault, None);
                process.stop_counting();
                tokio::spawn(async move {
                    store.delay(delay).await;
                    let response = store.execute(&operation, &body);
                    store.trace(&process, &operation, &body, fault, Some(&response));
                });
                // The SDK gives up this attempt after its timeout.
                return std::future::pending().await;
            }
            Some(Fault::DeliverTwice) => {
                let response = self.execute(&operation, &body);
                let delay = Delay::new(&self.0.dice, 1, 3_000);
                let store = self.clone();
                let (operation, body) = (operation.clone(), body.clone());
                let process = Arc::clone(&process);
                tokio::spawn(async move {
                    store.delay(delay).await;
                    let response = store.execute(&operation, &body);
                    store.trace(&process, &operation, &body, fault, Some(&response));
                });
                response
            }
            Some(Fault::Throttle) if operation == "TransactWriteItems" && self.0.dice.once_in(2) => {
                cancelled("ThrottlingError", &body, &self.0.dice)
            }
            Some(Fault::Throttle | Fault::HotTable) => {
                error(400, "ProvisionedThroughputExceededException", Value::Null)
            }
            Some(Fault::Conflict) if operation == "TransactWriteItems" => {
                cancelled("TransactionConflict", &body, &self.0.dice)
            }
            Some(Fault::Conflict) => error(400, "TransactionConflictException", Value::Null),
            Some(Fault::InternalError) => error(500, "InternalServerError", Value::Null),
            Some(Fault::InternalErrorAfter) => {
                self.execute(&operation, &body);
                error(500, "InternalServerError", Value::Null)
            }
            Some(Fault::Freeze | Fault::FreezePoints) => {
                let response = self.execute_in(&process, &operation, &body).await;
                process.freeze(self.freeze_time(fault == Some(Fault::FreezePoints)));
                response
            }
            Some(Fault::Partial) => self.execute_part(&operation, body.clone()),
            Some(Fault::CrashBefore | Fault::CrashAfter) => {
                let response = (fault == Some(Fault::CrashAfter)).then(|| self.execute(&operation, &body));
                self.trace(&process, &operation, &body, fault, response.as_ref());
                return process.crash().await;
            }
        };
        self.trace(&process, &operation, &body, fault, Some(&response));
        if process.function() == "points" && reads_predictions(&operation, &body) {
            self.0.points_read.change();
        }
        if fault.is_none() && response.status().is_success() {
            process.spend(Units::of(&operation, &body_of(&response)));
        } else {
            process.stop_counting();
        }
        tokio::time::sleep(self.0.dice.millis(0, 3)).await;
        Ok(response)
    }

    /// Draws how long a process freezes. A run of `points` freezes for so long that the next runs begin meanwhile.
    fn freeze_time(&self, is_points: bool) -> Duration {
        let dice = &self.0.dice;
        match (is_points, dice.once_in(2)) {
            (true, _) => dice.millis(60_000, 150_000),
            (false, true) => dice.millis(500, 240_000),
            (false, false) => dice.millis(500, 10_000),
        }
    }

    /// Waits before a delayed call.
    async fn delay(&self, delay: Delay) {
        match delay {
            Delay::For(time) => tokio::time::sleep(time).await,
            Delay::UntilPointsRead => {
                let mut seen = self.0.points_read.count();
                let read = self.0.points_read.changed(&mut seen);
                let _ = tokio::time::timeout(LONGEST_CALL_DELAY, read).await;
                tokio::time::sleep(self.0.dice.millis(0, 8)).await;
            }
        }
    }

    /// Executes a call of an environment, within the limits if there are any.
    async fn execute_in(&self, process: &Process, operation: &str, body: &Value) -> HttpResponse {
        let Some(limits) = self.0.limits.get() else { return self.execute(operation, body) };
        Self::wait_for_turn(limits, &process.name, operation, body).await;
        self.execute_within(limits, &process.name, operation, body)
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
        self.0.trace.include(&body.to_string());
    }

    /// Executes a call on the engine. Passes the changes on to the streams.
    pub fn execute(&self, operation: &str, body: &Value) -> HttpResponse {
        let keys = written(operation, body);
        if keys.is_empty() {
            return self.read(operation, body);
        }
        let State { primary, items, .. } = &*self.0;
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
                self.changed(Change { key, old, new });
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
        let dice = &self.0.dice;
        let lag = |longest| if dice.once_in(20) { dice.millis(0, longest) } else { dice.millis(0, 60) };
        let now = Instant::now();
        self.0.streams.add(&change);
        let Change { key, old, .. } = change;
        let add = |to: &Mutex<Lag>, key, old, lag| {
            to.lock().expect("no holder of the lock panics").add(key, old, now + lag);
        };
        add(&self.0.replica, key.clone(), old.clone(), lag(2_000));
        add(&self.0.indexes, key, old, lag(5_000));
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
        if is_consistent {
            return self.read_engine(operation, body);
        }
        if body.get("IndexName").is_some() {
            return self.read_behind(&self.0.indexes, operation, body);
        }
        // Two in three of the other eventually consistent reads go to a replica that may lag, which is stricter than AWS.
        if self.0.dice.once_in(3) {
            return self.read_engine(operation, body);
        }
        self.read_behind(&self.0.replica, operation, body)
    }

    fn read_engine(&self, operation: &str, body: &Value) -> HttpResponse {
        direct::execute(&self.0.primary, operation, RequestBody::Json(body))
    }

    /// Reads where the latest changes are missing: undoes them in the engine, reads, and makes them again.
    fn read_behind(&self, lag: &Mutex<Lag>, operation: &str, body: &Value) -> HttpResponse {
        let batch = body["RequestItems"].as_object().into_iter().flatten().map(|(table, _)| table.as_str());
        let tables: Vec<&str> = body["TableName"].as_str().into_iter().chain(batch).collect();
        let outdated: Vec<_> = {
            let mut lag = lag.lock().expect("no holder of the lock panics");
            tables.iter().flat_map(|table| lag.outdated(table, Instant::now())).collect()
        };
        for (key, before) in &outdated {
            self.put_back(key, before.as_ref());
        }
        let response = self.read_engine(operation, body);
        let items = self.0.items.lock().expect("no holder of the lock panics");
        for (key, _) in &outdated {
            self.put_back(key, items.get(key));
        }
        response
    }

    /// Sets an item in the engine, without a record in a stream.
    fn put_back(&self, key: &Written, item: Option<&Value>) {
        let (operation, request) = match item {
            Some(item) => ("PutItem", json!({ "TableName": key.table, "Item": item })),
            None => ("DeleteItem", json!({ "TableName": key.table, "Key": key.as_json() })),
        };
        let response = direct::execute(&self.0.primary, operation, RequestBody::Json(&request));
        assert!(response.status().is_success(), "the engine accepts every earlier item: {response:?}");
    }

    /// Executes a random part of a batch. The response names the rest as unprocessed.
    fn execute_part(&self, operation: &str, mut body: Value) -> HttpResponse {
        let dice = &self.0.dice;
        if operation == "BatchExecuteStatement" {
            let statements = body["Statements"].as_array().map_or(0, Vec::len);
            let is_kept: Vec<bool> = (0..statements).map(|_| dice.once_in(2)).collect();
            return self.execute_statements(body, &is_kept);
        }
        let is_write = operation == "BatchWriteItem";
        let mut unprocessed = Map::new();
        let tables = body["RequestItems"].as_object_mut().expect("a batch has tables");
        for (table, requests) in tables.iter_mut() {
            let list = if is_write { &mut *requests } else { &mut requests["Keys"] };
            let list = list.as_array_mut().expect("a batch has requests");
            let (kept, rest) = self.split(std::mem::take(list));
            *list = kept;
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

    /// Executes the statements that are in the mask. The others are throttled.
    fn execute_statements(&self, mut body: Value, is_kept: &[bool]) -> HttpResponse {
        let statements = std::mem::take(body["Statements"].as_array_mut().expect("a batch has statements"));
        let kept = statements.into_iter().zip(is_kept).filter(|(_, is_kept)| **is_kept);
        body["Statements"] = kept.map(|(statement, _)| statement).collect();
        let done = if is_kept.contains(&true) {
            body_of(&self.execute("BatchExecuteStatement", &body))
        } else {
            json!({})
        };
        let mut done = done["Responses"].as_array().cloned().unwrap_or_default().into_iter();
        let throttled = json!({ "Error": { "Code": "ThrottlingError", "Message": "injected" } });
        let responses: Vec<Value> = is_kept
            .iter()
            .map(|is_kept| if *is_kept { done.next().unwrap_or_default() } else { throttled.clone() })
            .collect();
        direct::response(200, json!({ "Responses": responses }).to_string())
    }

    /// Divides a batch into a part that is processed and a part that is not. At least one request is processed: DynamoDB
    /// throttles the whole batch otherwise.
    fn split(&self, mut requests: Vec<Value>) -> (Vec<Value>, Vec<Value>) {
        let first = self.0.dice.below(u32::try_from(requests.len()).unwrap_or(1)) as usize;
        let first = requests.swap_remove(first);
        let (mut kept, rest): (Vec<_>, Vec<_>) = requests.into_iter().partition(|_| self.0.dice.once_in(2));
        kept.push(first);
        (kept, rest)
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
            None => HttpConnectorFuture::new(async move { Ok(store.execute(&operation, &body)) }),
        }
    }
}

/// A time that is longer than any delay of the network, of the replica or of an environment.
pub const LONGEST_DELAY: Duration = Duration::from_secs(241);

/// The longest delay of a call. A packet that is sent again after a network failure can arrive minutes later.
const LONGEST_CALL_DELAY: Duration = Duration::from_mins(2);

/// How long a delayed call waits.
enum Delay {
    For(Duration),
    /// Until `points` has read predictions. A prediction that arrives before `points` writes their points does most harm.
    UntilPointsRead,
}

impl Delay {
    /// Draws a delay: one in three is short, between `low` and `high` milliseconds.
    fn new(dice: &Dice, low: u32, high: u32) -> Self {
        match dice.below(3) {
            0 => Self::For(dice.millis(low, high)),
            1 => Self::For(dice.millis(low, 120_000)),
            _ => Self::UntilPointsRead,
        }
    }
}

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

/// Returns the error for a transaction that was cancelled because of one of its items.
fn cancelled(reason: &str, body: &Value, dice: &Dice) -> HttpResponse {
    let items = body["TransactItems"].as_array().map_or(1, Vec::len);
    let at_fault = dice.below(u32::try_from(items).unwrap_or(1)) as usize;
    let reasons: Vec<Value> =
        (0..items).map(|at| json!({ "Code": if at == at_fault { reason } else { "None" } })).collect();
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
