use std::fmt;

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use dynoxide::Database;
use serde_json::Value;
use touchline_stack::direct::{self, RequestBody};

use super::faults::Fault;
use super::process::Process;
use super::sabotage::Sabotage;

/// The simulated network between the simulated processes and the store. The SDK uses it as its HTTP client.
/// The store is a library, and the simulated network calls it directly.
#[derive(Clone)]
pub struct Network {
    store: Database,
    sabotage: Sabotage,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Network")
    }
}

impl HttpClient for Network {
    fn http_connector(&self, _: &HttpConnectorSettings, _: &RuntimeComponents) -> SharedHttpConnector {
        SharedHttpConnector::new(self.clone())
    }
}

impl HttpConnector for Network {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body: Value = request
            .body()
            .bytes()
            .and_then(|bytes| serde_json::from_slice(bytes).ok())
            .expect("the SDK sends JSON");
        let (network, process) = (self.clone(), Process::current());
        HttpConnectorFuture::new(async move {
            match process {
                Some(process) => network.carry(&operation, body, &process).await,
                None => Ok(network.execute(&operation, &body)),
            }
        })
    }
}

impl Network {
    pub fn new(store: Database, sabotage: Sabotage) -> Self {
        Self { store, sabotage }
    }

    /// Carries one call of a process to the store, with delays and maybe with a fault.
    async fn carry(
        &self,
        operation: &str,
        mut body: Value,
        process: &Process,
    ) -> Result<HttpResponse, ConnectorError> {
        process.count_call();
        process.wait(4).await;
        // Remove the idempotency token, so that only the conditions of a write make its retries safe. DynamoDB
        // forgets a token after ten minutes, but clients retry for longer.
        if let Some(body) = body.as_object_mut() {
            body.remove("ClientRequestToken");
        }
        self.sabotage.weaken(operation, &mut body);
        let lost = || ConnectorError::io("lost on the network".into());
        let response = match process.draw_fault() {
            None => self.execute(operation, &body),
            Some(Fault::LoseRequest) => return Err(lost()),
            Some(Fault::LoseResponse) => {
                self.execute(operation, &body);
                return Err(lost());
            }
            Some(Fault::DeliverTwice) => {
                self.execute(operation, &body);
                process.wait(6).await;
                self.execute(operation, &body)
            }
            Some(Fault::Throttle) => failure(400, "ProvisionedThroughputExceededException", ""),
            Some(Fault::Conflict) if operation == "TransactWriteItems" => failure(
                400,
                "TransactionCanceledException",
                r#","CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"None"}]"#,
            ),
            Some(Fault::Conflict) => failure(400, "TransactionConflictException", ""),
            Some(Fault::InternalError) => failure(500, "InternalServerError", ""),
            Some(fault @ (Fault::CrashBefore | Fault::CrashAfter)) => {
                if self.sabotage.halve(operation, &mut body) || fault == Fault::CrashAfter {
                    self.execute(operation, &body);
                }
                process.crash().await
            }
        };
        process.wait(3).await;
        Ok(response)
    }

    /// Executes a call on the store.
    fn execute(&self, operation: &str, body: &Value) -> HttpResponse {
        direct::execute(&self.store, operation, RequestBody::Json(body))
    }
}

fn failure(status: u16, code: &str, more: &str) -> HttpResponse {
    let body =
        format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"injected"{more}}}"#);
    direct::response(status, body)
}
