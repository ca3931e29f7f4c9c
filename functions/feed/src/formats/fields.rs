//! Parses the rows of a document and their fields.

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::document::Rejected;

/// The maximum length of a text field, in characters.
const MAX_TEXT: usize = 200;

pub fn timestamp(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc())
}

/// Parses the rows of a list. Adds each invalid row to `rejected`, under the name that `name` returns, and
/// continues with the next row.
pub fn rows<T>(
    list: &Value,
    rejected: &mut Vec<Rejected>,
    name: impl Fn(usize, &Value) -> String,
    read: impl Fn(&Value) -> Result<T, String>,
) -> Vec<T> {
    let mut found = Vec::new();
    for (at, row) in list.as_array().into_iter().flatten().enumerate() {
        match read(row) {
            Ok(row) => found.push(row),
            Err(reason) => rejected.push(Rejected { row: name(at, row), reason }),
        }
    }
    found
}

/// Returns the name of a row in reports: its kind with its id, or with its position if the row has no id.
pub fn row_name(kind: &str, at: usize, row: &Value) -> String {
    match row["id"].as_u64() {
        Some(id) => format!("{kind} {id}"),
        None => format!("{kind} at position {}", at + 1),
    }
}

/// Reads a required text field.
pub fn text(row: &Value, field: &str) -> Result<String, String> {
    optional_text(row, field)?.ok_or_else(|| format!("{field} is missing"))
}

pub fn optional_text(row: &Value, field: &str) -> Result<Option<String>, String> {
    match &row[field] {
        Value::Null => Ok(None),
        Value::String(text) => {
            let text = text.trim();
            if text.chars().count() > MAX_TEXT {
                return Err(format!("{field} is longer than {MAX_TEXT} characters"));
            }
            if text.chars().any(char::is_control) {
                return Err(format!("{field} contains control characters"));
            }
            Ok((!text.is_empty()).then(|| text.to_owned()))
        }
        _ => Err(format!("{field} must be a string")),
    }
}

/// Reads an optional field that holds the URL of a picture.
pub fn link(row: &Value, field: &str) -> Result<Option<String>, String> {
    let link = optional_text(row, field)?;
    match link {
        Some(link) if !link.starts_with("https://") && !link.starts_with("http://") => {
            Err(format!("{field} must be a URL"))
        }
        link => Ok(link),
    }
}

pub fn integer(row: &Value, field: &str) -> Result<Option<i64>, String> {
    match &row[field] {
        Value::Null => Ok(None),
        value => value.as_i64().map(Some).ok_or_else(|| format!("{field} must be an integer")),
    }
}

/// Returns the number as a year, or `None` if it is not between 1000 and 9999.
pub fn year(number: i64) -> Option<i32> {
    i32::try_from(number).ok().filter(|year| (1000..=9999).contains(year))
}
