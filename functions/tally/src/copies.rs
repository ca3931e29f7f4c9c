//! Copies changed data into memberships and into the room directory.
//!
//! A membership has copies of the member's team, of their prediction for the room's match, and of how many of
//! their predictions were correct. With these copies, the members of a room can be counted and ranked.
//!
//! A join and a change of the copied data can be processed in any order. A join looks up the user's current
//! data, and a change looks up the user's memberships, so the later of the two writes the copy. Sometimes
//! both write it. This is safe, because each copy has a version, and an older version never overwrites a newer
//! version.
//!
//! A change finds the memberships through an index, which lags behind the table. So a join waits until the index shows
//! the membership, before it looks up the data. A change after that look-up then finds the membership. One gap remains:
//! DynamoDB may answer a later query of the index from an older copy.

use std::time::Duration;

use futures_util::future::{join, try_join3};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::App;
use touchline::domain::catalog::Match;
use touchline::domain::room::{Day, Member};
use touchline::domain::{Prediction, UserId};
use touchline::storage::directory::RoomChange;
use touchline::storage::keys::Key;
use touchline::storage::stream::{Change, Record};
use touchline::storage::tallies::VersionedStats;
use touchline::storage::users::ChosenTeam;
use touchline::storage::{Reads, Retry, StoreError};

/// The maximum number of changes that are copied concurrently.
pub const CONCURRENT_WRITES: usize = 16;

/// The maximum number of concurrent writes to one user's memberships. It is small, because each write needs a
/// connection, and up to `CONCURRENT_WRITES` users are processed concurrently.
const CONCURRENT_MEMBERSHIPS: usize = 4;

/// Copies the changes of all records. Returns the index of the first record that failed.
pub async fn copy_changes(app: &App, records: &[Record]) -> Option<usize> {
    // The compiler cannot infer the closure's lifetimes without `collect`.
    let copies: Vec<_> = records
        .iter()
        .enumerate()
        .map(|(index, record)| async move {
            let copied = copy_change(app, &record.change).await;
            copied.err().map(|error| {
                tracing::warn!(%error, "cannot copy a change; its record will be redelivered");
                index
            })
        })
        .collect();
    let copies = stream::iter(copies).buffer_unordered(CONCURRENT_WRITES).collect();
    let (failed, failed_room): (Vec<Option<usize>>, _) = join(copies, copy_rooms(app, records)).await;
    failed.into_iter().flatten().chain(failed_room).min()
}

/// Copies all changes of rooms into the room directory in one step, because a batch can have hundreds of new
/// rooms. If the step fails, returns the index of the first record with a change of a room.
async fn copy_rooms(app: &App, records: &[Record]) -> Option<usize> {
    let (mut first, mut changes) = (None, Vec::new());
    for (index, record) in records.iter().enumerate() {
        if let Change::Room { old, new } = &record.change {
            first.get_or_insert(index);
            changes.push(RoomChange { old: old.as_ref(), new: new.as_ref() });
        }
    }
    let error = app.store.update_directories(&changes).await.err()?;
    tracing::warn!(%error, "cannot update the room directory; the records will be redelivered");
    first
}

async fn copy_change(app: &App, change: &Change) -> Result<(), StoreError> {
    match change {
        Change::Prediction { old, new: Some(new), .. } => {
            let version = |row: &Prediction| (row.edits, row.revision);
            // Only an edit or new points change the version. After new points, the unchanged pick is copied
            // again, because the first copy may have missed a membership: the index of memberships lags behind
            // joins.
            if old.as_ref().is_some_and(|old| version(old) == version(new)) {
                return Ok(());
            }
            let is_edit = old.as_ref().is_none_or(|old| old.edits != new.edits);
            copy_prediction(app, new, is_edit).await
        }
        Change::Member { key, old, new: Some(new), .. }
            if new.has_joined() && !old.as_ref().is_some_and(Member::has_joined) =>
        {
            fill_membership(app, key, new).await
        }
        Change::UserStats { user, stats } => copy_stats(app, *user, stats).await,
        Change::Team { user, chosen } => copy_team(app, *user, *chosen).await,
        // `copy_rooms` copies the changes of rooms.
        Change::Prediction { .. } | Change::Member { .. } | Change::Room { .. } | Change::Other => Ok(()),
    }
}

/// Copies a prediction to the user's memberships in rooms about its match. An edit by the user, unlike new
/// points, also counts as activity.
async fn copy_prediction(app: &App, row: &Prediction, is_edit: bool) -> Result<(), StoreError> {
    for membership in app.store.membership_keys(row.user_id, Some(row.event_id)).await? {
        app.store.copy_pick(membership.clone(), row).await?;
        if let Some(time) = row.changed.time().filter(|_| is_edit) {
            app.store.touch_seen(membership, Day::of(time)).await?;
        }
    }
    Ok(())
}

async fn copy_stats(app: &App, user: UserId, stats: &VersionedStats) -> Result<(), StoreError> {
    let memberships = stream::iter(app.store.membership_keys(user, None).await?);
    let writes = memberships.map(|membership| app.store.copy_stats(membership, stats));
    writes.buffer_unordered(CONCURRENT_MEMBERSHIPS).try_collect().await
}

async fn copy_team(app: &App, user: UserId, chosen: ChosenTeam) -> Result<(), StoreError> {
    let memberships = stream::iter(app.store.membership_keys(user, None).await?);
    let writes = memberships.map(|membership| app.store.copy_team(membership, chosen.team, chosen.at));
    writes.buffer_unordered(CONCURRENT_MEMBERSHIPS).try_collect().await
}

/// Copies the user's earlier prediction, team and statistics into a new membership.
async fn fill_membership(app: &App, membership: &Key, member: &Member) -> Result<(), StoreError> {
    let user = member.user_id;
    let mut retry = Retry::doubling("index of memberships", 6, Duration::from_millis(20));
    while !app.store.is_indexed(member).await? {
        retry.again().await?;
    }
    let (row, chosen, stats) =
        try_join3(prediction(app, member), app.store.chosen_team(user), app.store.versioned_stats(user))
            .await?;
    if let Some(row) = row {
        app.store.copy_pick(membership.clone(), &row).await?;
    }
    if let Some(chosen) = chosen {
        app.store.copy_team(membership.clone(), chosen.team, chosen.at).await?;
    }
    if let Some(stats) = stats {
        app.store.copy_stats(membership.clone(), &stats).await?;
    }
    Ok(())
}

/// Reads the member's prediction for the room's match.
async fn prediction(app: &App, member: &Member) -> Result<Option<Prediction>, StoreError> {
    let Some(event) = member.event_id else { return Ok(None) };
    // Reads the match from the table: the cached catalog may not have a new match yet.
    let Some(event) = app.store.catalog_rows::<Match>(&[event]).await?.remove(&event) else {
        return Ok(None);
    };
    app.store.prediction(event.id, event.shards, member.user_id, Reads::Consistent).await
}
