//! Imports sports, teams, tournaments and matches, and publishes the snapshot that the API reads.
//!
//! Invoked with a document, or on its schedule, when it fetches one.

mod document;
mod fetch;
mod formats;
mod import;

use serde::Serialize;
use serde_json::Value;
use touchline::App;
use touchline::storage::StoreError;

pub use document::{Document, Rejected};

/// What an import did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub created: usize,
    pub updated: usize,
    pub unchanged: usize,
    pub rejected: usize,
    /// Why, row by row; the first hundred.
    pub reasons: Vec<Rejected>,
}

/// Why a whole document was refused. Nothing of it was applied.
#[derive(Debug, thiserror::Error)]
pub enum FeedError {
    #[error("the document is not JSON: {0}")]
    NotJson(String),
    #[error("the document's format is {0}, but must be touchline, football-data.org/v4 or openfootball")]
    UnknownFormat(String),
    #[error("the document is not of the format {0}: {1}")]
    WrongShape(&'static str, String),
    #[error("{0:?} is not a time zone; give one such as Europe/London")]
    UnknownTimeZone(String),
    #[error("as_of is not a timestamp such as 2026-11-15T12:00:00Z, or lies in the future")]
    BadAsOf,
    #[error("the feed could not be fetched: {0}")]
    Fetch(String),
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}

/// One invocation: `{}` on a schedule, `{"rebuild": true}` by an operator, else a document.
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
    async fn a_scheduled_run_without_an_address_says_so() {
        let app = TestApp::serving(&[]).start().await;
        let answer = super::handle(app.app.clone(), json!({})).await.unwrap();
        assert_eq!(answer, json!({ "skipped": "no FeedUrl is configured" }));
    }
}
