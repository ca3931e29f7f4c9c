//! Awards points for predictions. A scheduled run settles all matches that wait for points. An operator can
//! settle one match.

mod pace;
mod settle;
#[cfg(test)]
mod tests;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use touchline::App;
use touchline::storage::StoreError;

pub use pace::Rate;
pub use settle::Settled;

use settle::settle;

/// The payload: `{}` settles all matches that wait for points, `{"event_id": 9}` settles match 9.
#[derive(Debug, Default, Deserialize)]
struct Payload {
    event_id: Option<u32>,
    /// Whether to read all predictions of the match again, to find those that were stored after the first
    /// settlement.
    #[serde(default, rename = "again")]
    restart: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    matches: Vec<Settled>,
}

#[derive(Debug, thiserror::Error)]
pub enum PointsError {
    #[error("the payload must be {{}}, {{\"event_id\": n}} or {{\"event_id\": n, \"again\": true}}: {0}")]
    InvalidPayload(String),
    #[error("cannot award points for the matches {0:?}; see the log")]
    Failed(Vec<u32>),
    #[error("there is no match {0}")]
    UnknownEvent(u32),
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}

/// If an import crashes before it stores or publishes a result, the next import does it. If none does so for this long, the
/// match is settled as it is stored. No import runs for so long.
const UNPUBLISHED: TimeDelta = TimeDelta::minutes(30);

/// A run starts no new work during this time before its deadline, so that work in progress can finish.
const RESERVE: TimeDelta = TimeDelta::seconds(20);

/// Handles one invocation. Lambda stops the invocation at `deadline`.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, PointsError> {
    let payload: Payload =
        serde_json::from_value(event).map_err(|error| PointsError::InvalidPayload(error.to_string()))?;
    let until = deadline - RESERVE;
    // Before this time has passed since the publication of a result, a request may still store a prediction.
    let settling = app.config.old_catalog_is_used_for();
    let mut report = Report::default();
    let mut failed = Vec::new();
    match payload.event_id {
        Some(event) => {
            let settled = settle(&app, event, payload.restart, until).await?;
            report.matches.push(settled.ok_or(PointsError::UnknownEvent(event))?);
        }
        None => {
            for due in app.store.due().await? {
                let now = app.clock.now();
                if now >= until {
                    break;
                }
                if !due.is_published && due.since + UNPUBLISHED > now {
                    tracing::warn!(event = due.event_id, "the catalog with the result is not published yet");
                    continue;
                }
                if due.since + settling > now {
                    continue;
                }
                match settle(&app, due.event_id, false, until).await {
                    Ok(Some(settled)) if settled.revision >= due.revision => report.matches.push(settled),
                    // The import queues a match before it stores the result. It crashed in between, or it is still
                    // running, or a concurrent import stored a newer document. An import that stores the result
                    // queues it again.
                    Ok(Some(_)) if due.since + UNPUBLISHED < now => app.store.withdraw_due(&due).await?,
                    Ok(_) => tracing::warn!(event = due.event_id, "the result is not stored yet"),
                    // If one match fails, the run continues with the next match.
                    Err(error) => {
                        tracing::error!(event = due.event_id, %error, "cannot award points for a match");
                        failed.push(due.event_id);
                    }
                }
            }
        }
    }
    for settled in &report.matches {
        let Settled { event_id, revision, scored, finished } = settled;
        tracing::info!(event_id, revision, scored, finished, "ran a settlement");
    }
    // A returned error triggers the alarm.
    if failed.is_empty() {
        Ok(serde_json::to_value(report).unwrap_or_default())
    } else {
        Err(PointsError::Failed(failed))
    }
}
