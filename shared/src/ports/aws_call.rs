//! Calls to AWS services without the SDK's client for the service.
//!
//! Each client would add a further set of generated code to every binary. This uses the parts that the clients of DynamoDB and
//! SNS share.

use std::fmt;

use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use aws_smithy_async::rt::sleep::TokioSleep;
use aws_smithy_async::time::SystemTimeSource;
use aws_smithy_runtime::client::orchestrator::operation::Operation;
use aws_smithy_runtime::client::retries::classifiers::{HttpStatusCodeClassifier, TransientErrorClassifier};
use aws_smithy_runtime_api::box_error::BoxError;
use aws_smithy_runtime_api::client::behavior_version::BehaviorVersion;
use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse, OrchestratorError};
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction};
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use lambda_http::http::Request;

use super::clock::{Clock as _, SystemClock};
use crate::config::Aws;

/// A POST request to an AWS service.
#[derive(Debug, Clone)]
pub(super) struct Call {
    /// The name of the service in signatures and host names.
    pub service: &'static str,
    pub operation: &'static str,
    /// The endpoint of an emulator. `None` means the endpoint of the region.
    pub endpoint: Option<String>,
    /// The path, and the query if there is one.
    pub path: String,
    pub headers: Vec<(&'static str, &'static str)>,
    pub body: String,
    pub timeouts: TimeoutConfig,
    pub retries: RetryConfig,
}

/// How a service reports errors.
pub(super) trait ServiceError: fmt::Debug + std::error::Error + Send + Sync + 'static {
    /// Returns whether the call was above a limit, and can be repeated later.
    fn is_throttling(&self) -> bool;
}

/// Makes a call, and repeats it after broken connections, errors of the service and throttling. Returns `None` as the error if
/// the service cannot be reached.
pub(super) async fn call<T, E>(
    aws: &Aws,
    http: SharedHttpClient,
    call: Call,
    read: fn(&HttpResponse) -> Result<T, E>,
) -> Result<T, Option<E>>
where
    T: fmt::Debug + Send + Sync + 'static,
    E: ServiceError,
{
    let url = call.endpoint.clone().unwrap_or_else(|| endpoint(call.service, &aws.region));
    let request = {
        let (aws, call, url) =
            (aws.clone(), call.clone(), format!("{}{}", url.trim_end_matches('/'), call.path));
        move |()| signed(&aws, &call, &url)
    };
    let operation = Operation::builder()
        .service_name(call.service)
        .operation_name(call.operation)
        .behavior_version(BehaviorVersion::latest())
        .http_client(http)
        .endpoint_url(&url)
        // The serializer signs the request, with a signature that is valid for five minutes.
        .no_auth()
        .sleep_impl(TokioSleep::new())
        .time_source(SystemTimeSource::new())
        .timeout_config(call.timeouts)
        .retry_classifier(TransientErrorClassifier::<E>::new())
        .retry_classifier(HttpStatusCodeClassifier::default())
        .retry_classifier(Throttles::<E>(std::marker::PhantomData))
        .standard_retry(&call.retries)
        .serializer(request)
        .deserializer(move |response: &HttpResponse| read(response).map_err(OrchestratorError::operation))
        .build();
    operation.invoke(()).await.map_err(|error| match error {
        SdkError::ServiceError(error) => Some(error.into_err()),
        _ => None,
    })
}

/// A retry classifier for calls above a limit.
#[derive(Debug)]
struct Throttles<E>(std::marker::PhantomData<fn(E)>);

impl<E: ServiceError> ClassifyRetry for Throttles<E> {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let error =
            context.output_or_error().and_then(Result::err).and_then(|error| error.as_operation_error());
        match error.and_then(|error| error.downcast_ref::<E>()) {
            Some(error) if error.is_throttling() => RetryAction::throttling_error(),
            _ => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "throttled calls"
    }
}

fn endpoint(service: &str, region: &str) -> String {
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://{service}.{region}.{suffix}")
}

fn signed(aws: &Aws, call: &Call, url: &str) -> Result<HttpRequest, BoxError> {
    let mut request = Request::post(&call.path);
    for (name, value) in &call.headers {
        request = request.header(*name, *value);
    }
    let mut request = request.body(SdkBody::from(call.body.as_str()))?;
    let identity = aws.credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&aws.region)
        .name(call.service)
        .time(SystemClock.now().into())
        .settings(SigningSettings::default())
        .build()?
        .into();
    let headers =
        request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let signable = SignableRequest::new("POST", url, headers, SignableBody::Bytes(call.body.as_bytes()))?;
    let (instructions, _) = sign(signable, &params)?.into_parts();
    instructions.apply_to_request_http1x(&mut request);
    Ok(HttpRequest::try_from(request)?)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::{Arc, Mutex};

    use aws_sdk_dynamodb::config::Credentials;
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
    };
    use aws_smithy_runtime_api::client::result::ConnectorError;

    use super::*;

    /// The status, a header and the body of a response, or `None` for a broken connection.
    pub type Response = Option<(u16, Option<(&'static str, &'static str)>, &'static str)>;

    /// A service that sends the given responses, in order, and keeps the requests.
    #[derive(Debug, Clone)]
    pub struct Service {
        responses: Arc<Mutex<Vec<Response>>>,
        pub requests: Arc<Mutex<Vec<HttpRequest>>>,
    }

    impl Service {
        pub fn new(responses: &[Response]) -> Self {
            Self { responses: Arc::new(Mutex::new(responses.to_vec())), requests: Arc::default() }
        }

        pub fn client(&self) -> SharedHttpClient {
            let connector = SharedHttpConnector::new(self.clone());
            SharedHttpClient::new(http_client_fn(move |_, _| connector.clone()))
        }
    }

    impl HttpConnector for Service {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            self.requests.lock().unwrap().push(request);
            HttpConnectorFuture::ready(match self.responses.lock().unwrap().remove(0) {
                None => Err(ConnectorError::io("the connection was reset".into())),
                Some((status, header, body)) => {
                    let mut response = HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body));
                    if let Some((name, value)) = header {
                        response.headers_mut().insert(name, value);
                    }
                    Ok(response)
                }
            })
        }
    }

    pub fn aws() -> Aws {
        Aws {
            region: "eu-west-1".into(),
            credentials: Credentials::new("an-id", "a-key", Some("a-session".into()), None, "test"),
            dynamodb_endpoint: None,
            sns_endpoint: None,
            secrets_endpoint: None,
            lambda_endpoint: None,
        }
    }
}
