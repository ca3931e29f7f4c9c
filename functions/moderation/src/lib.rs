//! The Lambda function with which operators moderate: they read and close reports, suspend and restore users, reset names
//! and remove rooms. They invoke it by hand: it has no HTTP route. Every action has an entry in the audit.

mod action;
mod lists;
mod remove_room;
mod reports;
mod reset_name;
mod suspend;

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use touchline::App;
use touchline::Error;
use touchline::ports::chat::ChatError;
use touchline::storage::StoreError;

use action::Action;

/// How long a request of the API can be under way: Lambda ends it after this time. A login or a join that began before a
/// suspension or a removal can store its result afterwards, so these actions make a second pass after this time.
const LONGEST_REQUEST: Duration = Duration::from_secs(if cfg!(test) { 0 } else { 10 });

/// The payload of an invocation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    ListReports(lists::ListReports),
    CloseReport(Action<reports::ReportSubject>),
    Suspend(Action<suspend::UserSubject>),
    Restore(Action<suspend::UserSubject>),
    ResetName(Action<suspend::UserSubject>),
    RemoveRoom(Action<remove_room::RoomSubject>),
    Audit(lists::ListAudit),
}

#[derive(Debug, thiserror::Error)]
pub enum ModerationError {
    #[error(
        "the payload must be {{\"list_reports\": {{\"status\"}}}}, {{\"audit\": {{}}}}, or one of close_report \
         {{\"report_id\"}}, suspend {{\"user_id\"}}, restore {{\"user_id\"}}, reset_name {{\"user_id\"}} and remove_room \
         {{\"room_id\"}}, each also with \"operator\", \"reason\" and, optionally, \"id\": {0}"
    )]
    BadOrder(String),
    #[error("{field}: {problem}")]
    BadField { field: &'static str, problem: String },
    #[error("there is no user {0}")]
    UnknownUser(u32),
    #[error("there is no room {0}")]
    UnknownRoom(String),
    #[error("there is no report {0}. Reports are deleted with the account of the reporter")]
    UnknownReport(String),
    #[error(
        "the id {0} belongs to an earlier action with other fields. Choose a new id, or send the same fields"
    )]
    IdUsed(String),
    #[error(
        "the room belongs to a match, and the match needs it. Suspend the users who misuse it, or remove their messages on \
         the homeserver"
    )]
    MatchRoom,
    #[error(
        "the homeserver does not let the creator close the room, because they have lost their power in it. Set \
         ChatAdminTokenSecret, and invoke this again"
    )]
    NoPower,
    #[error("{0}")]
    Failed(#[from] Error),
}

impl From<StoreError> for ModerationError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ChatError> for ModerationError {
    fn from(error: ChatError) -> Self {
        Self::Failed(error.into())
    }
}

/// Carries out the order in the payload. Lambda ends the process at the `deadline`.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, ModerationError> {
    let order: Order =
        serde_json::from_value(event).map_err(|error| ModerationError::BadOrder(error.to_string()))?;
    match order {
        Order::ListReports(order) => lists::list_reports(&app, order).await,
        Order::CloseReport(order) => reports::close(&app, order).await,
        Order::Suspend(order) => suspend::suspend(&app, order).await,
        Order::Restore(order) => suspend::restore(&app, order).await,
        Order::ResetName(order) => reset_name::reset_name(&app, order).await,
        Order::RemoveRoom(order) => remove_room::remove_room(&app, order, deadline).await,
        Order::Audit(order) => lists::list_audit(&app, order).await,
    }
}

#[cfg(test)]
mod tests;
