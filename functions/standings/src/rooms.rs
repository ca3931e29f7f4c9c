//! Builds the tables of large rooms, which readers have queued.

use chrono::{DateTime, Utc};
use touchline::App;
use touchline::flows::room_table;
use touchline::storage::StoreError;

/// Builds the queued tables. Begins none after `last_start`: the others stay in their queue.
pub async fn build(app: &App, last_start: DateTime<Utc>) -> Result<usize, StoreError> {
    let mut built = 0;
    for queued in app.store.queued_rooms().await? {
        if app.clock.now() > last_start {
            break;
        }
        if !app.store.unqueue_room(&queued).await? {
            continue;
        }
        // A room whose table cannot be built must not stop the others. A later reader queues it again.
        match room_table::build_queued(app, &queued).await {
            Ok(is_built) => built += usize::from(is_built),
            Err(error) => tracing::error!(%error, "cannot build the table of a room"),
        }
    }
    Ok(built)
}
