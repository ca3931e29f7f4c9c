//! Records the DynamoDB calls of each function as IAM actions and resources. The console shows the calls of each
//! request. `--note-calls` writes the calls to a file, which a test compares with the functions' IAM roles.

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

const LOCK: &str = "no holder of the lock panics";

tokio::task_local! {
    /// The DynamoDB calls of the current request.
    static SCOPE: Arc<Mutex<Vec<String>>>;
}

/// Runs `work` and returns its output with the DynamoDB calls that it made.
pub(crate) async fn collect<F: Future>(work: F) -> (F::Output, Vec<String>) {
    let calls = Arc::<Mutex<Vec<String>>>::default();
    let output = SCOPE.scope(Arc::clone(&calls), work).await;
    let calls = std::mem::take(&mut *calls.lock().expect(LOCK));
    (output, calls)
}

/// Adds the DynamoDB calls of `work` to those of the surrounding `collect`, even when `work` runs in another
/// task.
pub(crate) fn in_current_scope<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let calls = SCOPE.try_with(Arc::clone).unwrap_or_default();
    SCOPE.scope(calls, work)
}

/// Records each combination of function, action and resource in a file when the combination first occurs.
#[derive(Debug, Clone)]
pub(crate) struct CallRecorder {
    file: Option<PathBuf>,
    recorded: Arc<Mutex<BTreeSet<String>>>,
}

impl CallRecorder {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, recorded: Arc::default() }
    }

    /// Returns an HTTP client that records its DynamoDB calls under the name of a function.
    pub(crate) fn client(&self, function: &str, inner: SharedHttpClient) -> SharedHttpClient {
        SharedHttpClient::new(RecordingClient {
            function: function.to_owned(),
            recorder: self.clone(),
            inner,
        })
    }

    fn record(&self, function: &str, operation: &str, body: &Value) {
        let actions = actions(operation, body);
        // Outside of `collect`, the scope does not exist and the calls are not needed.
        let _ = SCOPE.try_with(|calls| calls.lock().expect(LOCK).push(summary(operation, &actions)));
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
}

/// Formats a call in one line: `GetItem users`, or `TransactWriteItems: PutItem users, UpdateItem wallets`.
fn summary(operation: &str, actions: &[(String, String)]) -> String {
    let parts: Vec<_> = actions.iter().map(|(action, resource)| format!("{action} {resource}")).collect();
    let parts = parts.join(", ");
    let is_single = actions.len() == 1 && actions[0].0 == operation;
    if is_single { parts } else { format!("{operation}: {parts}") }
}

/// Returns the actions that an IAM role must allow for a call, each with its table or index.
fn actions(operation: &str, body: &Value) -> Vec<(String, String)> {
    match operation {
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = body["RequestItems"].as_object().into_iter().flatten().map(|(table, _)| table);
            tables.map(|table| (operation.to_owned(), table.clone())).collect()
        }
        "TransactWriteItems" | "TransactGetItems" => body["TransactItems"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|item| item.as_object().into_iter().flatten())
            .map(|(kind, part)| {
                let action = if kind == "ConditionCheck" {
                    "ConditionCheckItem".into()
                } else {
                    format!("{kind}Item")
                };
                (action, text(&part["TableName"]))
            })
            .collect(),
        "BatchExecuteStatement" => body["Statements"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|statement| partiql_action(&text(&statement["Statement"])))
            .collect(),
        _ => {
            let table = text(&body["TableName"]);
            let resource = match body["IndexName"].as_str() {
                Some(index) => format!("{table}/index/{index}"),
                None => table,
            };
            vec![(operation.to_owned(), resource)]
        }
    }
}

/// Returns the action and the table that a `PartiQL` statement needs. `UPDATE "predictions" SET …` needs
/// `PartiQLUpdate` on `predictions`.
fn partiql_action(statement: &str) -> (String, String) {
    let verb = statement.split_whitespace().next().unwrap_or_default().to_lowercase();
    let verb: String =
        verb.chars().take(1).flat_map(char::to_uppercase).chain(verb.chars().skip(1)).collect();
    (format!("PartiQL{verb}"), statement.split('"').nth(1).unwrap_or_default().to_owned())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[derive(Debug)]
struct RecordingClient {
    function: String,
    recorder: CallRecorder,
    inner: SharedHttpClient,
}

impl HttpClient for RecordingClient {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(RecordingConnector {
            function: self.function.clone(),
            recorder: self.recorder.clone(),
            inner: self.inner.http_connector(settings, components),
        })
    }
}

#[derive(Debug)]
struct RecordingConnector {
    function: String,
    recorder: CallRecorder,
    inner: SharedHttpConnector,
}

impl HttpConnector for RecordingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        if let Some(operation) = target.strip_prefix("DynamoDB_20120810.") {
            let body = request.body().bytes().and_then(|body| serde_json::from_slice(body).ok());
            self.recorder.record(&self.function, operation, &body.unwrap_or_default());
        }
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn actions_of(operation: &str, body: &Value) -> String {
        let actions = actions(operation, body);
        actions.iter().map(|(action, resource)| format!("{action} {resource}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn calls_are_recorded_with_the_names_of_iam_actions() {
        assert_eq!(actions_of("GetItem", &json!({ "TableName": "users" })), "GetItem users");
        let query = json!({ "TableName": "rooms", "IndexName": "by_user" });
        assert_eq!(actions_of("Query", &query), "Query rooms/index/by_user");
        let batch = json!({ "RequestItems": { "rooms": {} } });
        assert_eq!(actions_of("BatchGetItem", &batch), "BatchGetItem rooms");
        let transaction = json!({ "TransactItems": [
            { "Put": { "TableName": "a" } }, { "ConditionCheck": { "TableName": "b" } },
        ] });
        assert_eq!(actions_of("TransactWriteItems", &transaction), "PutItem a, ConditionCheckItem b");
        let statements = json!({ "Statements": [{ "Statement": "UPDATE \"predictions\" SET x = 1" }] });
        assert_eq!(actions_of("BatchExecuteStatement", &statements), "PartiQLUpdate predictions");
    }
}
