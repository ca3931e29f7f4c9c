//! An HTTP client for the AWS SDK. It injects network faults and DynamoDB errors.

use std::fmt;
use std::sync::{Arc, Mutex};

use aws_smithy_runtime_api::client::http::{
    HttpClient, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient,
    SharedHttpConnector,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::client::runtime_components::RuntimeComponents;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::body::SdkBody;
use futures_util::future::BoxFuture;
use serde_json::Value;

/// What happens to one attempt of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The store carries the call out, but the response is lost.
    LoseResponse,
    /// The request never reaches the store.
    LoseRequest,
    /// An eventually consistent `GetItem` or `BatchGetItem` finds nothing, as if the items were new. Other calls have
    /// no fault.
    Miss,
    /// The store reports a conflict with another transaction.
    Conflict,
    /// The store reports throttling.
    Throttle,
    /// The store does nothing and reports an error that the SDK does not retry.
    FailBefore,
    /// The store carries the call out, then reports an error that the SDK does not retry.
    FailAfter,
}

/// One attempt of one call.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// The DynamoDB operation, such as `UpdateItem`.
    pub operation: &'a str,
    /// The number of the attempt: 1 for the first, and 1 more for each retry of the SDK.
    pub number: u32,
}

type Plan = Box<dyn FnMut(Attempt<'_>) -> Fault + Send>;

type Interruptions = Box<dyn FnMut(Attempt<'_>) -> Option<BoxFuture<'static, ()>> + Send>;

/// An HTTP client that injects faults. Its plan chooses the fault for each attempt.
#[derive(Clone)]
pub struct Faults {
    inner: SharedHttpClient,
    plan: Arc<Mutex<Plan>>,
    interruptions: Arc<Mutex<Interruptions>>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}

impl Faults {
    /// Sends every request through `inner`. Injects no faults until a plan is set.
    #[must_use]
    pub fn none(inner: SharedHttpClient) -> Self {
        Self {
            inner,
            plan: Arc::new(Mutex::new(Box::new(|_| Fault::None))),
            interruptions: Arc::new(Mutex::new(Box::new(|_| None))),
        }
    }

    pub fn set(&self, plan: impl FnMut(Attempt<'_>) -> Fault + Send + 'static) {
        *self.plan.lock().expect("no plan panics") = Box::new(plan);
    }

    /// Injects this fault into the first attempt of every call; the SDK's retries succeed.
    pub fn first_attempts(&self, fault: Fault) {
        self.set(move |attempt| if attempt.number == 1 { fault } else { Fault::None });
    }

    /// Runs other work before a call that has no fault: `plan` returns the work, if any, for each attempt. If the work uses
    /// this client, `plan` is asked about its calls too.
    pub fn interrupt(
        &self,
        plan: impl FnMut(Attempt<'_>) -> Option<BoxFuture<'static, ()>> + Send + 'static,
    ) {
        *self.interruptions.lock().expect("no plan panics") = Box::new(plan);
    }

    pub fn clear(&self) {
        self.set(|_| Fault::None);
        self.interrupt(|_| None);
    }
}

impl HttpClient for Faults {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        SharedHttpConnector::new(FaultyConnector {
            inner: self.inner.http_connector(settings, components),
            plan: Arc::clone(&self.plan),
            interruptions: Arc::clone(&self.interruptions),
        })
    }
}

struct FaultyConnector {
    inner: SharedHttpConnector,
    plan: Arc<Mutex<Plan>>,
    interruptions: Arc<Mutex<Interruptions>>,
}

impl fmt::Debug for FaultyConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FaultyConnector")
    }
}

impl HttpConnector for FaultyConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        // The header has the form `attempt=1; max=6`.
        let counted = request.headers().get("amz-sdk-request").unwrap_or_default();
        let number = counted.split(['=', ';']).nth(1).and_then(|number| number.parse().ok()).unwrap_or(1);
        let attempt = Attempt { operation: &operation, number };
        let fault = (self.plan.lock().expect("no plan panics"))(attempt);
        let work = (self.interruptions.lock().expect("no plan panics"))(attempt);
        if let (Fault::None, Some(work)) = (fault, work) {
            let inner = self.inner.clone();
            return HttpConnectorFuture::new(async move {
                work.await;
                inner.call(request).await
            });
        }
        let lost = || ConnectorError::io("lost on the network".into());
        match fault {
            Fault::Miss if operation.ends_with("GetItem") && !is_consistent(&request) => {
                HttpConnectorFuture::ready(Ok(response(
                    200,
                    r#"{"Responses":{},"UnprocessedKeys":{}}"#.into(),
                )))
            }
            Fault::None | Fault::Miss => self.inner.call(request),
            Fault::LoseRequest => HttpConnectorFuture::ready(Err(lost())),
            Fault::LoseResponse => {
                let done = self.inner.call(request);
                HttpConnectorFuture::new(async move {
                    done.await?;
                    Err(lost())
                })
            }
            Fault::Conflict if operation == "TransactWriteItems" => failure(
                "TransactionCanceledException",
                r#","CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"None"}]"#,
            ),
            Fault::Conflict => failure("TransactionConflictException", ""),
            Fault::Throttle => failure("ProvisionedThroughputExceededException", ""),
            Fault::FailBefore => failure("AccessDeniedException", ""),
            Fault::FailAfter => {
                let done = self.inner.call(request);
                HttpConnectorFuture::new(async move {
                    done.await?;
                    failure("AccessDeniedException", "").await
                })
            }
        }
    }
}

fn failure(code: &str, more: &str) -> HttpConnectorFuture {
    let body =
        format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"injected"{more}}}"#);
    HttpConnectorFuture::ready(Ok(response(400, body)))
}

fn response(status: u16, body: String) -> HttpResponse {
    let status = StatusCode::try_from(status).expect("the status is valid");
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
    response
}

/// Returns whether a read is strongly consistent. A batch has a setting for each of its tables.
fn is_consistent(request: &HttpRequest) -> bool {
    let body = request.body().bytes().and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let body = body.expect("the SDK sends JSON");
    match body["RequestItems"].as_object() {
        Some(tables) => tables.values().all(|table| table["ConsistentRead"] == true),
        None => body["ConsistentRead"] == true,
    }
}
