//! Notes with each member of a room what they predict for its match, so that a room's predictions can be
//! counted like anything else.
//!
//! Either may come first, the prediction or the joining. Whichever change is looked at later sees the other:
//! a prediction looks for its user's rooms, a joining for the user's prediction. Versions keep an older
//! prediction from taking the place of a newer one, so that both may do it, and any number of times.

use futures_util::stream::{self, StreamExt as _};
use touchline::App;
use touchline::domain::Prediction;
use touchline::domain::catalog::Match;
use touchline::domain::room::Member;
use touchline::storage::keys::Key;
use touchline::storage::stream::{Change, Record};
use touchline::storage::{Reads, StoreError};

use crate::AT_ONCE;

/// Returns the place of the first record for which it failed.
pub async fn note(app: &App, records: &[Record]) -> Option<usize> {
    // Collected: the compiler cannot see through the closure otherwise.
    let noting: Vec<_> = records
        .iter()
        .enumerate()
        .map(|(at, record)| async move {
            let noted = match &record.change {
                Change::Prediction { old, new: Some(new) }
                    // With its points once more: the index of rooms may have lagged behind a joining.
                    if old.as_ref().is_none_or(|old| (old.edits, old.revision) != (new.edits, new.revision)) =>
                {
                    predicted(app, new).await
                }
                Change::Member { key, old, new: Some(new) }
                    if new.has_joined() && !old.as_ref().is_some_and(Member::has_joined) =>
                {
                    joined(app, key, new).await
                }
                _ => Ok(()),
            };
            noted.err().map(|error| {
                tracing::warn!(%error, "a pick could not be noted; its change comes again");
                at
            })
        })
        .collect();
    let failed: Vec<Option<usize>> = stream::iter(noting).buffer_unordered(AT_ONCE).collect().await;
    failed.into_iter().flatten().min()
}

async fn predicted(app: &App, row: &Prediction) -> Result<(), StoreError> {
    for place in app.store.joined_rooms(row.user_id, row.event_id).await? {
        app.store.note_pick(place, row).await?;
    }
    Ok(())
}

async fn joined(app: &App, place: &Key, member: &Member) -> Result<(), StoreError> {
    let Some(event) = member.event_id else { return Ok(()) };
    // From the row itself: a copy of the catalogue may not know it yet.
    let Some(event) = app.store.catalog_rows::<Match>(&[event]).await?.remove(&event) else { return Ok(()) };
    let row = app.store.prediction(event.id, event.shards, member.user_id, Reads::Consistent).await?;
    match row {
        Some(row) => app.store.note_pick(place.clone(), &row).await,
        None => Ok(()),
    }
}
