//! Imports sports, teams, tournaments and matches, and publishes the snapshot that the API reads.
//!
//! An operator invokes the function with a document as the payload. A scheduled run has the payload `{}` and
//! fetches the document from `FEED_URL`.

mod document;
mod error;
mod fetch;
mod formats;
mod import;
mod lease;
mod report;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline::App;

pub use document::{Document, Rejected};
pub use error::FeedError;
pub use report::Report;

use lease::Lease;

/// A run starts no new work during this time before its deadline, so that work in progress can finish and the catalog can
/// be published.
const RESERVE: TimeDelta = TimeDelta::seconds(30);

/// A scheduled run creates and renames rooms for at most this long after its start. The next run begins a minute after it
/// and imports newer results; it also continues with the rooms.
const ROOM_TIME: TimeDelta = TimeDelta::seconds(40);

/// Handles one invocation. A scheduled run has the payload `{}`. An operator sends a document to import,
/// `{"rebuild": true}` to publish a snapshot of the stored rows, or `{"promote": 9}` to give match 9 more shards.
///
/// One run works at a time. Lambda stops the invocation at `deadline`.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, FeedError> {
    let is_scheduled = event.as_object().is_some_and(serde_json::Map::is_empty);
    let mut until = deadline - RESERVE;
    if is_scheduled {
        until = until.min(app.clock.now() + ROOM_TIME);
    }
    if is_scheduled && app.config.feed.is_none() {
        import::promote::resume_all(&app).await;
        return Ok(json!({ "skipped": "no FeedUrl is configured" }));
    }
    let lease = if is_scheduled {
        Lease::take(&app, deadline).await?
    } else {
        Lease::wait(&app, deadline, until).await?
    };
    let Some(lease) = lease else {
        if is_scheduled {
            tracing::info!("another run is working; this one ends");
            return Ok(json!({ "skipped": "another run of feed is working" }));
        }
        return Err(FeedError::Running);
    };
    let result = run(&app, event, is_scheduled, until).await;
    lease.release().await;
    result
}

async fn run(app: &App, event: Value, is_scheduled: bool, until: DateTime<Utc>) -> Result<Value, FeedError> {
    if let Some(event) = event.get("promote") {
        let event = event.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or(FeedError::BadPromotion)?;
        let promotion = import::promote::promote(app, event).await?;
        tracing::info!(event, shards = promotion.shards, ?promotion.paused_until, "promoting");
        return Ok(serde_json::to_value(promotion).unwrap_or_default());
    }
    import::promote::resume_all(app).await;
    let document = match &app.config.feed {
        Some(settings) if is_scheduled => fetch::fetch(app, settings).await?,
        _ => event,
    };
    let report = if document["rebuild"] == true {
        import::rebuild(app).await?
    } else {
        import::import(app, formats::read(&document)?, until).await?
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
