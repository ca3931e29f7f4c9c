use serde::Deserialize;
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::report::{ReportId, ReportStatus};
use touchline::storage::Retry;

use crate::action::{Action, Beginning};
use crate::error::ModerationError;
use crate::lists::report_view;

#[derive(Debug, Deserialize)]
pub struct ReportSubject {
    /// The `id` of a report in the list.
    report_id: String,
}

/// Closes a report. A report that is closed already stays as it is.
pub async fn close(app: &App, order: Action<ReportSubject>) -> Result<Value, ModerationError> {
    let text = &order.subject.report_id;
    let unknown = || ModerationError::UnknownReport(text.clone());
    let id = ReportId::parse(text).ok_or_else(unknown)?;
    app.store.report(&id).await?.ok_or_else(unknown)?;
    let begun = match order.begin(app, "close_report", format!("report {id}")).await? {
        Beginning::New(begun) => begun,
        Beginning::Replay(result) => return Ok(result),
    };
    let mut retry = Retry::immediate("a report", 5);
    let report = loop {
        let report = app.store.report(&id).await?.ok_or_else(unknown)?;
        if report.status == ReportStatus::Closed {
            break report;
        }
        app.store.close_report(&id, &report, app.clock.now()).await?;
        retry.again().await?;
    };
    begun.finish(app, json!({ "report": report_view(&id, &report) })).await
}
