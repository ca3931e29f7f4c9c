//! Notes which calls each function makes to DynamoDB, as the actions and resources that a role names: for whoever watches
//! a request, and in a file for the test of the roles.

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

tokio::task_local! {
    static WATCHED: Arc<Mutex<Vec<String>>>;
}

/// Runs `work` and lists its calls.
pub(crate) async fn watch<F: Future>(work: F) -> (F::Output, Vec<String>) {
    let calls = Arc::<Mutex<Vec<String>>>::default();
    let output = WATCHED.scope(Arc::clone(&calls), work).await;
    let calls = std::mem::take(&mut *calls.lock().expect("nobody panics while noting"));
    (output, calls)
}

/// `work` for a task of its own, whose calls are listed where this one's are.
pub(crate) fn watched<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let calls = WATCHED.try_with(Arc::clone).unwrap_or_default();
    WATCHED.scope(calls, work)
}

/// Where calls are noted: a line for each function, action and resource, when it is first seen.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    file: Option<PathBuf>,
    seen: Arc<Mutex<BTreeSet<String>>>,
}

impl Calls {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        Self { file, seen: Arc::default() }
    }

    /// A client whose calls are noted as a function's.
    pub(crate) fn of(&self, function: &str, inner: SharedHttpClient) -> SharedHttpClient {
        SharedHttpClient::new(Noting { function: function.to_owned(), calls: self.clone(), inner })
    }

    fn note(&self, function: &str, operation: &str, body: &Value) {
        let actions = actions(operation, body);
        // Outside of `watch` nobody wants to know.
        let _ = WATCHED.try_with(|calls| {
            let parts: Vec<_> = actions.iter().map(|(action, on)| format!("{action} {on}")).collect();
            let parts = parts.join(", ");
            let is_whole = actions.len() == 1 && actions[0].0 == operation;
            calls.lock().expect("nobody panics while noting").push(if is_whole {
                parts
            } else {
                format!("{operation}: {parts}")
            });
        });
        let Some(path) = &self.file else { return };
        for (action, resource) in actions {
            let line = format!("{function} dynamodb:{action} {resource}");
            let mut seen = self.seen.lock().expect("nobody panics while noting");
            if seen.insert(line.clone()) {
                let file = OpenOptions::new().create(true).append(true).open(path);
                let noted = file.and_then(|mut file| writeln!(file, "{line}"));
                if let Err(error) = noted {
                    tracing::error!(%error, "a call could not be noted");
                }
            }
        }
    }
}

/// What a role has to allow for a call: actions, each with a table, or a table's index.
fn actions(operation: &str, body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tables = |value: &Value| {
        value.as_object().into_iter().flatten().map(|(table, _)| table.clone()).collect::<Vec<_>>()
    };
    match operation {
        "BatchGetItem" | "BatchWriteItem" => {
            let tables = tables(&body["RequestItems"]);
            tables.into_iter().map(|table| (operation.to_owned(), table)).collect()
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
            .map(|statement| {
                let statement = text(&statement["Statement"]);
                let verb = statement.split_whitespace().next().unwrap_or_default().to_lowercase();
                let verb: String =
                    verb.chars().take(1).flat_map(char::to_uppercase).chain(verb.chars().skip(1)).collect();
                (format!("PartiQL{verb}"), statement.split('"').nth(1).unwrap_or_default().to_owned())
            })
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

#[derive(Debug)]
struct Noting {
    function: String,
    calls: Calls,
    inner: SharedHttpClient,
}

impl HttpClient for Noting {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(NotingConnector {
            function: self.function.clone(),
            calls: self.calls.clone(),
            inner: self.inner.http_connector(settings, components),
        })
    }
}

#[derive(Debug)]
struct NotingConnector {
    function: String,
    calls: Calls,
    inner: SharedHttpConnector,
}

impl HttpConnector for NotingConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        if let Some(operation) = target.strip_prefix("DynamoDB_20120810.") {
            let body = request.body().bytes().and_then(|body| serde_json::from_slice(body).ok());
            self.calls.note(&self.function, operation, &body.unwrap_or_default());
        }
        self.inner.call(request)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(operation: &str, body: &Value) -> String {
        let actions = actions(operation, body);
        actions.iter().map(|(action, resource)| format!("{action} {resource}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn calls_are_named_as_roles_name_them() {
        assert_eq!(one("GetItem", &json!({ "TableName": "users" })), "GetItem users");
        let query = json!({ "TableName": "rooms", "IndexName": "by_user" });
        assert_eq!(one("Query", &query), "Query rooms/index/by_user");
        assert_eq!(one("BatchGetItem", &json!({ "RequestItems": { "rooms": {} } })), "BatchGetItem rooms");
        let transaction = json!({ "TransactItems": [
            { "Put": { "TableName": "a" } }, { "ConditionCheck": { "TableName": "b" } },
        ] });
        assert_eq!(one("TransactWriteItems", &transaction), "PutItem a, ConditionCheckItem b");
        let statements = json!({ "Statements": [{ "Statement": "UPDATE \"predictions\" SET x = 1" }] });
        assert_eq!(one("BatchExecuteStatement", &statements), "PartiQLUpdate predictions");
    }
}
