//! Builds the boards whose rows have changed.
//!
//! `tally` adds the points of a settlement to the statistics of each user, and queues the boards that have changed. A scheduled
//! run of this function reads the statistics of all users, sorts them and publishes these boards. A user's points are written
//! once for all boards, and a board of ten million users is written in 70,000 items instead of ten million. With many users, a
//! run calls workers, which are further executions of this function.
//!
//! While a match is being settled, the run waits for the end of the settlement: a board that is built halfway would show ranks
//! that no user has.
//!
//! The tables of large rooms are built here, too, after somebody has read them. Small ones are built by the reader.
//!
//! A run can stop at any point. Boards stay in the queue until they are published, so the next run builds them again.

mod build;
mod error;
mod rooms;
mod statistics;
mod steps;
#[cfg(test)]
mod tests;
mod workers;

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::try_join;
use serde::Deserialize;
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::room::RoomId;
use touchline::domain::standings::{Board, Period};
use touchline::flows::room_table;
use touchline::storage::StoreError;
use touchline::storage::room_tables::QueuedRoom;

use crate::build::Builder;
pub use crate::build::Limits;
pub use crate::error::StandingsError;
use crate::workers::{InProcess, Invocations, Task, Workers};

/// The payload of a run: `{}` builds the boards that have changed, `{"rebuild": true}` builds all boards that are open, and
/// `{"room": "!abc:example.org"}` builds the table of a room. A worker gets a [`Task`] instead.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    #[serde(default)]
    rebuild: bool,
    room: Option<RoomId>,
}

/// Boards that were queued earlier are built even while a match is being settled. A settlement whose writes fail does not end.
const LONGEST_WAIT: TimeDelta = TimeDelta::minutes(10);

/// How often a run polls the queue, and the pause between two polls. Together less than a minute: then the next run begins.
const POLLS: u32 = 16;
const PAUSE: Duration = Duration::from_secs(3);

/// How often a run polls the queue after a settlement has ended. The streams deliver its points within some seconds.
const POLLS_AFTER_SETTLEMENT: u32 = 5;

/// A run starts no build during this time before its deadline.
const RESERVE: TimeDelta = TimeDelta::seconds(100);

/// After this time for the tables of rooms and the closing of boards, a run begins no more of them.
const TIME_FOR_THE_REST: TimeDelta = TimeDelta::seconds(30);

/// Handles one invocation in one process, however many users there are. Lambda stops it at `deadline`. A run that is stopped
/// changes nothing that readers see.
pub async fn handle(app: App, event: Value, deadline: DateTime<Utc>) -> Result<Value, StandingsError> {
    handle_with_limits(app, event, deadline, Limits::DEFAULT).await
}

/// Handles one invocation in Lambda. With many users, this invokes further executions of the function.
pub async fn handle_in_lambda(
    app: App,
    event: Value,
    deadline: DateTime<Utc>,
) -> Result<Value, StandingsError> {
    let workers = Invocations::new(app.clone(), deadline);
    handle_with(&app, event, deadline, workers, Limits::DEFAULT).await
}

/// Handles one invocation in one process, with the given limits. The simulation has few users and sets low limits, so that it
/// also tests builds by workers.
pub async fn handle_with_limits(
    app: App,
    event: Value,
    deadline: DateTime<Utc>,
    limits: Limits,
) -> Result<Value, StandingsError> {
    let workers = InProcess(app.clone());
    handle_with(&app, event, deadline, workers, limits).await
}

async fn handle_with(
    app: &App,
    event: Value,
    deadline: DateTime<Utc>,
    workers: impl Workers,
    limits: Limits,
) -> Result<Value, StandingsError> {
    if let Ok(task) = serde_json::from_value::<Task>(event.clone()) {
        return workers::work(app, task).await;
    }
    let payload: Payload =
        serde_json::from_value(event).map_err(|error| StandingsError::InvalidPayload(error.to_string()))?;
    let builder = Builder { app, workers, limits, deadline };
    if payload.rebuild {
        let boards = builder.open_boards().await?;
        app.store.queue_boards(&boards, "rebuild", app.clock.now()).await?;
    }
    if let Some(room) = payload.room {
        let queued = QueuedRoom { room, period: Period::All };
        if !room_table::build_queued(app, &queued).await? {
            return Err(StandingsError::NoTable);
        }
    }
    let mut built = BTreeSet::new();
    let mut polls_left = 0;
    for poll in 0..POLLS {
        if poll > 0 {
            tokio::time::sleep(PAUSE).await;
        }
        let now = app.clock.now();
        if now + RESERVE > deadline {
            break;
        }
        let (queues, is_settling) = try_join(app.store.queued_boards(), is_settling(app)).await?;
        let is_late = queues.iter().any(|queue| queue.since + LONGEST_WAIT < now);
        if is_settling {
            polls_left = POLLS_AFTER_SETTLEMENT;
        }
        if !queues.is_empty() && (!is_settling || is_late) {
            let boards: BTreeSet<Board> =
                queues.iter().flat_map(|queue| queue.boards.iter().copied()).collect();
            let Some(published) = builder.build(&boards).await? else { break };
            built.extend(published);
            for queue in &queues {
                app.store.unqueue_boards(queue).await?;
            }
            if is_settling {
                // The settlement goes on, and more points follow. The next run builds them.
                break;
            }
        } else if polls_left == 0 {
            break;
        }
        polls_left = polls_left.saturating_sub(1);
    }
    let last_start = (app.clock.now() + TIME_FOR_THE_REST).min(deadline - RESERVE);
    let rooms_built = rooms::build(app, last_start).await?;
    close_boards(app, last_start).await?;
    Ok(json!({ "boards": built.iter().map(Board::to_string).collect::<Vec<_>>(), "rooms": rooms_built }))
}

/// Stores the rows of closed boards by user. A board that fails must not stop the other work: the next run closes it.
async fn close_boards(app: &App, last_start: DateTime<Utc>) -> Result<(), StoreError> {
    for board in app.store.boards_to_close(app.clock.now()).await? {
        if app.clock.now() > last_start {
            break;
        }
        match app.store.close_board(board).await {
            Ok(()) => tracing::info!(%board, "stored the rows of a closed board by user"),
            Err(error) => tracing::error!(%board, %error, "cannot store the rows of a closed board by user"),
        }
    }
    Ok(())
}

/// Returns whether a match is being settled: its settlement has begun and has not ended.
async fn is_settling(app: &App) -> Result<bool, StoreError> {
    for due in app.store.due().await? {
        let settlement = app.store.settlement(due.event_id).await?;
        if settlement.is_some_and(|settlement| !settlement.is_done) {
            return Ok(true);
        }
    }
    Ok(false)
}
