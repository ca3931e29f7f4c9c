//! Invoking Lambda functions.

use std::time::Duration;

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use serde::Deserialize;
use serde_json::Value;

use super::aws_call::{self, Call, ServiceError};
use crate::config::Aws;

/// Why a function could not be invoked, or failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvokeError {
    #[error("the function failed: {0}")]
    Function(String),
    #[error("Lambda responded with {0}")]
    Lambda(String),
    #[error("the function runs too often at the same time")]
    Throttled,
    #[error("Lambda cannot be reached, or the response is late")]
    Unreachable,
}

impl ServiceError for InvokeError {
    fn is_throttling(&self) -> bool {
        *self == Self::Throttled
    }
}

/// A version of a Lambda function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub function: String,
    /// `None` means the version that was deployed last.
    pub version: Option<String>,
}

impl Target {
    /// Returns the running function and its version. `lookup` returns environment variables, which Lambda sets. `None`
    /// outside Lambda.
    pub fn itself(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let version = lookup("AWS_LAMBDA_FUNCTION_VERSION").filter(|version| version != "$LATEST");
        Some(Self { function: lookup("AWS_LAMBDA_FUNCTION_NAME")?, version })
    }
}

/// Invokes a function, and waits for its result for at most `timeout`. A lost response is followed by a second invocation, so
/// the function must be idempotent.
pub async fn invoke(
    aws: &Aws,
    http: SharedHttpClient,
    target: &Target,
    payload: &Value,
    timeout: Duration,
) -> Result<Value, InvokeError> {
    let query = target.version.as_ref().map(|version| format!("?Qualifier={version}")).unwrap_or_default();
    let call = Call {
        service: "lambda",
        operation: "Invoke",
        endpoint: aws.lambda_endpoint.clone(),
        path: format!("/2015-03-31/functions/{}/invocations{query}", target.function),
        headers: vec![("content-type", "application/json"), ("x-amz-invocation-type", "RequestResponse")],
        body: payload.to_string(),
        timeouts: TimeoutConfig::builder().operation_timeout(timeout).build(),
        // Throttling can last until other executions have ended. The pauses add up to half a minute.
        retries: RetryConfig::standard()
            .with_max_attempts(10)
            .with_initial_backoff(Duration::from_millis(100))
            .with_max_backoff(Duration::from_secs(5)),
    };
    aws_call::call(aws, http, call, result_of)
        .await
        .map_err(|error| error.unwrap_or(InvokeError::Unreachable))
}

/// Returns the result of the function in a response.
fn result_of(response: &HttpResponse) -> Result<Value, InvokeError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Failure {
        error_message: String,
    }

    let body = response.body().bytes().unwrap_or_default();
    let status = response.status().as_u16();
    if status == 429 {
        return Err(InvokeError::Throttled);
    }
    if !response.status().is_success() {
        let code =
            response.headers().get("x-amzn-errortype").map(|code| code.split(':').next().unwrap_or(code));
        return Err(InvokeError::Lambda(code.map_or_else(|| format!("status {status}"), str::to_owned)));
    }
    if response.headers().get("x-amz-function-error").is_some() {
        let failure: Option<Failure> = serde_json::from_slice(body).ok();
        return Err(InvokeError::Function(failure.map(|failure| failure.error_message).unwrap_or_default()));
    }
    serde_json::from_slice(body).map_err(|_| InvokeError::Lambda("a result that is not JSON".to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::aws_call::tests::{Response, Service, aws};
    use super::*;

    async fn invoke_on(lambda: &Service, version: Option<&str>) -> Result<Value, InvokeError> {
        let target =
            Target { function: "touchline-standings".to_owned(), version: version.map(str::to_owned) };
        invoke(&aws(), lambda.client(), &target, &json!({ "collect": 7 }), Duration::from_mins(1)).await
    }

    #[tokio::test]
    async fn a_function_is_invoked_with_a_signed_request() {
        for (version, query) in [(Some("7"), "?Qualifier=7"), (None, "")] {
            let lambda = Service::new(&[Some((200, None, r#"{"rows":9}"#))]);
            assert_eq!(invoke_on(&lambda, version).await, Ok(json!({ "rows": 9 })));
            let requests = lambda.requests.lock().unwrap();
            let request = &requests[0];
            let path = "/2015-03-31/functions/touchline-standings/invocations";
            let url = format!("https://lambda.eu-west-1.amazonaws.com{path}{query}");
            assert_eq!((request.method(), request.uri()), ("POST", url.as_str()));
            assert_eq!(request.headers().get("x-amz-invocation-type"), Some("RequestResponse"));
            let authorization = request.headers().get("authorization").unwrap();
            assert!(authorization.contains("/eu-west-1/lambda/aws4_request"), "{authorization}");
            for header in ["host", "x-amz-invocation-type", "x-amz-security-token"] {
                assert!(authorization.contains(header), "{header} is not signed: {authorization}");
            }
            assert_eq!(request.body().bytes(), Some(br#"{"collect":7}"#.as_slice()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn throttled_and_lost_invocations_are_repeated() {
        let throttled: Response =
            Some((429, None, r#"{"Reason":"ReservedFunctionConcurrentInvocationLimitExceeded"}"#));
        let lambda =
            Service::new(&[throttled, None, Some((502, None, "")), throttled, Some((200, None, "1"))]);
        assert_eq!(invoke_on(&lambda, None).await, Ok(json!(1)));
        assert_eq!(lambda.requests.lock().unwrap().len(), 5);
        let lambda = Service::new(&[throttled; 10]);
        assert_eq!(invoke_on(&lambda, None).await, Err(InvokeError::Throttled));
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_of_the_function_or_of_lambda_is_final() {
        let failed = Some(("x-amz-function-error", "Unhandled"));
        let denied = Some(("x-amzn-errortype", "AccessDeniedException:http://internal.amazon.com/"));
        for (response, error) in [
            (
                (200, failed, r#"{"errorType":"E","errorMessage":"the store failed"}"#),
                "the function failed: the store failed",
            ),
            ((403, denied, r#"{"Message":"hush"}"#), "Lambda responded with AccessDeniedException"),
            ((404, None, ""), "Lambda responded with status 404"),
            ((200, None, "<html>"), "Lambda responded with a result that is not JSON"),
        ] {
            let lambda = Service::new(&[Some(response)]);
            assert_eq!(
                invoke_on(&lambda, None).await.map_err(|error| error.to_string()),
                Err(error.to_owned())
            );
        }
    }

    #[test]
    fn a_function_invokes_its_own_version() {
        let itself = |version: &'static str| {
            Target::itself(move |name| match name {
                "AWS_LAMBDA_FUNCTION_NAME" => Some("mine".to_owned()),
                "AWS_LAMBDA_FUNCTION_VERSION" => Some(version.to_owned()),
                _ => None,
            })
        };
        let target = |version: Option<&str>| Target {
            function: "mine".to_owned(),
            version: version.map(str::to_owned),
        };
        assert_eq!(itself("7"), Some(target(Some("7"))));
        assert_eq!(itself("$LATEST"), Some(target(None)));
        assert_eq!(Target::itself(|_| None), None);
    }
}
