//! Imports sports, teams, tournaments and matches, and publishes the snapshot that the API reads.
//!
//! The payload is a document. On its schedule the function fetches one.

mod document;
mod fetch;
mod formats;
mod import;

use serde::Serialize;
use serde_json::Value;
use touchline::App;
use touchline::storage::StoreError;

pub use document::{Document, Rejected};

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub created: usize,
    pub updated: usize,
    pub unchanged: usize,
    pub rejected: usize,
    /// The first hundred rejected rows.
    pub reasons: Vec<Rejected>,
}

/// Why a whole document was rejected. Nothing of it is applied.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("the document is not JSON: {0}")]
    NotJson(String),
    #[error("the format is {0}; it must be touchline, football-data.org/v4 or openfootball")]
    UnknownFormat(String),
    #[error("the document does not have the format {0}: {1}")]
    WrongShape(&'static str, String),
    #[error("the time zone {0:?} is unknown; use one such as Europe/London")]
    UnknownTimeZone(String),
    #[error("as_of must be a timestamp such as 2026-11-15T12:00:00Z, and not in the future")]
    BadAsOf,
    #[error("the feed could not be fetched: {0}")]
    Fetch(String),
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}

/// One invocation. The payload is `{}` on the schedule, `{"rebuild": true}` from an operator, or a document.
pub async fn handle(app: App, event: Value) -> Result<Value, FeedError> {
    let document = if event.as_object().is_some_and(serde_json::Map::is_empty) {
        let Some(settings) = &app.config.feed else {
            return Ok(serde_json::json!({ "skipped": "no FeedUrl is configured" }));
        };
        fetch::fetch(&app, settings).await?
    } else {
        event
    };
    let report = if document["rebuild"] == true {
        import::rebuild(&app).await?
    } else {
        import::import(&app, formats::read(&document)?).await?
    };
    tracing::info!(
        created = report.created,
        updated = report.updated,
        unchanged = report.unchanged,
        rejected = report.rejected,
        "imported"
    );
    Ok(serde_json::to_value(report).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use touchline_testing::TestApp;

    #[tokio::test]
    async fn a_scheduled_run_without_a_feed_url_is_skipped() {
        let app = TestApp::serving(&[]).start().await;
        let result = app.invoke(super::handle, json!({})).await;
        assert_eq!(result, json!({ "skipped": "no FeedUrl is configured" }));
    }
}
