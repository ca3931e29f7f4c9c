//! Short text that a person typed.

use super::Reason;

/// One line for others to read: trimmed, 1 to `max` characters, without control characters.
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

/// JSON Schemas of text, with the patterns that [`line`] and its callers accept.
#[cfg(feature = "openapi")]
pub mod schema {
    use serde_json::{Value, json};

    /// What `str::trim` removes, any number of times.
    pub const SPACE: &str = r"[\u0009-\u000D \u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]*";
    /// A character that is not a control character.
    pub const PRINTABLE: &str = r"[^\u0000-\u001F\u007F-\u009F]";
    /// A printable character that `str::trim` keeps.
    pub const VISIBLE: &str =
        r"[^\u0000-\u001F\u007F-\u009F \u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]";

    #[must_use]
    pub fn line(max: usize, example: &str) -> Value {
        let pattern = format!("^{SPACE}{VISIBLE}({PRINTABLE}{{0,{}}}{VISIBLE})?{SPACE}$", max - 2);
        json!({ "type": "string", "minLength": 1, "pattern": pattern, "examples": [example],
            "description": format!("1 to {max} characters after trimming, without control characters."),
        })
    }

    /// Exactly one of these words.
    #[must_use]
    pub fn one_of(words: &[&str]) -> Value {
        json!({ "type": "string", "enum": words })
    }
}
