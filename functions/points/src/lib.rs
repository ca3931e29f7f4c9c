//! Calculates points after matches, on a schedule or for one match that is named.

mod settle;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use touchline::App;
use touchline::storage::StoreError;

use settle::settle;

/// What is asked for: everything that is due, or one match.
#[derive(Debug, Default, Deserialize)]
struct Order {
    event_id: Option<u32>,
    /// Goes through the rows once more, for those that came in too late for the first time.
    #[serde(default)]
    again: bool,
}

/// What became of one match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settled {
    pub event_id: u32,
    pub revision: u32,
    /// How many predictions have their points under this revision, in this run and those before it.
    pub scored: u64,
    /// `false` where the time was up; the next run goes on.
    pub finished: bool,
}

#[derive(Debug, Default, Serialize)]
struct Report {
    matches: Vec<Settled>,
}

#[derive(Debug, thiserror::Error)]
pub enum PointsError {
    #[error("the payload must be {{}} or {{\"event_id\": n}}: {0}")]
    BadOrder(String),
    #[error("there is no match {0}")]
    UnknownEvent(u32),
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}

/// A request that decided to write just before the result came may still be at it: a scheduled run waits
/// until it must be over. Requests end after 10 seconds at the latest, and catalogues are a second old.
const SETTLING: TimeDelta = TimeDelta::seconds(15);

/// Work that was begun gets this long to end, before Lambda ends everything.
const RESERVE: TimeDelta = TimeDelta::seconds(20);

/// One invocation. `deadline` is when its time is up.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, PointsError> {
    let order: Order =
        serde_json::from_value(event).map_err(|error| PointsError::BadOrder(error.to_string()))?;
    let until = deadline - RESERVE;
    let mut report = Report::default();
    match order.event_id {
        Some(event) => {
            let settled = settle(&app, event, order.again, until).await?;
            report.matches.push(settled.ok_or(PointsError::UnknownEvent(event))?);
        }
        None => {
            for due in app.store.due().await? {
                let now = app.clock.now();
                if now >= until {
                    break;
                }
                if due.since + SETTLING > now {
                    continue;
                }
                match settle(&app, due.event_id, false, until).await {
                    Ok(Some(settled)) if settled.revision >= due.revision => report.matches.push(settled),
                    // The import that noted it died before it wrote the result, or is at it right now.
                    Ok(_) => tracing::warn!(event = due.event_id, "a result is due that is not there yet"),
                    // One match that cannot be settled does not keep the others from it.
                    Err(error) => tracing::error!(event = due.event_id, %error, "points could not be calculated"),
                }
            }
        }
    }
    for settled in &report.matches {
        let Settled { event_id, revision, scored, finished } = settled;
        tracing::info!(event_id, revision, scored, finished, "points");
    }
    Ok(serde_json::to_value(report).unwrap_or_default())
}
