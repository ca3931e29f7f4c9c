//! Settles one match. The shards of its predictions are settled concurrently. Each shard is read page by page,
//! and the points of a page are written in batches.
//!
//! A run can stop after any write, and a later run resumes the settlement. Several runs can settle the same
//! match concurrently. After a correction of the result, the match is settled again.

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt as _};
use serde::Serialize;
use touchline::App;
use touchline::domain::Prediction;
use touchline::domain::catalog::Match;
use touchline::domain::points::RULES;
use touchline::domain::prediction::SettledIn;
use touchline::storage::settlements::{Award, Due, Progress};
use touchline::storage::{Retry, StoreError};

use crate::pace::{Pace, Rate};

/// What a run did for one match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Settled {
    pub event_id: u32,
    /// The revision of the match's result.
    pub revision: u32,
    /// The number of predictions that this run and earlier runs settled for this revision.
    pub scored: u64,
    /// Whether all predictions have their points. If not, the next run continues.
    pub finished: bool,
}

/// The maximum number of concurrent batches for one shard. With one, a slow response would delay the next batch.
const CONCURRENT_BATCHES: usize = 2;

/// Awards the points for a match's current result. Stops at `until`. Returns `None` if the match is unknown.
pub async fn settle(
    app: &App,
    event: u32,
    restart: bool,
    until: DateTime<Utc>,
) -> Result<Option<Settled>, StoreError> {
    let Some(row) = app.store.catalog_rows::<Match>(&[event]).await?.remove(&event) else { return Ok(None) };
    let revision = row.revision;
    let mut settled = Settled { event_id: event, revision, scored: 0, finished: true };
    // At revision 0, the match never had a result. There are no points to award or to remove.
    if revision == 0 {
        return Ok(Some(settled));
    }
    if restart {
        // If this run does not finish, the next scheduled run finds this entry and resumes the settlement.
        let due = Due { event_id: event, revision, since: app.clock.now(), is_published: true };
        app.store.put_due(&due).await?;
    }
    let settlement =
        app.store.begin_settlement(event, revision, RULES.version, restart, app.clock.now()).await?;
    if settlement.revision > revision {
        // The result was corrected after we read it. Another run settles the correction.
        settled.finished = false;
        return Ok(Some(settled));
    }
    if settlement.is_done {
        settled.scored = settlement.settled();
        app.store.remove_due(event, revision).await?;
        return Ok(Some(settled));
    }
    let settled_in = SettledIn {
        tournament: row.tournament_id,
        kick_off: row.start,
        at: settlement.began_at.unwrap_or_else(|| app.clock.now()),
    };
    let counted = app.store.event_counts(event).await?.predictions;
    let rate = Rate::of(counted, app.config.points_per_second);
    // The compiler cannot infer the closure's lifetimes without `boxed` and `collect`.
    let shards: Vec<_> = (0..row.shards)
        .map(|shard| {
            let progress = settlement.progress.get(&shard).copied();
            let pace = Pace::of_shard(shard, row.shards, rate);
            settle_shard(app, &row, &settled_in, pace, shard, progress, until).boxed()
        })
        .collect();
    // A failed shard does not stop the others. The next run continues with the shards that are not done.
    let shards = join_all(shards).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    settled.scored = shards.iter().map(|shard| shard.settled).sum();
    settled.finished = shards.iter().all(|shard| shard.is_done);
    if settled.finished {
        settled.finished = app.store.end_settlement(event, revision, app.clock.now()).await?;
    }
    if settled.finished {
        app.store.remove_due(event, revision).await?;
    }
    Ok(Some(settled))
}

/// The progress of a run in one shard.
struct ShardResult {
    settled: u64,
    is_done: bool,
}

/// Settles one shard, continuing from the stored progress.
async fn settle_shard(
    app: &App,
    event: &Match,
    settled_in: &SettledIn,
    mut pace: Pace,
    shard: u8,
    progress: Option<Progress>,
    until: DateTime<Utc>,
) -> Result<ShardResult, StoreError> {
    let (mut last, mut settled) = match progress {
        Some(Progress::Done { settled }) => return Ok(ShardResult { settled, is_done: true }),
        Some(Progress::After { last, settled }) => (Some(last), settled),
        None => (None, 0),
    };
    loop {
        if app.clock.now() >= until {
            return Ok(ShardResult { settled, is_done: false });
        }
        let limit = pace.page();
        let (rows, is_done) = app.store.shard_page(event.id, shard, last, limit).await?;
        settled += rows.len() as u64;
        last = rows.last().map(|row| row.user_id).or(last);
        award(app, event, settled_in, rows, &mut pace).await?;
        let progress = match last {
            Some(last) if !is_done => Progress::After { last, settled },
            _ => Progress::Done { settled },
        };
        let is_current = app.store.save_progress(event.id, event.revision, shard, progress).await?;
        // `is_current` is false if the settlement of a corrected result has begun. This run then stops,
        // because the new settlement updates the points of all predictions.
        if is_done || !is_current {
            return Ok(ShardResult { settled, is_done });
        }
    }
}

/// Awards points to the predictions of one page.
pub async fn award(
    app: &App,
    event: &Match,
    settled_in: &SettledIn,
    rows: Vec<Prediction>,
    pace: &mut Pace,
) -> Result<(), StoreError> {
    let mut open = rows;
    // If the result arrives before kick-off, a user can change a prediction between our read and our write.
    // The points of the changed prediction are then calculated again.
    let mut retry = Retry::immediate("predictions of a match", 20);
    loop {
        let awards: Vec<Award> = open
            .drain(..)
            .filter(|row| row.revision < event.revision)
            .map(|row| Award {
                points: event
                    .result()
                    .filter(|_| !row.is_late(event))
                    .map(|result| RULES.points(&row.forecast, result)),
                row,
            })
            .collect();
        let batches: Vec<_> = awards
            .chunks(pace.batch())
            .map(|batch| {
                let turn = pace.turn(batch.len(), app.clock.now());
                async move {
                    let wait = (turn - app.clock.now()).to_std().unwrap_or_default();
                    tokio::time::sleep(wait).await;
                    app.store.award(event.shards, event.revision, settled_in, batch).await
                }
                .boxed()
            })
            .collect();
        let mut writing = stream::iter(batches).buffer_unordered(CONCURRENT_BATCHES);
        while let Some(changed) = writing.next().await {
            open.extend(changed?);
        }
        if open.is_empty() {
            return Ok(());
        }
        retry.again().await?;
    }
}
