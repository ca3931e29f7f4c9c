//! The Lambda function with which operators count rows again and repair counters. They invoke it by hand: it has no
//! HTTP route.
//!
//! The function `tally` updates counters from streams. Counters miss the changes whose stream records are lost. A
//! recount compares counters with their rows and repairs those that differ. It is safe while the product is in use.

mod copies;
mod everything;
mod exact;
mod position;
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
use touchline::domain::{Room, RoomId, UserId};
use touchline::storage::StoreError;

use copies::copy_into_members;
use position::{NextMembers, Position};
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
    /// The `next` of the report of a recount of a room that stopped early.
    Members(NextMembers),
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
         {{\"recount\": {{\"user\": 7}}}}, {{\"recount\": {{\"everything\": {{}}}}}}, \
         {{\"recount\": {{\"everything\": {{\"next\": …}}}}}} or the `next` of a recount of a room: {0}"
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
    let mut report = Report::default();
    let carried_out = carry_out(&app, recount, &mut report, deadline - RESERVE).await;
    // If this fails, the recount fails, and the operator repeats it.
    let queued = app.store.queue_boards(&report.boards, "recount", app.clock.now()).await;
    // What was repaired before a failure must be reported too.
    report.publish(&app, carried_out.is_err());
    carried_out?;
    queued?;
    Ok(serde_json::to_value(report).unwrap_or_default())
}

async fn carry_out(
    app: &App,
    order: Order,
    report: &mut Report,
    until: DateTime<Utc>,
) -> Result<(), RecountError> {
    match order {
        Order::Match(id) => {
            let found = app.store.catalog_rows::<Match>(&[id]).await?.remove(&id);
            let event = found.ok_or(RecountError::UnknownMatch(id))?;
            recount_match(app, &event, report, until).await?;
        }
        Order::Room(id) => {
            let room = find_room(app, RoomId::parse(&id).ok_or(RecountError::UnknownRoom(id))?).await?;
            report.next = recount_room(app, &room, report, until).await?.map(Position::Members);
        }
        Order::Members(next) => {
            let room = find_room(app, next.room.clone()).await?;
            let rest = copy_into_members(app, &room, next, report, until).await?;
            report.next = rest.map(Position::Members);
        }
        Order::User(id) => recount_user(app, UserId(id), report, until).await?,
        Order::Everything(Everything { next }) => {
            everything::recount_everything(app, next.unwrap_or_default(), report, until).await?;
        }
    }
    Ok(())
}

async fn find_room(app: &App, id: RoomId) -> Result<Room, RecountError> {
    let found = app.store.room(&id).await?;
    found.ok_or_else(|| RecountError::UnknownRoom(id.as_str().to_owned()))
}
