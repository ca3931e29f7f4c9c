//! Observes the DynamoDB calls of the Lambda functions, for three purposes:
//!
//! - After a write, the stack delivers the new stream records.
//! - The console shows the calls of each request.
//! - With `--note-calls`, the stack writes the calls to a file. A test compares them with the functions' IAM roles.

mod actions;
mod writes;

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use serde_json::Value;

use crate::delivery::{Inboxes, Tickets};

const LOCK: &str = "no holder of the lock panics";

tokio::task_local! {
    static SCOPE: Arc<Scope>;
}

/// The DynamoDB calls of the current request.
#[derive(Debug, Default)]
struct Scope {
    /// One line for each call. `None` if the calls are not listed.
    calls: Option<Mutex<Vec<String>>>,
    tickets: Arc<Mutex<Tickets>>,
}

/// What a request did in DynamoDB.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) calls: Vec<String>,
    /// The deliveries of the stream records that the request's writes create.
    pub(crate) tickets: Tickets,
}

/// Runs `work`; returns its output and what it did in DynamoDB. The calls are listed only if `lists_calls` is
/// set.
pub(crate) async fn observe<F: Future>(lists_calls: bool, work: F) -> (F::Output, Observed) {
    let scope = Arc::new(Scope { calls: lists_calls.then(Mutex::default), tickets: Arc::default() });
    let output = SCOPE.scope(Arc::clone(&scope), work).await;
    let calls = scope.calls.as_ref().map(|calls| std::mem::take(&mut *calls.lock().expect(LOCK)));
    let tickets = std::mem::take(&mut *scope.tickets.lock().expect(LOCK));
    (output, Observed { calls: calls.unwrap_or_default(), tickets })
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
            if let Some(calls) = &scope.calls {
                calls.lock().expect(LOCK).push(actions::summary(operation, &actions));
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
        self.file.is_some() || SCOPE.try_with(|scope| scope.calls.is_some()).unwrap_or_default()
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
        if !is_write {
            return self.inner.call(request);
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
            response
        })
    }
}
