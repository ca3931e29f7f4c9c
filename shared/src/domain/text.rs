//! Short text that a person types.

use super::{Field, Raw, Reason};

/// Parses one line: trimmed, 1 to `max` characters, without control characters.
pub fn line(text: &str, max: usize) -> Result<String, Reason> {
    let text = text.trim();
    if text.is_empty() {
        return Err("Enter at least one character.".into());
    }
    if text.chars().count() > max {
        return Err(format!("Use at most {max} characters.").into());
    }
    if text.chars().any(char::is_control) {
        return Err("Remove the line breaks and control characters.".into());
    }
    Ok(text.to_owned())
}

/// The text of a search box, 1 to 100 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchText(pub String);

impl Field for SearchText {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        line(raw.text()?, 100).map(Self)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        schema::line(100, "rovers")
    }
}

/// JSON Schemas of text. The patterns match exactly the texts that the parsers accept.
#[cfg(feature = "openapi")]
pub mod schema {
    use serde_json::{Value, json};

    /// Any number of the characters that `str::trim` removes.
    pub const SPACE: &str = r"[\u0009-\u000D \u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]*";
    /// A character that is not a control character.
    pub const PRINTABLE: &str = r"[^\u0000-\u001F\u007F-\u009F]";
    /// A printable character that `str::trim` keeps.
    pub const VISIBLE: &str =
        r"[^\u0000-\u001F\u007F-\u009F \u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]";

    /// Returns the schema of the texts that [`super::line`] accepts.
    #[must_use]
    pub fn line(max: usize, example: &str) -> Value {
        let pattern = format!("^{SPACE}{VISIBLE}({PRINTABLE}{{0,{}}}{VISIBLE})?{SPACE}$", max - 2);
        json!({
            "type": "string", "minLength": 1, "pattern": pattern, "examples": [example],
            "description": format!("1 to {max} characters after trimming, without control characters."),
        })
    }

    /// Returns the schema of a fixed set of words.
    #[must_use]
    pub fn one_of(words: &[&str]) -> Value {
        json!({ "type": "string", "enum": words })
    }
}
