//! An HTTP client for the SDK that misbehaves as networks and DynamoDB do.

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

/// What happens to one attempt of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The store does it; the answer gets lost.
    LoseReply,
    /// It never arrives.
    LoseRequest,
    /// The store says that a transaction is in the way.
    Conflict,
    /// The store says that too many came at once.
    Throttle,
    /// The store refuses, once and for all: the SDK does not try again.
    Refuse,
    /// The store does it, and then says that it does not.
    DoAndRefuse,
}

/// One attempt of one call.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// `UpdateItem`, say.
    pub operation: &'a str,
    /// 1 for the first; the SDK counts on as it retries.
    pub number: u32,
}

type Plan = Box<dyn FnMut(Attempt<'_>) -> Fault + Send>;

/// Decides for each attempt what happens to it.
#[derive(Clone)]
pub struct Faults {
    inner: SharedHttpClient,
    plan: Arc<Mutex<Plan>>,
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faults")
    }
}

impl Faults {
    /// None, until a plan is set.
    #[must_use]
    pub fn none() -> Self {
        let inner = aws_smithy_http_client::Builder::new().build_http();
        Self { inner, plan: Arc::new(Mutex::new(Box::new(|_| Fault::None))) }
    }

    pub fn set(&self, plan: impl FnMut(Attempt<'_>) -> Fault + Send + 'static) {
        *self.plan.lock().expect("no plan panics") = Box::new(plan);
    }

    /// The first attempt of each of the following calls meets `fault`; what the SDK sends again passes.
    pub fn first_attempts(&self, fault: Fault) {
        self.set(move |attempt| if attempt.number == 1 { fault } else { Fault::None });
    }

    pub fn clear(&self) {
        self.set(|_| Fault::None);
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
        })
    }
}

struct FaultyConnector {
    inner: SharedHttpConnector,
    plan: Arc<Mutex<Plan>>,
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
        // `attempt=1; max=6`
        let counted = request.headers().get("amz-sdk-request").unwrap_or_default();
        let number = counted.split(['=', ';']).nth(1).and_then(|number| number.parse().ok()).unwrap_or(1);
        let attempt = Attempt { operation: &operation, number };
        let fault = (self.plan.lock().expect("no plan panics"))(attempt);
        let lost = || ConnectorError::io("lost on the way".into());
        match fault {
            Fault::None => self.inner.call(request),
            Fault::LoseRequest => HttpConnectorFuture::ready(Err(lost())),
            Fault::LoseReply => {
                let done = self.inner.call(request);
                HttpConnectorFuture::new(async move {
                    done.await?;
                    Err(lost())
                })
            }
            Fault::Conflict if operation == "TransactWriteItems" => refuse(
                "TransactionCanceledException",
                r#","CancellationReasons":[{"Code":"TransactionConflict"},{"Code":"None"}]"#,
            ),
            Fault::Conflict => refuse("TransactionConflictException", ""),
            Fault::Throttle => refuse("ProvisionedThroughputExceededException", ""),
            Fault::Refuse => refuse("AccessDeniedException", ""),
            Fault::DoAndRefuse => {
                let done = self.inner.call(request);
                HttpConnectorFuture::new(async move {
                    done.await?;
                    refuse("AccessDeniedException", "").await
                })
            }
        }
    }
}

fn refuse(code: &str, more: &str) -> HttpConnectorFuture {
    let body =
        format!(r#"{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"injected"{more}}}"#);
    let status = StatusCode::try_from(400).expect("a status");
    let mut response = HttpResponse::new(status, SdkBody::from(body));
    response.headers_mut().insert("content-type", "application/x-amz-json-1.0");
    HttpConnectorFuture::ready(Ok(response))
}
