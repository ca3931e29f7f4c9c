//! Reads the statistics of all users, and publishes boards.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::App;
use touchline::domain::UserId;
use touchline::domain::standings::table::Table;
use touchline::domain::standings::{Board, Row, UserTally};
use touchline::storage::keys::STATS_SHARDS;
use touchline::storage::{Reads, StoreError};

/// The number of shards of the statistics that are read concurrently.
const CONCURRENT_SHARDS: usize = 8;

/// Builds and publishes boards. Leaves out those that have closed. Returns the boards that were published.
pub async fn build(app: &App, boards: &BTreeSet<Board>) -> Result<BTreeSet<Board>, StoreError> {
    let now = app.clock.now();
    // After that, the counters are removed, and a build would lack users.
    let is_built = |board: &&Board| !board.is_closed(now - UserTally::BUILT_AFTER_CLOSE);
    let mut builds = BTreeMap::new();
    for board in boards.iter().filter(is_built) {
        // The number is drawn before the statistics are read: of two builds at the same time, the one with the higher number
        // has the later statistics.
        builds.insert(*board, app.store.begin_build(*board, now).await?);
    }
    if builds.is_empty() {
        return Ok(BTreeSet::new());
    }
    let mut rows: BTreeMap<Board, Vec<Row>> = builds.keys().map(|board| (*board, Vec::new())).collect();
    each_user(app, |user, tally| {
        for (board, row) in tally.rows(user) {
            if let Some(rows) = rows.get_mut(&board) {
                rows.push(row);
            }
        }
    })
    .await?;
    let mut published = BTreeSet::new();
    for (board, rows) in rows {
        let mut table = Table::new(rows);
        if let Some(earlier) = app.store.built_board(board, Reads::Consistent).await? {
            let before = app.store.board_rows(&earlier).await?;
            table.compare_with(before.into_iter(), earlier.head.latest);
        }
        let total = table.head().total;
        if app.store.publish_board(board, builds[&board], &table, app.clock.now()).await? {
            published.insert(board);
        }
        tracing::info!(%board, total, "built a board");
    }
    Ok(published)
}

/// Returns all boards that are open and have users.
pub async fn open_boards(app: &App) -> Result<BTreeSet<Board>, StoreError> {
    let now = app.clock.now();
    let mut boards = BTreeSet::new();
    each_user(app, |user, tally| {
        boards.extend(tally.rows(user).map(|(board, _)| board).filter(|board| !board.is_closed(now)));
    })
    .await?;
    Ok(boards)
}

/// Passes the counters of all users to `add`.
async fn each_user(app: &App, mut add: impl FnMut(UserId, &UserTally)) -> Result<(), StoreError> {
    let shards = stream::iter(0..STATS_SHARDS).map(|shard| {
        stream::try_unfold(Some(None), move |from| async move {
            let Some(from) = from else { return Ok::<_, StoreError>(None) };
            let (users, next) = app.store.ranked_page(shard, from).await?;
            Ok(Some((users, next.map(Some))))
        })
        .boxed()
    });
    let mut pages = shards.flatten_unordered(CONCURRENT_SHARDS);
    while let Some(users) = pages.try_next().await? {
        for (user, tally) in &users {
            add(*user, tally);
        }
    }
    Ok(())
}
