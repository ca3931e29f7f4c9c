use std::fmt;

use super::variables::{ConfigError, Variables};

/// Text that `Debug` output hides, so it cannot reach a log by accident.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    pub(crate) fn new(text: String) -> Self {
        Self(text)
    }

    /// Creates a secret for an HTTP header. Returns `None` if the text is short enough to guess, or not valid in a
    /// header.
    pub(super) fn token(text: &str) -> Option<Self> {
        let is_token = text.len() >= 16 && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_token.then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Reads a token. It must be too long to guess and valid in an HTTP header.
pub(super) fn read_token(
    vars: &Variables<'_>,
    variable: &'static str,
) -> Result<Option<Secret>, ConfigError> {
    let Some(text) = vars.secret(variable)? else { return Ok(None) };
    let problem = "is too short or has characters that a token cannot have";
    let expected = "16 or more ASCII letters, digits and punctuation marks, without spaces";
    Secret::token(&text).map(Some).ok_or_else(|| ConfigError::new(variable, problem, expected))
}
