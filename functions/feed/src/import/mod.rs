//! Applies a document: assigns ids, writes rows, publishes the snapshot.
//!
//! Every step is idempotent. After a crash the next import of the same document completes the work.
//!
//! Matches that are stored already come first: their scores are written and published before the import asks the homeserver
//! for anything. So a slow homeserver delays only new matches.

mod base;
mod chunks;
mod create_rooms;
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
use touchline::storage::StoreError;

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

/// Imports a document. After `until`, creates and renames no more rooms; a later import of the document does the rest.
pub async fn import(app: &App, document: Document, until: DateTime<Utc>) -> Result<Report, FeedError> {
    let now = app.clock.now();
    if document.as_of.is_some_and(|as_of| as_of > now + CLOCK_SKEW) {
        return Err(FeedError::BadAsOf);
    }
    let mut base = Base::load(app).await?;
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
    let events = import.read_events(&ids, document.events).await?;
    let has_known = !events.known.is_empty();
    import.import_events(events.known).await?;
    if has_known && (!events.new.is_empty() || import.has_wrong_room_names()) {
        import.publish(base).await?;
        // Rows must be read after the snapshot on which they are published. So the rest of the import begins anew.
        base = Base::load(app).await?;
        import.catalog = base.known();
    }
    import.create_rooms(events.new, until).await?;
    import.rename_rooms(until).await?;
    import.publish(base).await?;
    Ok(import.report)
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
    /// The accepted rows of the document that are not published yet, as they are stored.
    rows: Rows,
    /// The rejected rows, by kind and id. No row of the same document may refer to a rejected row.
    rejected: HashSet<(Kind, u32)>,
    report: Report,
}

impl Import<'_> {
    /// Publishes the rows that are written so far, and lets `points` settle their results.
    async fn publish(&mut self, base: Base) -> Result<(), StoreError> {
        let rows = std::mem::take(&mut self.rows);
        let matches = rows.events.clone();
        publish::publish(self.app, base, rows).await?;
        publish::note_publication(self.app, &matches).await
    }

    fn reject(&mut self, row: String, reason: String) {
        self.report.rejected += 1;
        if self.report.reasons.len() < MAX_REASONS {
            self.report.reasons.push(Rejected { row, reason });
        }
    }
}
