use serde::Deserialize;

use super::Secret;
use super::variables::{ConfigError, Variables};

/// Settings for CloudFront in front of the API.
#[derive(Debug, Clone)]
pub struct EdgeSettings {
    /// CloudFront sends one of these secrets with each request. All of them are valid, so that a rotation
    /// rejects no request.
    pub secrets: Vec<Secret>,
    pub direct_requests: DirectRequests,
}

/// What happens to requests that CloudFront did not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DirectRequests {
    Rejected,
    /// For the time in which apps move from the address of the API to the address of CloudFront.
    Allowed,
}

impl EdgeSettings {
    /// Returns `None` if there is no CloudFront.
    pub(super) fn read(vars: &Variables<'_>) -> Result<Option<Self>, ConfigError> {
        let direct_requests = direct_requests(vars)?;
        Ok(secrets(vars)?.map(|secrets| Self { secrets, direct_requests }))
    }
}

#[derive(Deserialize)]
struct Values {
    a: String,
    b: String,
}

fn secrets(vars: &Variables<'_>) -> Result<Option<Vec<Secret>>, ConfigError> {
    const VARIABLE: &str = "ORIGIN_SECRETS";
    let Some(text) = vars.secret(VARIABLE)? else { return Ok(None) };
    let values: Option<Values> = serde_json::from_str(&text).ok();
    let secrets =
        values.and_then(|values| [values.a, values.b].iter().map(|value| Secret::token(value)).collect());
    let problem =
        "is not a JSON object with the keys a and b, or has a value that is too short or has spaces";
    let expected = "the values that CloudFront sends, 16 or more ASCII letters, digits and punctuation marks each: \
                    {\"a\":\"…\",\"b\":\"…\"}";
    secrets.map(Some).ok_or_else(|| ConfigError::new(VARIABLE, problem, expected))
}

fn direct_requests(vars: &Variables<'_>) -> Result<DirectRequests, ConfigError> {
    const VARIABLE: &str = "DIRECT_REQUESTS";
    match vars.get(VARIABLE).as_deref() {
        None | Some("rejected") => Ok(DirectRequests::Rejected),
        Some("allowed") => Ok(DirectRequests::Allowed),
        Some(other) => Err(ConfigError::invalid(VARIABLE, other, "rejected or allowed")),
    }
}
