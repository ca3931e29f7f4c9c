use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Field, Raw, Reason};

/// The minimum number of digits of a phone number, including the country code.
const MIN_DIGITS: usize = 7;
/// The maximum number of digits of a phone number, including the country code.
const MAX_DIGITS: usize = 15;

/// The national trunk prefix, as people write it after the country code: `+44 (0)7700 900123`.
const TRUNK_PREFIX: &str = "(0)";

/// A phone number in international form: `+`, then 7 to 15 digits, the first not zero.
///
/// Its `Debug` form hides the digits, so that a number cannot reach a log by accident.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Phone(String);

impl Phone {
    /// The length of the longest text that [`Self::parse`] accepts, in characters.
    pub const MAX_LENGTH: usize = 40;

    /// The regular expression of the texts that [`Self::parse`] accepts. It does not check [`Self::MAX_LENGTH`].
    ///
    /// The trunk prefix can follow the first, second or third digit: a country code has 1 to 3 digits.
    pub const PATTERN: &str =
        r"^[ ()-]*\+[ ()-]*[1-9](?:(?:[ ()-]|\(0\))*[0-9]){3}(?:[ ()-]*[0-9]){3,11}[ ()-]*$";

    /// The regular expression of the texts that [`Self::as_str`] returns.
    pub const CANONICAL_PATTERN: &str = r"^\+[1-9][0-9]{6,14}$";

    /// Reads a number as people write it. Spaces, dashes and brackets are stripped.
    ///
    /// A `(0)` after the country code is the national trunk prefix, which is not part of the international
    /// number. It is dropped if at least 7 digits remain. Any other 0 stays: in some countries, the digits
    /// after the country code start with 0.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        if text.chars().count() > Self::MAX_LENGTH {
            return Err(format!("A phone number has at most {} characters.", Self::MAX_LENGTH).into());
        }
        let Some(number) = text.trim_start_matches(is_separator).strip_prefix('+') else {
            return Err("Include the country code, for example +44 7700 900123.".into());
        };
        let digits = digits(number)?;
        if digits.starts_with('0') {
            return Err("A country code does not start with 0. Write the number like +44 7700 900123.".into());
        }
        if !(MIN_DIGITS..=MAX_DIGITS).contains(&digits.len()) {
            let found = digits.len();
            return Err(format!(
                "A phone number has {MIN_DIGITS} to {MAX_DIGITS} digits after the +, but this one has {found}."
            )
            .into());
        }
        Ok(Self(format!("+{digits}")))
    }

    /// Reads a number from a query string, in which an unescaped `+` arrives as a space.
    pub fn parse_query(text: &str) -> Result<Self, Reason> {
        match text.strip_prefix(' ') {
            Some(number) if !number.contains('+') => Self::parse(&format!("+{number}")),
            _ => Self::parse(text),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the number starts with one of `prefixes`, such as `+44`. Every number starts with `+`.
    #[must_use]
    pub fn is_allowed(&self, prefixes: &[String]) -> bool {
        prefixes.iter().any(|prefix| self.0.starts_with(prefix))
    }
}

impl Field for Phone {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match raw {
            Raw::Text(text) => Self::parse_query(text),
            Raw::Json(_) => Self::parse(raw.text()?),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "maxLength": Self::MAX_LENGTH, "pattern": Self::PATTERN, "examples": ["+447700900123"],
            "description": "A phone number with its country code. Spaces, dashes and brackets are ignored, and \
                            so is a `(0)` after the country code.",
        })
    }
}

#[cfg(feature = "openapi")]
super::field::response_schema!(Phone, { "type": "string", "pattern": (Phone::CANONICAL_PATTERN) });

impl fmt::Debug for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Phone(hidden)")
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, ' ' | '-' | '(' | ')')
}

/// Returns the digits of `number`, without separators and trunk prefix.
fn digits(number: &str) -> Result<String, Reason> {
    let mut spare = number.chars().filter(char::is_ascii_digit).count().saturating_sub(MIN_DIGITS);
    let mut digits = String::with_capacity(number.len());
    let mut rest = number;
    while let Some(next) = rest.chars().next() {
        if spare > 0
            && (1..=3).contains(&digits.len())
            && let Some(after) = rest.strip_prefix(TRUNK_PREFIX)
        {
            spare -= 1;
            rest = after;
            continue;
        }
        if next.is_ascii_digit() {
            digits.push(next);
        } else if !is_separator(next) {
            return Err("Use only digits, spaces, dashes and brackets after the +.".into());
        }
        rest = &rest[next.len_utf8()..];
    }
    Ok(digits)
}

#[cfg(test)]
mod tests;
