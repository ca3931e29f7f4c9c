//! The Lambda function with which operators count rows again and repair counters. They invoke it by hand: it has no
//! HTTP route.
//!
//! The function `tally` updates counters from streams. Counters miss the changes whose stream records are lost. A
//! recount compares counters with their rows and repairs those that differ. It is safe while the product is in use.

mod copies;
mod everything;
mod exact;
mod report;
mod subject;
#[cfg(test)]
mod tests;

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::Value;
use touchline::App;
use touchline::Error;
use touchline::domain::catalog::Match;
use touchline::domain::{RoomId, UserId};
use touchline::storage::StoreError;

use everything::Position;
use report::Report;
use subject::{recount_match, recount_room, recount_user};

/// The payload of an invocation.
#[derive(Debug, Deserialize)]
struct Payload {
    recount: Order,
}

/// What to count again.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Match(u32),
    Room(String),
    User(u32),
    Everything(Everything),
}

#[derive(Debug, Default, Deserialize)]
struct Everything {
    /// The `next` of the report of an earlier recount that stopped early.
    next: Option<Position>,
}

#[derive(Debug, thiserror::Error)]
pub enum RecountError {
    #[error(
        "the payload must be {{\"recount\": {{\"match\": 9}}}}, {{\"recount\": {{\"room\": \"!x:server\"}}}}, \
         {{\"recount\": {{\"user\": 7}}}}, {{\"recount\": {{\"everything\": {{}}}}}} or \
         {{\"recount\": {{\"everything\": {{\"next\": …}}}}}}: {0}"
    )]
    BadOrder(String),
    #[error("there is no match {0}")]
    UnknownMatch(u32),
    #[error("there is no room {0}")]
    UnknownRoom(String),
    #[error("{0}")]
    Failed(#[from] Error),
}

impl From<StoreError> for RecountError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

/// The recount begins no new work during this time before the deadline. Waiting for a marker takes up to 51 seconds.
const RESERVE: TimeDelta = TimeDelta::seconds(120);

/// Carries out the order in the payload. Lambda ends the process at the `deadline`.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, RecountError> {
    let Payload { recount } =
        serde_json::from_value(event).map_err(|error| RecountError::BadOrder(error.to_string()))?;
    let until = deadline - RESERVE;
    let mut report = Report::default();
    match recount {
        Order::Match(id) => {
            let found = app.store.catalog_rows::<Match>(&[id]).await?.remove(&id);
            let event = found.ok_or(RecountError::UnknownMatch(id))?;
            recount_match(&app, &event, &mut report, until).await?;
        }
        Order::Room(id) => {
            let unknown = || RecountError::UnknownRoom(id.clone());
            let room = app.store.room(&RoomId::parse(&id).ok_or_else(unknown)?).await?.ok_or_else(unknown)?;
            recount_room(&app, &room, &mut report, until).await?;
        }
        Order::User(id) => recount_user(&app, UserId(id), &mut report, until).await?,
        Order::Everything(Everything { next }) => {
            everything::recount_everything(&app, next.unwrap_or_default(), &mut report, until).await?;
        }
    }
    report.publish(&app);
    Ok(serde_json::to_value(report).unwrap_or_default())
}
