//! The formats of the documents that can be imported. Each format has a module, which parses a document of this
//! format into a [`Document`], row by row.

mod fields;
mod football_data;
mod openfootball;
mod touchline;

use serde_json::Value;

use crate::FeedError;
use crate::document::Document;

use fields::timestamp;

/// Parses the document in the payload of an invocation.
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
