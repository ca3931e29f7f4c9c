//! Builds the boards whose rows have changed.
//!
//! `tally` adds the points of a settlement to the statistics of each user, and notes which boards have changed. A scheduled run
//! of this function reads the statistics of all users, sorts them and publishes these boards. A user's points are written
//! once for all boards, and a board of ten million users is written in 70,000 items instead of ten million.
//!
//! While a match is being settled, its boards are not built: half of a settlement is no standing. The run waits for the end of
//! the settlement instead.
//!
//! A run can stop at any point. The notes stay until all of their boards are published, so the next run builds them again.

mod build;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::try_join;
use serde::Deserialize;
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::standings::Board;
use touchline::storage::StoreError;

/// The payload: `{}` builds the boards that have changed, `{"rebuild": true}` builds all boards that are open.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    #[serde(default)]
    rebuild: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum StandingsError {
    #[error("the payload must be {{}} or {{\"rebuild\": true}}: {0}")]
    InvalidPayload(String),
    #[error("the store failed: {0}")]
    Store(#[from] StoreError),
}

/// Boards whose changes are older are built even while a match is being settled. A settlement whose writes fail does not end.
const LONGEST_WAIT: TimeDelta = TimeDelta::minutes(15);

/// How often a run looks for changes, and the pause between two looks. Together less than a minute: then the next run begins.
const LOOKS: u32 = 16;
const PAUSE: Duration = Duration::from_secs(3);

/// How often a run looks for changes after a settlement has ended. The streams deliver its points within some seconds.
const LOOKS_AFTER_SETTLEMENT: u32 = 5;

/// Handles one invocation. Lambda stops it at `_deadline`. A run that is stopped changes nothing that readers see.
pub async fn handle(app: App, event: Value, _deadline: DateTime<Utc>) -> Result<Value, StandingsError> {
    let payload: Payload =
        serde_json::from_value(event).map_err(|error| StandingsError::InvalidPayload(error.to_string()))?;
    if payload.rebuild {
        let boards = build::open_boards(&app).await?;
        app.store.note_changed_boards(&boards, "rebuild", app.clock.now()).await?;
    }
    let mut built = BTreeSet::new();
    let mut looks_left = 0;
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let (notes, is_settling) = try_join(app.store.changed_boards(), is_settling(&app)).await?;
        let is_late = notes.iter().any(|note| note.since + LONGEST_WAIT < app.clock.now());
        if is_settling {
            looks_left = LOOKS_AFTER_SETTLEMENT;
        }
        if !notes.is_empty() && (!is_settling || is_late) {
            let boards: BTreeSet<Board> = notes.iter().flat_map(|note| note.boards.iter().copied()).collect();
            built.extend(build::build(&app, &boards).await?);
            for note in &notes {
                app.store.delete_change_note(note).await?;
            }
        } else if looks_left == 0 {
            break;
        }
        looks_left = looks_left.saturating_sub(1);
    }
    Ok(json!({ "boards": built.iter().map(Board::to_string).collect::<Vec<_>>() }))
}

/// Returns whether a match is being settled, or could be settled now.
async fn is_settling(app: &App) -> Result<bool, StoreError> {
    let now = app.clock.now();
    let settling = app.config.old_catalog_is_used_for();
    Ok(app.store.due().await?.iter().any(|due| due.is_published && due.since + settling <= now))
}
