//! The formats: each from JSON to a [`Document`], row by row.

mod football_data;
mod openfootball;
mod touchline;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::FeedError;
use crate::document::{Document, Rejected};

/// Reads an invocation's document, whatever its format.
pub fn read(event: &Value) -> Result<Document, FeedError> {
    let as_of = match &event["as_of"] {
        Value::Null => None,
        Value::String(text) => Some(timestamp(text).ok_or(FeedError::BadAsOf)?),
        _ => return Err(FeedError::BadAsOf),
    };
    let document = match event["format"].as_str() {
        Some("touchline") => touchline::read(event)?,
        Some("football-data.org/v4") => football_data::read(&event["document"])?,
        Some("openfootball") => openfootball::read(&event["document"], event["timezone"].as_str())?,
        Some(other) => return Err(FeedError::UnknownFormat(format!("{other:?}"))),
        None => return Err(FeedError::UnknownFormat("not given".into())),
    };
    Ok(Document { as_of, ..document })
}

fn timestamp(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.to_utc())
}

/// Reads the rows of a list; each that makes no sense is noted under its name, and the others go on.
fn rows<T>(
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

/// A text that must be there, short enough to show.
fn text(row: &Value, field: &str) -> Result<String, String> {
    optional_text(row, field)?.ok_or_else(|| format!("{field} is missing"))
}

fn optional_text(row: &Value, field: &str) -> Result<Option<String>, String> {
    match &row[field] {
        Value::Null => Ok(None),
        Value::String(text) => {
            let text = text.trim();
            if text.chars().count() > 200 || text.chars().any(char::is_control) {
                return Err(format!("{field} is too long or holds control characters"));
            }
            Ok((!text.is_empty()).then(|| text.to_owned()))
        }
        _ => Err(format!("{field} must be a text")),
    }
}

/// A link, for pictures.
fn link(row: &Value, field: &str) -> Result<Option<String>, String> {
    let link = optional_text(row, field)?;
    match link {
        Some(link) if !link.starts_with("https://") && !link.starts_with("http://") => {
            Err(format!("{field} must be a link"))
        }
        link => Ok(link),
    }
}

fn integer(row: &Value, field: &str) -> Result<Option<i64>, String> {
    match &row[field] {
        Value::Null => Ok(None),
        value => value.as_i64().map(Some).ok_or_else(|| format!("{field} must be an integer")),
    }
}
