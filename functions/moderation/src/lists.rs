//! Lists of reports and of audit entries.

use serde::Deserialize;
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::Timestamp;
use touchline::domain::audit::AuditEntry;
use touchline::domain::report::{Report, ReportId, ReportStatus};
use touchline::storage::users::MonthlyPosition;

use crate::error::ModerationError;

/// How many rows a page has by default.
const DEFAULT_LIMIT: usize = 50;

/// The highest number of rows of a page.
const MAX_LIMIT: usize = 100;

#[derive(Debug, Deserialize)]
pub struct ListReports {
    status: Option<ReportStatus>,
    limit: Option<usize>,
    /// The `cursor` of the last page.
    cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct ListAudit {
    limit: Option<usize>,
    /// The `cursor` of the last page.
    cursor: Option<String>,
}

/// Lists the open or the closed reports, oldest first.
pub async fn list_reports(app: &App, order: ListReports) -> Result<Value, ModerationError> {
    let status = order.status.unwrap_or(ReportStatus::Open);
    let (after, limit) = (position(order.cursor.as_deref())?, limit(order.limit)?);
    let page = app.store.reports_page(status, after, limit, app.clock.now()).await?;
    let reports: Vec<Value> = page.reports.iter().map(|(id, report)| report_view(id, report)).collect();
    Ok(json!({ "reports": reports, "cursor": page.next.as_ref().map(cursor) }))
}

/// Lists the audit, newest first.
pub async fn list_audit(app: &App, order: ListAudit) -> Result<Value, ModerationError> {
    let (after, limit) = (position(order.cursor.as_deref())?, limit(order.limit)?);
    let (entries, next) = app.store.audit_page(after, limit, app.clock.now()).await?;
    let entries: Vec<Value> = entries.into_iter().map(entry_view).collect();
    Ok(json!({ "entries": entries, "cursor": next.as_ref().map(cursor) }))
}

pub fn report_view(id: &ReportId, report: &Report) -> Value {
    json!({
        "id": id.to_string(),
        "status": report.status,
        "reporter_id": report.reporter_id,
        "user_id": report.user_id,
        "room_id": report.room_id,
        "message_id": report.message_id,
        "reason": report.reason,
        "text": report.text,
        "opened_at": Timestamp::from(report.opened_at),
        "updated_at": Timestamp::from(report.updated_at),
        "closed_at": report.closed_at.map(Timestamp::from),
    })
}

fn entry_view(entry: AuditEntry) -> Value {
    let AuditEntry { id, at, action, subject, operator, reason } = entry;
    json!({
        "id": id, "at": Timestamp::from(at), "action": action, "subject": subject, "operator": operator,
        "reason": reason,
    })
}

fn limit(limit: Option<usize>) -> Result<usize, ModerationError> {
    match limit.unwrap_or(DEFAULT_LIMIT) {
        limit @ 1..=MAX_LIMIT => Ok(limit),
        _ => Err(ModerationError::BadField { field: "limit", problem: format!("Use 1 to {MAX_LIMIT}.") }),
    }
}

fn cursor(position: &MonthlyPosition) -> String {
    format!("{}/{}", position.month, position.sk)
}

fn position(cursor: Option<&str>) -> Result<Option<MonthlyPosition>, ModerationError> {
    let Some(text) = cursor else { return Ok(None) };
    let parsed = text
        .split_once('/')
        .and_then(|(month, sk)| Some(MonthlyPosition { month: month.parse().ok()?, sk: sk.to_owned() }));
    let problem = "Use the cursor of the last page.".to_owned();
    parsed.map(Some).ok_or(ModerationError::BadField { field: "cursor", problem })
}
