use aws_sdk_dynamodb::config::Credentials;

use super::variables::{ConfigError, Variables};

/// How the functions reach AWS.
///
/// Lambda passes credentials in environment variables and keeps them valid for the life of the process, so
/// they are read once. The crate `aws-config`, which also searches files and services for credentials, is not
/// needed.
#[derive(Debug, Clone)]
pub struct Aws {
    pub region: String,
    pub credentials: Credentials,
    pub dynamodb_endpoint: Option<String>,
    pub sns_endpoint: Option<String>,
    pub secrets_endpoint: Option<String>,
    pub lambda_endpoint: Option<String>,
}

impl Aws {
    /// Reads variables through `lookup`, like [`Config::read`](super::Config::read).
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::read(&Variables::new(&lookup))
    }

    pub(super) fn read(vars: &Variables<'_>) -> Result<Self, ConfigError> {
        let endpoint = |variable| vars.get(variable).or_else(|| vars.get("AWS_ENDPOINT_URL"));
        Ok(Self {
            region: vars.required("AWS_REGION", "an AWS region such as eu-west-1")?,
            credentials: Credentials::new(
                vars.required("AWS_ACCESS_KEY_ID", "an AWS access key id")?,
                vars.required("AWS_SECRET_ACCESS_KEY", "the secret of the AWS access key")?,
                vars.get("AWS_SESSION_TOKEN"),
                None,
                "environment",
            ),
            dynamodb_endpoint: endpoint("AWS_ENDPOINT_URL_DYNAMODB"),
            sns_endpoint: endpoint("AWS_ENDPOINT_URL_SNS"),
            secrets_endpoint: endpoint("AWS_ENDPOINT_URL_SECRETS_MANAGER"),
            lambda_endpoint: endpoint("AWS_ENDPOINT_URL_LAMBDA"),
        })
    }
}

/// The names of the DynamoDB tables.
#[derive(Debug, Clone)]
pub struct Tables {
    pub users: String,
    pub sms_logs: String,
    pub catalog: String,
    pub predictions: String,
    pub rooms: String,
    pub directory: String,
    pub wallets: String,
    pub standings: String,
}

impl Tables {
    /// Reads variables through `lookup`, like [`Config::read`](super::Config::read).
    pub fn from_variables(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        Self::read(&Variables::new(&lookup))
    }

    pub(super) fn read(vars: &Variables<'_>) -> Result<Self, ConfigError> {
        let name = |variable| vars.required(variable, "the name of a DynamoDB table");
        Ok(Self {
            users: name("USERS_TABLE")?,
            sms_logs: name("SMS_LOGS_TABLE")?,
            catalog: name("CATALOG_TABLE")?,
            predictions: name("PREDICTIONS_TABLE")?,
            rooms: name("ROOMS_TABLE")?,
            directory: name("DIRECTORY_TABLE")?,
            wallets: name("WALLETS_TABLE")?,
            standings: name("STANDINGS_TABLE")?,
        })
    }
}
