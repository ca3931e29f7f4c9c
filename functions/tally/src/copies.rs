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
//!
//! A record copies its change into a limited number of memberships. If the user has more, the record stores how far it
//! came, and the stream record of that item continues (see `storage/copying.rs`). Each step reads the user's current data.
//! The steps find the memberships that the index showed at the time of the change: each step reads the index later, and the
//! steps together read all room ids. A step can be repeated, and steps can run concurrently: the versions of the copies
//! make that safe, and only one of the steps moves the stored progress.

#[cfg(test)]
mod tests;

use std::time::Duration;

use futures_util::future::{join, try_join3};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::App;
use touchline::domain::catalog::Match;
use touchline::domain::copying::{Copied, CopyProgress};
use touchline::domain::limit::request_id;
use touchline::domain::room::{Day, Member, RoomId};
use touchline::domain::{Prediction, UserId};
use touchline::storage::copying::Copying;
use touchline::storage::directory::RoomChange;
use touchline::storage::keys::Key;
use touchline::storage::members::UserMembership;
use touchline::storage::stream::{Change, Record};
use touchline::storage::tallies::VersionedStats;
use touchline::storage::users::ChosenTeam;
use touchline::storage::{Reads, Retry, StoreError};

use crate::failures::Failure;
use crate::limits::{CONCURRENT_WRITES, TimeLimit};

/// The maximum number of concurrent writes to one user's memberships. It is small, because each write needs a
/// connection, and up to `CONCURRENT_WRITES` users are processed concurrently.
const CONCURRENT_MEMBERSHIPS: usize = 4;

/// A prediction is copied only into the rooms about its match. So its record reads this many times the memberships that it
/// may write to.
const READ_PER_WRITTEN: usize = 10;

/// Copies the changes of all records. Returns the records that failed.
pub async fn copy_changes(time: &TimeLimit<'_>, records: &[Record]) -> Vec<Failure> {
    let app = time.app;
    // The compiler cannot infer the closure's lifetimes without `collect`.
    let copies: Vec<_> = records
        .iter()
        .enumerate()
        .map(|(index, record)| async move {
            if !time.admits(index) {
                return Some(Failure::no_time(index));
            }
            let error = copy_change(app, record).await.err()?;
            tracing::warn!(%error, "cannot copy a change");
            Some(Failure::new(index, &error))
        })
        .collect();
    let copies = stream::iter(copies).buffer_unordered(CONCURRENT_WRITES).collect();
    let (failed, failed_rooms): (Vec<Option<Failure>>, _) = join(copies, copy_rooms(time, records)).await;
    failed.into_iter().flatten().chain(failed_rooms).collect()
}

/// Copies all changes of rooms into the room directory in one step, because a batch can have hundreds of new
/// rooms. If the step fails, returns the records with a change of a room.
async fn copy_rooms(time: &TimeLimit<'_>, records: &[Record]) -> Vec<Failure> {
    let (mut indexes, mut changes) = (Vec::new(), Vec::new());
    for (index, record) in records.iter().enumerate() {
        if let Change::Room { old, new } = &record.change {
            indexes.push(index);
            changes.push(RoomChange { old: old.as_ref(), new: new.as_ref() });
        }
    }
    if indexes.first().is_some_and(|first| !time.admits(*first)) {
        return indexes.into_iter().map(Failure::no_time).collect();
    }
    let store = &time.app.store;
    let Err(error) = store.update_directories(&changes).await else { return Vec::new() };
    tracing::warn!(%error, "cannot update the room directory");
    if !error.is_permanent() || changes.len() == 1 {
        return indexes.into_iter().map(|index| Failure::new(index, &error)).collect();
    }
    // One of the rooms causes the error. Copy them one by one, so that only this one fails.
    let mut failures = Vec::new();
    for (index, change) in indexes.into_iter().zip(changes) {
        if !time.admits(index) {
            failures.push(Failure::no_time(index));
        } else if let Err(error) = store.update_directories(&[change]).await {
            failures.push(Failure::new(index, &error));
        }
    }
    failures
}

async fn copy_change(app: &App, record: &Record) -> Result<(), StoreError> {
    match &record.change {
        Change::Prediction { old, new: Some(new), .. } => {
            let version = |row: &Prediction| (row.edits, row.revision);
            // Only an edit or new points change the version. After new points, the unchanged pick is copied
            // again, because the first copy may have missed a membership: the index of memberships lags behind
            // joins.
            if old.as_ref().is_some_and(|old| version(old) == version(new)) {
                return Ok(());
            }
            let is_edit = old.as_ref().is_none_or(|old| old.edits != new.edits);
            copy(app, new.user_id, Data::Prediction { row: new, is_edit }).await
        }
        Change::Member { old, new: Some(new), .. }
            if new.has_joined() && !old.as_ref().is_some_and(Member::has_joined) =>
        {
            fill_membership(app, &record.key, new).await
        }
        Change::UserStats { user, stats, is_counted: true, .. } => copy(app, *user, Data::Stats(stats)).await,
        Change::Team { user, chosen } => copy(app, *user, Data::Team(*chosen)).await,
        Change::Copying(copying) => continue_copying(app, copying).await,
        // `copy_rooms` copies the changes of rooms.
        Change::Prediction { .. }
        | Change::Member { .. }
        | Change::UserStats { .. }
        | Change::Room { .. }
        | Change::Marker { .. }
        | Change::Part(_)
        | Change::SessionEnded { .. }
        | Change::Cleanup(_)
        | Change::Message { .. }
        | Change::Code { .. }
        | Change::Other => Ok(()),
    }
}

/// Data of a user, to be copied into the user's memberships.
#[derive(Debug, Clone, Copy)]
enum Data<'a> {
    Team(ChosenTeam),
    Stats(&'a VersionedStats),
    /// An edit by the user, unlike new points, also counts as activity.
    Prediction {
        row: &'a Prediction,
        is_edit: bool,
    },
}

impl Data<'_> {
    fn kind(&self) -> Copied {
        match self {
            Self::Team(_) => Copied::Team,
            Self::Stats(_) => Copied::Stats,
            Self::Prediction { row, .. } => Copied::Prediction { event: row.event_id },
        }
    }

    /// Returns whether the data is copied into this membership. The index may still show an invitation or an earlier leave
    /// of a user who has joined, so invited and former members count as well.
    fn is_for(&self, membership: &UserMembership) -> bool {
        match self {
            Self::Team(_) | Self::Stats(_) => true,
            Self::Prediction { row, .. } => membership.event_id == Some(row.event_id),
        }
    }

    async fn write(&self, app: &App, membership: Key) -> Result<(), StoreError> {
        match self {
            Self::Team(chosen) => app.store.copy_team(membership, chosen.team, chosen.at).await,
            Self::Stats(stats) => app.store.copy_stats(membership, stats).await,
            Self::Prediction { row, is_edit } => {
                app.store.copy_pick(membership.clone(), row).await?;
                match row.changed.time().filter(|_| *is_edit) {
                    Some(time) => app.store.touch_seen(membership, Day::of(time)).await,
                    None => Ok(()),
                }
            }
        }
    }
}

/// Copies data into the first memberships of a user. If the user has more, the stream record of the stored progress
/// continues.
async fn copy(app: &App, user: UserId, data: Data<'_>) -> Result<(), StoreError> {
    let Some(left) = copy_step(app, user, data, &CopyProgress::START).await? else { return Ok(()) };
    let now = app.clock.now();
    let round = request_id(now, app.random.number());
    app.store.begin_copying(user, data.kind(), left.after.as_ref(), &round, now).await
}

/// Copies the current data of a user into the next memberships, unless the copy has changed since this record: then a later
/// record continues it.
async fn continue_copying(app: &App, copying: &Copying) -> Result<(), StoreError> {
    let Copying { user, what, progress, .. } = copying;
    if app.store.copying(*user, *what).await?.as_ref() != Some(copying) {
        return Ok(());
    }
    let left = match what {
        Copied::Team => match app.store.chosen_team(*user).await? {
            Some(chosen) => copy_step(app, *user, Data::Team(chosen), progress).await?,
            None => None,
        },
        Copied::Stats => match app.store.versioned_stats(*user).await? {
            Some(stats) => copy_step(app, *user, Data::Stats(&stats), progress).await?,
            None => None,
        },
        Copied::Prediction { event } => match prediction(app, *user, Some(*event)).await? {
            // The record does not say whether an edit is copied. To count an edit as activity again has no effect.
            Some(row) => {
                copy_step(app, *user, Data::Prediction { row: &row, is_edit: true }, progress).await?
            }
            None => None,
        },
    };
    app.store.continue_copying(copying, left.as_ref(), app.clock.now()).await
}

/// Copies data into the memberships that follow, up to the limit of one record. Returns what is left.
async fn copy_step(
    app: &App,
    user: UserId,
    data: Data<'_>,
    progress: &CopyProgress,
) -> Result<Option<CopyProgress>, StoreError> {
    let most_written = app.config.memberships_per_record;
    let most_read = match data {
        Data::Team(_) | Data::Stats(_) => most_written,
        Data::Prediction { .. } => most_written * READ_PER_WRITTEN,
    };
    // One more shows whether others follow.
    let page = app.store.memberships_page(user, progress.after.as_ref(), most_read + 1).await?;
    let mut written = 0;
    let fits = |membership: &&UserMembership| {
        written += usize::from(data.is_for(membership));
        written <= most_written
    };
    let found: Vec<&UserMembership> = page.rows.iter().take(most_read).take_while(fits).collect();
    let is_last = page.is_last && found.len() == page.rows.len();
    let rooms: Vec<&RoomId> = found.iter().map(|membership| &membership.room_id).collect();
    let (count, left) = progress.next_step(&rooms, is_last);
    let memberships = found[..count].iter().filter(|membership| data.is_for(membership));
    // The compiler cannot infer the closure's lifetimes without `collect`.
    let writes: Vec<_> = memberships.map(|membership| data.write(app, membership.key())).collect();
    stream::iter(writes).buffer_unordered(CONCURRENT_MEMBERSHIPS).try_collect::<()>().await?;
    Ok(left)
}

/// Copies the user's earlier prediction, team and statistics into a new membership.
async fn fill_membership(app: &App, membership: &Key, member: &Member) -> Result<(), StoreError> {
    let user = member.user_id;
    let mut retry = Retry::doubling("index of memberships", 6, Duration::from_millis(20));
    while !app.store.is_indexed(member).await? {
        retry.again().await?;
    }
    let (row, chosen, stats) = try_join3(
        prediction(app, user, member.event_id),
        app.store.chosen_team(user),
        app.store.versioned_stats(user),
    )
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

/// Reads a user's prediction for a match.
async fn prediction(app: &App, user: UserId, event: Option<u32>) -> Result<Option<Prediction>, StoreError> {
    let Some(event) = event else { return Ok(None) };
    // Reads the match from the table: the cached catalog may not have a new match yet.
    let Some(event) = app.store.catalog_rows::<Match>(&[event]).await?.remove(&event) else {
        return Ok(None);
    };
    app.store.prediction(event.id, event.shards, user, Reads::Consistent).await
}
