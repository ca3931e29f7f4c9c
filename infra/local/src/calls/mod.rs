//! Observes the DynamoDB calls of the Lambda functions, for three purposes:
//!
//! - After a write, the stack delivers the new stream records.
//! - The console shows the calls of each request, with their times and costs.
//! - With `--note-calls`, the stack writes the calls to a file. A test compares them with the functions' IAM roles.

mod actions;
mod writes;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use serde_json::Value;

use crate::delivery::{Inboxes, Tickets};
use crate::spans::{self, Kind, Span};

const LOCK: &str = "no holder of the lock panics";

tokio::task_local! {
    static SCOPE: Arc<Scope>;
}

/// The work of the current request.
#[derive(Debug, Default)]
struct Scope {
    /// `None` if no console page is open: then nothing is recorded.
    recorded: Option<Mutex<Recorded>>,
    /// The kind of an invocation.
    invocation: Option<Kind>,
    tickets: Arc<Mutex<Tickets>>,
}

#[derive(Debug, Default)]
struct Recorded {
    /// One line for each DynamoDB call.
    calls: Vec<String>,
    spans: Vec<Span>,
}

impl Scope {
    fn add(&self, span: Span) {
        if let Some(recorded) = &self.recorded {
            recorded.lock().expect(LOCK).spans.push(span);
        }
    }
}

/// What a request did.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// The DynamoDB calls, one line for each.
    pub(crate) calls: Vec<String>,
    /// The invocations and DynamoDB calls.
    pub(crate) spans: Vec<Span>,
    /// The deliveries of the stream records that the request's writes create.
    pub(crate) tickets: Tickets,
}

/// Runs `work`; returns its output and what it did. Records the calls and invocations only if `is_watched`.
pub(crate) async fn observe<F: Future>(is_watched: bool, work: F) -> (F::Output, Observed) {
    observe_as(Kind::Function, is_watched, work).await
}

/// Like [`observe`], for the delivery of a stream.
pub(crate) async fn observe_delivery<F: Future>(is_watched: bool, work: F) -> (F::Output, Observed) {
    observe_as(Kind::Stream, is_watched, work).await
}

async fn observe_as<F: Future>(kind: Kind, is_watched: bool, work: F) -> (F::Output, Observed) {
    let recorded = is_watched.then(Mutex::default);
    let scope = Arc::new(Scope { recorded, invocation: Some(kind), tickets: Arc::default() });
    let output = SCOPE.scope(Arc::clone(&scope), work).await;
    let recorded = scope.recorded.as_ref().map(|recorded| std::mem::take(&mut *recorded.lock().expect(LOCK)));
    let Recorded { calls, spans } = recorded.unwrap_or_default();
    let tickets = std::mem::take(&mut *scope.tickets.lock().expect(LOCK));
    (output, Observed { calls, spans, tickets })
}

/// Records an invocation that has ended.
pub(crate) fn record_invocation(function: &str, start: Instant) {
    let _ = SCOPE.try_with(|scope| {
        if let Some(kind) = scope.invocation {
            scope.add(Span::since(start, function.to_owned(), kind));
        }
    });
}

/// Adds the DynamoDB calls of `work` to those of the surrounding `observe`, even when `work` runs in another
/// task.
pub(crate) fn in_current_scope<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let scope = SCOPE.try_with(Arc::clone).unwrap_or_default();
    SCOPE.scope(scope, work)
}

/// Observes the calls of all Lambda functions.
#[derive(Debug, Clone)]
pub(crate) struct CallObserver {
    inboxes: Inboxes,
    /// Each combination of function, action and resource is written to this file when it first occurs.
    file: Option<PathBuf>,
    recorded: Arc<Mutex<BTreeSet<String>>>,
}

impl CallObserver {
    pub(crate) fn new(inboxes: Inboxes, file: Option<PathBuf>) -> Self {
        Self { inboxes, file, recorded: Arc::default() }
    }

    /// Returns an HTTP client whose DynamoDB calls are observed under the name of a function.
    pub(crate) fn client(&self, function: &str, inner: SharedHttpClient) -> SharedHttpClient {
        SharedHttpClient::new(ObservedClient { function: function.into(), observer: self.clone(), inner })
    }

    fn record(&self, function: &str, operation: &str, body: &Value) {
        let actions = actions::actions(operation, body);
        let _ = SCOPE.try_with(|scope| {
            if let Some(recorded) = &scope.recorded {
                recorded.lock().expect(LOCK).calls.push(actions::summary(operation, &actions));
            }
        });
        let Some(path) = &self.file else { return };
        for (action, resource) in actions {
            let line = format!("{function} dynamodb:{action} {resource}");
            let mut recorded = self.recorded.lock().expect(LOCK);
            if recorded.insert(line.clone()) {
                let file = OpenOptions::new().create(true).append(true).open(path);
                if let Err(error) = file.and_then(|mut file| writeln!(file, "{line}")) {
                    tracing::error!(%error, "a call could not be recorded");
                }
            }
        }
    }

    fn wants_calls(&self) -> bool {
        self.file.is_some() || SCOPE.try_with(|scope| scope.recorded.is_some()).unwrap_or_default()
    }
}

#[derive(Debug)]
struct ObservedClient {
    function: Arc<str>,
    observer: CallObserver,
    inner: SharedHttpClient,
}

impl HttpClient for ObservedClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(ObservedConnector {
            function: Arc::clone(&self.function),
            observer: self.observer.clone(),
            inner: self.inner.http_connector(settings, components),
        })
    }
}

#[derive(Debug)]
struct ObservedConnector {
    function: Arc<str>,
    observer: CallObserver,
    inner: SharedHttpConnector,
}

impl HttpConnector for ObservedConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let Some(operation) = target.strip_prefix("DynamoDB_20120810.") else {
            return self.inner.call(request);
        };
        let is_write = writes::is_write(operation) && !self.observer.inboxes.is_empty();
        if !is_write && !self.observer.wants_calls() {
            return self.inner.call(request);
        }
        let body = request.body().bytes().and_then(|body| serde_json::from_slice(body).ok());
        let body: Value = body.unwrap_or_default();
        if self.observer.wants_calls() {
            self.observer.record(&self.function, operation, &body);
        }
        let scope = SCOPE.try_with(Arc::clone).ok().filter(|scope| scope.recorded.is_some());
        let timed = scope.map(|scope| TimedCall {
            scope,
            name: actions::tables(operation, &body),
            is_write: writes::is_write(operation),
            start: spans::now(),
        });
        if !is_write {
            let sent = self.inner.call(request);
            return HttpConnectorFuture::new(async move {
                let response = sent.await;
                if let Some(timed) = timed {
                    timed.end(&response);
                }
                response
            });
        }
        let tickets = SCOPE.try_with(|scope| Arc::clone(&scope.tickets)).ok();
        let write = self.observer.inboxes.begin_write(&writes::written_items(operation, &body), tickets);
        let sent = self.inner.call(request);
        HttpConnectorFuture::new(async move {
            let response = sent.await;
            // Only a 4xx response proves that the write was not carried out. A write without a response may have
            // been carried out.
            if response.as_ref().is_ok_and(|response| response.status().is_client_error()) {
                write.reject();
            }
            if let Some(timed) = timed {
                timed.end(&response);
            }
            response
        })
    }
}

/// A DynamoDB call whose span is recorded when it ends.
struct TimedCall {
    scope: Arc<Scope>,
    name: String,
    is_write: bool,
    start: Instant,
}

impl TimedCall {
    fn end(self, response: &Result<HttpResponse, ConnectorError>) {
        let body = response.as_ref().ok().and_then(|response| response.body().bytes());
        let units = body.map_or(0.0, consumed_units);
        let (read_units, write_units) = if self.is_write { (0.0, units) } else { (units, 0.0) };
        let span = Span { read_units, write_units, ..Span::since(self.start, self.name, Kind::Store) };
        self.scope.add(span);
    }
}

/// Returns the capacity units in a response. Every call of the product asks for them.
fn consumed_units(response: &[u8]) -> f64 {
    let response: Value = serde_json::from_slice(response).unwrap_or_default();
    let units = |consumed: &Value| consumed["CapacityUnits"].as_f64().unwrap_or(0.0);
    match &response["ConsumedCapacity"] {
        Value::Array(tables) => tables.iter().map(units).sum(),
        one => units(one),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_units_of_all_tables_are_added() {
        let one = br#"{"ConsumedCapacity":{"TableName":"a","CapacityUnits":0.5}}"#;
        let two = br#"{"ConsumedCapacity":[{"CapacityUnits":2.0},{"CapacityUnits":4.0}]}"#;
        let units = [one.as_slice(), two.as_slice(), b"{}"].map(consumed_units);
        assert_eq!(units.map(|units| units.to_string()), ["0.5", "6", "0"]);
    }
}
