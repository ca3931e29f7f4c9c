//! The Lambda function with which operators moderate: they read and close reports, suspend and restore users, reset names,
//! delete accounts and remove rooms. They invoke it by hand: it has no HTTP route. Every action has an entry in the audit.

mod action;
mod delete_account;
mod error;
mod lists;
mod longest_request;
mod remove_room;
mod reports;
mod reset_name;
mod suspend;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::Value;
use touchline::App;

use action::Action;
pub use error::ModerationError;

/// The payload of an invocation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    ListReports(lists::ListReports),
    CloseReport(Action<reports::ReportSubject>),
    Suspend(Action<suspend::UserSubject>),
    Restore(Action<suspend::UserSubject>),
    ResetName(Action<suspend::UserSubject>),
    DeleteAccount(Action<suspend::UserSubject>),
    RemoveRoom(Action<remove_room::RoomSubject>),
    Audit(lists::ListAudit),
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
        Order::DeleteAccount(order) => delete_account::delete_account(&app, order).await,
        Order::RemoveRoom(order) => remove_room::remove_room(&app, order, deadline).await,
        Order::Audit(order) => lists::list_audit(&app, order).await,
    }
}

#[cfg(test)]
mod tests;
