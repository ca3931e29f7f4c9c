//! Promotes a match: raises its number of shards before the first prediction.
//!
//! `touchline::domain::promotion` has the rules. A promotion takes two runs of this function. The first run pauses the
//! predictions for the match. A later run ends the pause, when no write from before it can arrive. Every run
//! resumes the promotions that an earlier run began, so a crash at any point only makes the pause longer.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;
use touchline::App;
use touchline::domain::catalog::Match;
use touchline::domain::promotion::{NotPromoted, end_of_pause};
use touchline::storage::catalog::{Replacement, Written};
use touchline::storage::{Retry, StoreError};

use super::base::Base;
use super::chunks::Rows;
use super::publish::publish;
use crate::FeedError;

/// The result of a run for one match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Promotion {
    pub event_id: u32,
    pub shards: u8,
    /// Set while predictions for the match are paused: the first run after this time ends the pause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused_until: Option<DateTime<Utc>>,
}

/// Begins or resumes the promotion of a match.
pub async fn promote(app: &App, event: u32) -> Result<Promotion, FeedError> {
    let refused = |reason| FeedError::NotPromoted(event, reason);
    let mut retry = Retry::immediate("match", 10);
    loop {
        let row = stored(app, event).await?;
        if row.pause.is_some() {
            break;
        }
        if row.shards < app.config.featured_shards {
            let paused = row.paused_for_promotion(app.clock.now()).map_err(refused)?;
            // The check after the pause decides. This check avoids a useless pause.
            if app.store.has_predictions(event, row.shards).await? {
                return Err(refused(NotPromoted::HasPredictions));
            }
            if !replace(app, row, paused).await? {
                retry.again().await?;
                continue;
            }
        }
        break;
    }
    let promotion = resume(app, event).await?;
    if promotion.paused_until.is_none() && promotion.shards < app.config.featured_shards {
        return Err(refused(NotPromoted::HasPredictions));
    }
    Ok(promotion)
}

/// Resumes every promotion that has paused a match. A failure is logged, because it must not stop an import.
pub async fn resume_all(app: &App) {
    let catalog = match app.latest_catalog().await {
        Ok(Some(loaded)) => loaded.catalog,
        Ok(None) => return,
        Err(error) => return tracing::warn!(%error, "cannot look for matches that are being promoted"),
    };
    for event in catalog.events().filter(|event| event.pause.is_some()) {
        match resume(app, event.id).await {
            Ok(Promotion { event_id, shards, paused_until: None }) => {
                tracing::info!(event_id, shards, "predictions for the match are no longer paused");
            }
            Ok(_) => {}
            Err(error) => {
                tracing::error!(event_id = event.id, %error, "cannot resume the promotion of a match");
            }
        }
    }
}

/// Publishes the pause of a match, or ends it if it has been published for long enough.
async fn resume(app: &App, event: u32) -> Result<Promotion, FeedError> {
    let mut retry = Retry::immediate("match", 10);
    loop {
        let row = publish_match(app, event).await?;
        let Some(pause) = row.pause else {
            return Ok(Promotion { event_id: event, shards: row.shards, paused_until: None });
        };
        let now = app.clock.now();
        let published_at = app.store.note_published_pause(event, pause, now).await?;
        let end = end_of_pause(published_at, app.config.old_catalog_is_used_for());
        if now < end {
            return Ok(Promotion { event_id: event, shards: row.shards, paused_until: Some(end) });
        }
        // No prediction is stored now: every request sees a catalog with the pause until a later one is published, and
        // the writes of earlier requests have arrived.
        let has_predictions = app.store.has_predictions(event, row.shards).await?;
        if has_predictions {
            tracing::warn!(event, "the match got a prediction before the pause; it keeps its shards");
        }
        let next = row.after_pause(has_predictions, app.config.featured_shards);
        if replace(app, row, next).await? {
            let row = publish_match(app, event).await?;
            app.store.delete_published_pause(event, pause).await?;
            return Ok(Promotion { event_id: event, shards: row.shards, paused_until: None });
        }
        retry.again().await?;
    }
}

async fn stored(app: &App, event: u32) -> Result<Match, FeedError> {
    let row = app.store.catalog_rows::<Match>(&[event]).await?.remove(&event);
    row.ok_or(FeedError::UnknownEvent(event))
}

/// Replaces a match's row. Returns false if the row is no longer the one that was read.
async fn replace(app: &App, read: Match, row: Match) -> Result<bool, StoreError> {
    let written = app.store.put_rows(&[Replacement { row, read: Some(read) }]).await?;
    Ok(matches!(written.as_slice(), [Written::Now]))
}

/// Publishes the stored row of a match, and returns it.
async fn publish_match(app: &App, event: u32) -> Result<Match, FeedError> {
    // The row is read after the snapshot, so a snapshot never gets an older row than the snapshot before it.
    let base = Base::load(app).await?;
    let row = stored(app, event).await?;
    publish(app, base, Rows { events: BTreeMap::from([(event, row.clone())]), ..Rows::default() }).await?;
    Ok(row)
}
