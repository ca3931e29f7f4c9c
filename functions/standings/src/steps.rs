//! The steps of a build: collecting the rows of a group of users, and publishing a board from the rows of all groups.

use std::collections::BTreeMap;

use futures_util::stream::TryStreamExt as _;
use touchline::App;
use touchline::domain::standings::table::CorruptPart;
use touchline::domain::standings::{Board, Previous, Row};
use touchline::storage::standings::Build;
use touchline::storage::{Reads, StoreError};

use crate::statistics::{Group, each_user};

/// Reads the statistics of a group of users. Returns their rows in the order of each board, or `None` if there are more than
/// `limit` users.
pub async fn collect(
    app: &App,
    group: Group,
    boards: impl Iterator<Item = &Board>,
    limit: u32,
) -> Result<Option<BTreeMap<Board, Vec<Row>>>, StoreError> {
    let mut rows: BTreeMap<Board, Vec<Row>> = boards.map(|board| (*board, Vec::new())).collect();
    let mut users = 0;
    let is_complete = each_user(app, group, |user, tally| {
        users += 1;
        for (board, row) in tally.rows(user) {
            if let Some(rows) = rows.get_mut(&board) {
                rows.push(row);
            }
        }
        users <= limit
    })
    .await?;
    for rows in rows.values_mut() {
        rows.sort_unstable_by_key(|row| row.place);
    }
    Ok(is_complete.then_some(rows))
}

/// Publishes a board. `rows` are in its order, and `latest` is the latest time at which one of them reached its points. Returns
/// false if a later build was published.
pub async fn publish(
    app: &App,
    board: Board,
    build: Build,
    rows: impl Iterator<Item = Result<Row, CorruptPart>> + Send,
    latest: u32,
) -> Result<bool, StoreError> {
    let earlier = app.store.built_board(board, Reads::Consistent).await?;
    let mut previous = Previous::new(latest, earlier.as_ref().map_or(0, |earlier| earlier.head.latest));
    if let Some(earlier) = &earlier {
        let mut found = std::pin::pin!(app.store.row_groups(earlier));
        while let Some(group) = found.try_next().await? {
            for ranked in group {
                previous.add(ranked.row.place.user, ranked.rank, ranked.row.previous);
            }
        }
    }
    let rows = rows.map(|row| row.map(|row| Row { previous: previous.rank(row.place.user), ..row }));
    let latest = latest.max(earlier.map_or(0, |earlier| earlier.head.latest));
    let published = app.store.publish_rows(board, build, rows, (latest, None), app.clock.now()).await?;
    tracing::info!(%board, total = published, "built a board");
    Ok(published.is_some())
}
