//! Short text that a person types.

use super::{Field, Raw, Reason, invisible};

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

/// Parses one line like [`line()`] that other users will see: also without invisible characters.
pub fn public_line(text: &str, max: usize) -> Result<String, Reason> {
    let text = line(text, max)?;
    invisible::check(&text)?;
    Ok(text)
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

/// JSON Schemas of text. The patterns of [`line()`] match exactly the texts that the parser accepts. The patterns of
/// [`public_line`](schema::public_line) also match texts with characters whose acceptance depends on their neighbours.
#[cfg(feature = "openapi")]
pub mod schema {
    use serde_json::{Value, json};

    use super::super::invisible::NEVER_ACCEPTED;

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

    /// Returns the schema of the texts that [`super::public_line`] accepts.
    #[must_use]
    pub fn public_line(max: usize, example: &str) -> Value {
        json!({
            "type": "string", "minLength": 1, "pattern": format!("^{SPACE}{}{SPACE}$", public(max)), "examples": [example],
            "description": format!("1 to {max} characters after trimming, without control characters and invisible characters."),
        })
    }

    /// Returns a pattern for 1 to `max` characters without surrounding spaces.
    #[must_use]
    pub fn public(max: usize) -> String {
        let without = |class: &str| class.replace(']', &format!("{NEVER_ACCEPTED}]"));
        let (printable, visible) = (without(PRINTABLE), without(VISIBLE));
        format!("{visible}({printable}{{0,{}}}{visible})?", max - 2)
    }

    /// Returns the schema of a fixed set of words.
    #[must_use]
    pub fn one_of(words: &[&str]) -> Value {
        json!({ "type": "string", "enum": words })
    }
}
