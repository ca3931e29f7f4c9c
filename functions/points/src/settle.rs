//! Settles one match: shard by shard, page by page, in batches. Can be stopped after any write, run twice
//! at once, and run again under a corrected result.

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::App;
use touchline::domain::Prediction;
use touchline::domain::catalog::Match;
use touchline::domain::points::RULES;
use touchline::storage::settlements::{Award, Due, MAX_AWARDS, Progress};
use touchline::storage::{Retry, StoreError};

use crate::Settled;

/// How many shards are worked at once.
const SHARDS_AT_ONCE: usize = 8;

/// How many batches of one shard are written at once: a shard takes 1,000 writes a second.
const BATCHES_AT_ONCE: usize = 2;

/// How many rows are read, and then noted as done, at once.
const PAGE: usize = if cfg!(test) { 3 } else { 1_000 };

/// Brings a match's points to its result, as far as the time reaches. `None` where there is no such match.
pub async fn settle(
    app: &App,
    event: u32,
    again: bool,
    until: DateTime<Utc>,
) -> Result<Option<Settled>, StoreError> {
    let Some(row) = app.store.catalog_rows::<Match>(&[event]).await?.remove(&event) else { return Ok(None) };
    let revision = row.revision;
    let mut settled = Settled { event_id: event, revision, scored: 0, finished: true };
    // A match that never had a result has nothing to calculate and nothing to take back.
    if revision == 0 {
        return Ok(Some(settled));
    }
    if again {
        // So that the next run goes on, should this one not get to the end.
        let due = Due { event_id: event, revision, since: app.clock.now() };
        app.store.put_due(&due).await?;
    }
    let settlement = app.store.begin_settlement(event, revision, RULES.version, again).await?;
    if settlement.revision > revision {
        // The result was corrected between our look at it and now. Whoever settles that one goes on.
        settled.finished = false;
        return Ok(Some(settled));
    }
    if settlement.is_done {
        settled.scored = settlement.settled();
        app.store.remove_due(event, revision).await?;
        return Ok(Some(settled));
    }
    // Boxed and collected: the compiler cannot see through the closure otherwise.
    let shards: Vec<_> = (0..row.shards)
        .map(|shard| {
            let begun = settlement.progress.get(&shard).copied();
            settle_shard(app, &row, shard, begun, until).boxed()
        })
        .collect();
    let parts: Vec<Part> = stream::iter(shards).buffer_unordered(SHARDS_AT_ONCE).try_collect().await?;
    settled.scored = parts.iter().map(|part| part.settled).sum();
    settled.finished = parts.iter().all(|part| part.ended);
    if settled.finished {
        settled.finished = app.store.end_settlement(event, revision, app.clock.now()).await?;
    }
    if settled.finished {
        app.store.remove_due(event, revision).await?;
    }
    Ok(Some(settled))
}

/// How far a run got with a shard.
struct Part {
    settled: u64,
    ended: bool,
}

/// Goes through one shard from where it was left.
async fn settle_shard(
    app: &App,
    event: &Match,
    shard: u8,
    begun: Option<Progress>,
    until: DateTime<Utc>,
) -> Result<Part, StoreError> {
    let (mut last, mut settled) = match begun {
        Some(Progress::Done { settled }) => return Ok(Part { settled, ended: true }),
        Some(Progress::After { last, settled }) => (Some(last), settled),
        None => (None, 0),
    };
    loop {
        if app.clock.now() >= until {
            return Ok(Part { settled, ended: false });
        }
        let (rows, ended) = app.store.shard_page(event.id, shard, last, PAGE).await?;
        settled += rows.len() as u64;
        last = rows.last().map(|row| row.user_id).or(last);
        award(app, event, rows).await?;
        let progress = match last {
            Some(last) if !ended => Progress::After { last, settled },
            _ => Progress::Done { settled },
        };
        let still_ours = app.store.save_progress(event.id, event.revision, shard, progress).await?;
        // Overtaken by a correction: its settlement goes through all rows anyway.
        if ended || !still_ours {
            return Ok(Part { settled, ended });
        }
    }
}

/// Writes the points of a page.
async fn award(app: &App, event: &Match, rows: Vec<Prediction>) -> Result<(), StoreError> {
    let mut open = rows;
    // A row that its user changed between our look at it and our write is calculated again. That can
    // happen only where a result comes before kick-off.
    let mut retry = Retry::immediate("predictions of a match", 20);
    loop {
        let awards: Vec<Award> = open
            .drain(..)
            .filter(|row| row.revision < event.revision)
            .map(|row| Award {
                points: event.result().map(|result| RULES.points(&row.forecast, result)),
                row,
            })
            .collect();
        let batches: Vec<_> = awards
            .chunks(MAX_AWARDS)
            .map(|batch| app.store.award(event.shards, event.revision, batch).boxed())
            .collect();
        let mut writing = stream::iter(batches).buffer_unordered(BATCHES_AT_ONCE);
        while let Some(changed) = writing.next().await {
            open.extend(changed?);
        }
        if open.is_empty() {
            return Ok(());
        }
        retry.again().await?;
    }
}
