//! Reading secrets from AWS Secrets Manager.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_smithy_runtime_api::client::http::SharedHttpClient;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::retry::RetryConfig;
use aws_smithy_types::timeout::TimeoutConfig;
use futures_util::future::try_join_all;
use serde::Deserialize;
use serde_json::json;

use super::aws_call::{self, Call, ServiceError};
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

impl ServiceError for Reason {
    /// Calls above the limit of the account have status 400.
    fn is_throttling(&self) -> bool {
        matches!(self, Self::Failed(code) if code == "ThrottlingException")
    }
}

/// Calls `GetSecretValue`.
async fn get(aws: &Aws, http: SharedHttpClient, id: &str) -> Result<String, Reason> {
    let call = Call {
        service: "secretsmanager",
        operation: "GetSecretValue",
        endpoint: aws.secrets_endpoint.clone(),
        path: "/".to_owned(),
        headers: vec![
            ("content-type", "application/x-amz-json-1.1"),
            ("x-amz-target", "secretsmanager.GetSecretValue"),
        ],
        body: json!({ "SecretId": id }).to_string(),
        timeouts: TimeoutConfig::builder()
            .operation_attempt_timeout(Duration::from_secs(2))
            // Lambda ends a start after 10 s.
            .operation_timeout(Duration::from_secs(7))
            .build(),
        retries: RetryConfig::standard().with_max_attempts(4).with_initial_backoff(Duration::from_millis(50)),
    };
    aws_call::call(aws, http, call, text_of).await.map_err(|reason| reason.unwrap_or(Reason::Unreachable))
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
    use super::super::aws_call::tests::{Service, aws};
    use super::*;

    /// The status and the body of a response, or `None` for a broken connection.
    type Answer = Option<(u16, &'static str)>;

    /// A Secrets Manager that answers with the given responses, in order.
    fn manager(responses: &[Answer]) -> Service {
        let responses: Vec<_> =
            responses.iter().map(|response| response.map(|(status, body)| (status, None, body))).collect();
        Service::new(&responses)
    }

    async fn fetch_from(
        manager: &Service,
        variables: &[(&str, &str)],
    ) -> Result<BTreeMap<&'static str, Secret>, SecretError> {
        let value = |name: &str| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).into())
        };
        fetch(&aws(), &manager.client(), value).await
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
