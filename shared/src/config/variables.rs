use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// An environment variable that is missing or invalid, and what to set it to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} {problem}. Set it to {expected}.")]
pub struct ConfigError {
    pub variable: &'static str,
    /// What is wrong, worded to follow the name of the variable. Example: `is not set`.
    pub problem: String,
    /// The valid values, worded to complete "Set it to …". Example: `a whole number from 1 to 40`.
    pub expected: String,
}

impl ConfigError {
    /// Creates an error that does not show the value: for secrets, and for URLs, which can contain secrets.
    pub(super) fn new(variable: &'static str, problem: &str, expected: impl Into<String>) -> Self {
        Self { variable, problem: problem.into(), expected: expected.into() }
    }

    pub(super) fn not_set(variable: &'static str, expected: impl Into<String>) -> Self {
        Self::new(variable, "is not set", expected)
    }

    /// Creates an error that shows the value.
    pub(super) fn invalid(variable: &'static str, value: &str, expected: impl Into<String>) -> Self {
        Self::new(variable, &format!("is {value:?}"), expected)
    }
}

/// The variables that hold a secret. In the template, they name a secret of Secrets Manager instead, and the function
/// fetches it when it starts. So nobody who can read the settings of a function sees its secrets.
pub const SECRET_VARIABLES: [&str; 8] = [
    "CHAT_ADMIN_TOKEN",
    "CHAT_AS_TOKEN",
    "CHAT_HS_TOKEN",
    "CODE_PEPPER",
    "FEED_TOKEN",
    "ORIGIN_SECRETS",
    "SMS_LOG_SECRET",
    "TEST_PHONES",
];

/// Returns the name or ARN of the secret that the value of a variable names: the text after `secretsmanager:`.
#[must_use]
pub fn secret_id(value: &str) -> Option<&str> {
    value.strip_prefix("secretsmanager:")
}

/// The environment variables that the settings are read from.
pub(super) struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl<'a> Variables<'a> {
    pub(super) fn new(lookup: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self(lookup)
    }

    /// Returns the value of a variable, unless it is unset or empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.0(name).filter(|value| !value.is_empty())
    }

    /// Returns the value of a variable that holds a secret. Fails if it names a secret that was not fetched, because the
    /// name would become the secret.
    pub(super) fn secret(&self, variable: &'static str) -> Result<Option<String>, ConfigError> {
        match self.get(variable) {
            Some(value) if secret_id(&value).is_some() => {
                let problem = "names a secret in Secrets Manager, which only a Lambda function fetches";
                Err(ConfigError::new(variable, problem, "the secret itself"))
            }
            value => Ok(value),
        }
    }

    /// Reads a variable that has no default. `expected` completes "Set it to …".
    pub(super) fn required(&self, variable: &'static str, expected: &str) -> Result<String, ConfigError> {
        self.get(variable).ok_or_else(|| ConfigError::not_set(variable, expected))
    }

    /// Reads and parses a variable. `expected` completes "Set it to …".
    pub(super) fn parsed<T: FromStr>(
        &self,
        variable: &'static str,
        default: T,
        expected: &str,
    ) -> Result<T, ConfigError> {
        match self.get(variable) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| ConfigError::invalid(variable, &value, expected)),
        }
    }

    /// Reads a whole number within `range`.
    pub(super) fn within<T: FromStr + PartialOrd + Display>(
        &self,
        variable: &'static str,
        default: T,
        range: RangeInclusive<T>,
    ) -> Result<T, ConfigError> {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let number = self.parsed(variable, default, &expected)?;
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(ConfigError::invalid(variable, &number.to_string(), expected))
        }
    }

    /// Reads how many requests a rate limit admits. The limit's DynamoDB item stores one id for each admitted
    /// request, and each write shifts all ids. The maximum of 40 keeps the item and its writes small.
    pub(super) fn count(&self, variable: &'static str, default: usize) -> Result<usize, ConfigError> {
        self.within(variable, default, 1..=40)
    }

    /// Reads an HTTP URL. Returns `None` if the variable is unset or empty.
    pub(super) fn url(&self, variable: &'static str) -> Result<Option<String>, ConfigError> {
        match self.get(variable) {
            Some(url) if !url.starts_with("https://") && !url.starts_with("http://") => {
                Err(ConfigError::new(variable, "is not a URL", "one that starts with https:// or http://"))
            }
            url => Ok(url),
        }
    }
}
