//! Reading secrets from AWS Secrets Manager.

use std::collections::BTreeMap;
use std::time::Duration;

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
use futures_util::future::try_join_all;
use lambda_http::http::Request;
use serde::Deserialize;
use serde_json::json;

use super::clock::{Clock as _, SystemClock};
use crate::config::{Aws, SECRET_VARIABLES, Secret, secret_id};

/// A secret that cannot be read, and what to check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the secret {id} for {variable}: {reason}")]
pub struct SecretError {
    pub variable: &'static str,
    pub id: String,
    reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum Reason {
    #[error("it does not exist. Check its name and region")]
    Missing,
    #[error(
        "the role of the function does not allow secretsmanager:GetSecretValue for it, or kms:Decrypt for its key"
    )]
    Denied,
    #[error("it has no SecretString. Store it as text, not as binary data")]
    NoText,
    #[error("Secrets Manager responded with {0}")]
    Failed(String),
    #[error("Secrets Manager cannot be reached")]
    Unreachable,
}

/// Fetches the secrets that variables name, all at the same time. Returns them by variable.
///
/// `GetSecretValue` is called once for each secret. `BatchGetSecretValue` would need one call, but AWS allows only 100
/// of them a second for the whole account, and 10,000 of the others. Lambda starts up to 100 environments of a function
/// a second.
pub async fn fetch(
    aws: &Aws,
    http: &SharedHttpClient,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<&'static str, Secret>, SecretError> {
    let named = SECRET_VARIABLES.into_iter().filter_map(|variable| {
        let id = secret_id(&lookup(variable)?)?.to_owned();
        Some((variable, id))
    });
    let fetching = named.map(async |(variable, id)| match get(aws, http.clone(), &id).await {
        Ok(text) => Ok((variable, Secret::new(text))),
        Err(reason) => Err(SecretError { variable, id, reason }),
    });
    Ok(try_join_all(fetching).await?.into_iter().collect())
}

/// Calls `GetSecretValue`. The SDK's client for Secrets Manager would add a third set of generated code to every
/// binary; this uses the parts that the clients of DynamoDB and SNS share.
async fn get(aws: &Aws, http: SharedHttpClient, id: &str) -> Result<String, Reason> {
    let url = aws.secrets_endpoint.clone().unwrap_or_else(|| endpoint(&aws.region));
    let request = {
        let (aws, url, id) = (aws.clone(), url.clone(), id.to_owned());
        move |()| signed(&aws, &url, &id)
    };
    let call = Operation::builder()
        .service_name("Secrets Manager")
        .operation_name("GetSecretValue")
        .behavior_version(BehaviorVersion::latest())
        .http_client(http)
        .endpoint_url(&url)
        // The serializer signs the request, with a signature that is valid for five minutes.
        .no_auth()
        .sleep_impl(TokioSleep::new())
        .time_source(SystemTimeSource::new())
        .timeout_config(
            TimeoutConfig::builder()
                .operation_attempt_timeout(Duration::from_secs(2))
                // Lambda ends a start after 10 s.
                .operation_timeout(Duration::from_secs(7))
                .build(),
        )
        .retry_classifier(TransientErrorClassifier::<Reason>::new())
        .retry_classifier(HttpStatusCodeClassifier::default())
        .retry_classifier(Throttles)
        .standard_retry(
            &RetryConfig::standard().with_max_attempts(4).with_initial_backoff(Duration::from_millis(50)),
        )
        .serializer(request)
        .deserializer(|response: &HttpResponse| text_of(response).map_err(OrchestratorError::operation))
        .build();
    call.invoke(()).await.map_err(|error| match error {
        SdkError::ServiceError(error) => error.into_err(),
        _ => Reason::Unreachable,
    })
}

/// A retry classifier for calls above the limit of the account, which have status 400.
#[derive(Debug)]
struct Throttles;

impl ClassifyRetry for Throttles {
    fn classify_retry(&self, context: &InterceptorContext) -> RetryAction {
        let error =
            context.output_or_error().and_then(Result::err).and_then(|error| error.as_operation_error());
        match error.and_then(|error| error.downcast_ref()) {
            Some(Reason::Failed(code)) if code == "ThrottlingException" => RetryAction::throttling_error(),
            _ => RetryAction::NoActionIndicated,
        }
    }

    fn name(&self) -> &'static str {
        "throttled calls to Secrets Manager"
    }
}

fn endpoint(region: &str) -> String {
    let suffix = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://secretsmanager.{region}.{suffix}")
}

fn signed(aws: &Aws, url: &str, id: &str) -> Result<HttpRequest, BoxError> {
    let body = json!({ "SecretId": id }).to_string();
    let mut request = Request::post("/")
        .header("content-type", "application/x-amz-json-1.1")
        .header("x-amz-target", "secretsmanager.GetSecretValue")
        .body(SdkBody::from(body.as_str()))?;
    let identity = aws.credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&aws.region)
        .name("secretsmanager")
        .time(SystemClock.now().into())
        .settings(SigningSettings::default())
        .build()?
        .into();
    let headers =
        request.headers().iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    let signable = SignableRequest::new("POST", url, headers, SignableBody::Bytes(body.as_bytes()))?;
    let (instructions, _) = sign(signable, &params)?.into_parts();
    instructions.apply_to_request_http1x(&mut request);
    Ok(HttpRequest::try_from(request)?)
}

/// Returns the text of the secret in a response.
fn text_of(response: &HttpResponse) -> Result<String, Reason> {
    #[derive(Deserialize)]
    #[serde(rename_all = "PascalCase")]
    struct Found {
        secret_string: Option<String>,
    }

    #[derive(Deserialize)]
    struct Problem {
        #[serde(rename = "__type")]
        code: String,
    }

    let body = response.body().bytes().unwrap_or_default();
    if response.status().is_success() {
        let found: Option<Found> = serde_json::from_slice(body).ok();
        let text = found.and_then(|found| found.secret_string).filter(|text| !text.is_empty());
        return text.ok_or(Reason::NoText);
    }
    let problem: Option<Problem> = serde_json::from_slice(body).ok();
    // Some responses have a namespace before the code: `com.amazonaws.secretsmanager#ResourceNotFoundException`.
    let code = problem.as_ref().and_then(|problem| problem.code.rsplit('#').next());
    match code {
        Some("ResourceNotFoundException") => Err(Reason::Missing),
        Some("AccessDeniedException" | "AccessDenied") => Err(Reason::Denied),
        Some(code) => Err(Reason::Failed(code.to_owned())),
        None => Err(Reason::Failed(format!("status {}", response.status().as_u16()))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use aws_sdk_dynamodb::config::Credentials;
    use aws_smithy_runtime_api::client::http::{
        HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
    };
    use aws_smithy_runtime_api::client::result::ConnectorError;

    use super::*;

    /// The status and the body of a response, or `None` for a broken connection.
    type Answer = Option<(u16, &'static str)>;

    /// A Secrets Manager that answers with the given responses, in order, and keeps the requests.
    #[derive(Debug, Clone)]
    struct Manager {
        responses: Arc<Mutex<Vec<Answer>>>,
        requests: Arc<Mutex<Vec<HttpRequest>>>,
    }

    impl HttpConnector for Manager {
        fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
            self.requests.lock().unwrap().push(request);
            HttpConnectorFuture::ready(match self.responses.lock().unwrap().remove(0) {
                None => Err(ConnectorError::io("the connection was reset".into())),
                Some((status, body)) => {
                    Ok(HttpResponse::new(status.try_into().unwrap(), SdkBody::from(body)))
                }
            })
        }
    }

    fn manager(responses: &[Answer]) -> Manager {
        Manager { responses: Arc::new(Mutex::new(responses.to_vec())), requests: Arc::default() }
    }

    async fn fetch_from(
        manager: &Manager,
        variables: &[(&str, &str)],
    ) -> Result<BTreeMap<&'static str, Secret>, SecretError> {
        let aws = Aws {
            region: "eu-west-1".into(),
            credentials: Credentials::new("an-id", "a-key", Some("a-session".into()), None, "test"),
            dynamodb_endpoint: None,
            sns_endpoint: None,
            secrets_endpoint: None,
        };
        let connector = SharedHttpConnector::new(manager.clone());
        let http = SharedHttpClient::new(http_client_fn(move |_, _| connector.clone()));
        let value = |name: &str| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).into())
        };
        fetch(&aws, &http, value).await
    }

    #[tokio::test]
    async fn a_named_secret_is_fetched_with_a_signed_request() {
        let manager = manager(&[Some((200, r#"{"Name":"pepper","SecretString":"hot"}"#))]);
        let variables =
            [("CODE_PEPPER", "secretsmanager:pepper"), ("FEED_TOKEN", "given"), ("CHAT_AS_TOKEN", "")];
        let secrets = fetch_from(&manager, &variables).await.unwrap();
        let revealed: Vec<_> =
            secrets.iter().map(|(variable, secret)| (*variable, secret.reveal())).collect();
        assert_eq!(revealed, [("CODE_PEPPER", "hot")]);
        let requests = manager.requests.lock().unwrap();
        let request = &requests[0];
        assert_eq!(
            (request.method(), request.uri()),
            ("POST", "https://secretsmanager.eu-west-1.amazonaws.com/")
        );
        assert_eq!(request.headers().get("x-amz-target"), Some("secretsmanager.GetSecretValue"));
        assert_eq!(request.headers().get("x-amz-security-token"), Some("a-session"));
        let authorization = request.headers().get("authorization").unwrap();
        assert!(authorization.contains("/eu-west-1/secretsmanager/aws4_request"), "{authorization}");
        for header in ["host", "x-amz-target", "x-amz-security-token"] {
            assert!(authorization.contains(header), "{header} is not signed: {authorization}");
        }
        assert_eq!(request.body().bytes(), Some(br#"{"SecretId":"pepper"}"#.as_slice()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_secrets_manager_is_asked_again() {
        let found = Some((200, r#"{"SecretString":"hot"}"#));
        let manager =
            manager(&[None, Some((503, "")), Some((400, r#"{"__type":"ThrottlingException"}"#)), found]);
        let secrets = fetch_from(&manager, &[("CODE_PEPPER", "secretsmanager:pepper")]).await.unwrap();
        assert_eq!(secrets["CODE_PEPPER"].reveal(), "hot");
        assert_eq!(manager.requests.lock().unwrap().len(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_says_what_to_check_and_is_final() {
        for (status, body, reason) in [
            (
                400,
                r#"{"__type":"ResourceNotFoundException"}"#,
                "it does not exist. Check its name and region",
            ),
            (
                400,
                r#"{"__type":"com.amazonaws.secretsmanager#AccessDeniedException","Message":"hush"}"#,
                "the role of the function does not allow secretsmanager:GetSecretValue for it, or kms:Decrypt for its key",
            ),
            (
                200,
                r#"{"SecretBinary":"hush"}"#,
                "it has no SecretString. Store it as text, not as binary data",
            ),
            (200, r#"{"SecretString":""}"#, "it has no SecretString. Store it as text, not as binary data"),
            (400, r#"{"__type":"DecryptionFailure"}"#, "Secrets Manager responded with DecryptionFailure"),
            (403, "<html>", "Secrets Manager responded with status 403"),
        ] {
            let manager = manager(&[Some((status, body))]);
            let error = fetch_from(&manager, &[("FEED_TOKEN", "secretsmanager:feed")]).await.unwrap_err();
            assert_eq!(error.to_string(), format!("cannot read the secret feed for FEED_TOKEN: {reason}"));
        }
        let manager = manager(&[None; 4]);
        let error = fetch_from(&manager, &[("FEED_TOKEN", "secretsmanager:feed")]).await.unwrap_err();
        assert_eq!(error.reason, Reason::Unreachable);
    }
}
