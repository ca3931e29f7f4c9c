//! Applies a document: assigns ids, writes rows, publishes the snapshot.
//!
//! Every step is idempotent. After a crash the next import of the same document completes the work.

mod base;
mod chunks;
mod events;
mod ids;
pub mod promote;
mod publish;
mod rename_rooms;
mod rows;
mod slug;
mod teams;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use touchline::App;
use touchline::domain::catalog::{Catalog, Kind};

use self::base::Base;
use self::chunks::Rows;
use crate::document::{Document, Rejected};
use crate::{FeedError, Report};

/// How far the `as_of` date of a document may lie in the future, because the clock of its source may be ahead of
/// ours.
const CLOCK_SKEW: TimeDelta = TimeDelta::minutes(5);

/// The maximum number of rejected rows that a report lists with a reason. Further rejected rows are only
/// counted.
const MAX_REASONS: usize = 100;

pub async fn import(app: &App, document: Document) -> Result<Report, FeedError> {
    let now = app.clock.now();
    if document.as_of.is_some_and(|as_of| as_of > now + CLOCK_SKEW) {
        return Err(FeedError::BadAsOf);
    }
    let base = Base::load(app).await?;
    let mut import = Import {
        app,
        now,
        as_of: document.as_of.unwrap_or(now),
        is_dated: document.as_of.is_some(),
        catalog: base.known(),
        rows: Rows::default(),
        rejected: HashSet::new(),
        report: Report::default(),
    };
    for rejected in document.rejected {
        import.reject(rejected.row, rejected.reason);
    }
    let (ids, sports) = import
        .assign_ids(
            &document.source,
            document.sports,
            &document.teams,
            &document.tournaments,
            &document.events,
        )
        .await?;
    import.import_sports(&ids, sports).await?;
    import.import_tournaments(&ids, document.tournaments).await?;
    import.import_teams(&ids, document.teams).await?;
    import.import_events(&ids, document.events).await?;
    import.rename_rooms().await?;

    let Import { rows, report, .. } = import;
    let matches = rows.events.clone();
    publish::publish(app, base, rows).await?;
    publish::note_publication(app, &matches).await?;
    Ok(report)
}

/// Publishes a snapshot of every stored row.
pub async fn rebuild(app: &App) -> Result<Report, FeedError> {
    let base = Base::from_rows(app).await?;
    let known = base.known();
    let unchanged =
        known.sports().count() + known.teams().count() + known.tournaments().count() + known.events().count();
    publish::publish(app, base, Rows::default()).await?;
    Ok(Report { unchanged, ..Report::default() })
}

/// The state of one import.
struct Import<'a> {
    app: &'a App,
    now: DateTime<Utc>,
    /// The document's date or, without one, the time of the import.
    as_of: DateTime<Utc>,
    /// Whether the document has a date of its own.
    is_dated: bool,
    /// The catalog before the import.
    catalog: Arc<Catalog>,
    /// The accepted rows of the document, as they are stored after the import.
    rows: Rows,
    /// The rejected rows, by kind and id. No row of the same document may refer to a rejected row.
    rejected: HashSet<(Kind, u32)>,
    report: Report,
}

impl Import<'_> {
    fn reject(&mut self, row: String, reason: String) {
        self.report.rejected += 1;
        if self.report.reasons.len() < MAX_REASONS {
            self.report.reasons.push(Rejected { row, reason });
        }
    }
}
