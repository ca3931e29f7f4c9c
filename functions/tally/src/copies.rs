//! Copies changed data into memberships and into the room directory.
//!
//! A membership has copies of the member's team, of their prediction for the room's match, and of how many of
//! their predictions were correct. With these copies, the members of a room can be counted and ranked.
//!
//! All changes of a user in a batch are copied together, in one pass over the user's memberships. So a user who changes
//! something many times in a second causes one copy, of the newest data. A pass can be repeated: each copy has a version, and an
//! older version never overwrites a newer version. After a crash, the redelivered records begin the pass again.
//!
//! A join and a change of the copied data can be processed in any order. A join looks up the user's current
//! data, and a change looks up the user's memberships, so the later of the two writes the copy. Sometimes
//! both write it.
//!
//! A change finds the memberships through an index, which lags behind the table. So a join waits until the index shows
//! the membership, before it looks up the data. A change after that look-up then finds the membership. One gap remains:
//! DynamoDB may answer a later query of the index from an older copy.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{join, try_join3};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::App;
use touchline::domain::catalog::Match;
use touchline::domain::room::{Day, Member, RoomId};
use touchline::domain::{Prediction, UserId};
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

/// The maximum number of memberships that get a change, so that a pass ends well before the timeout of the function. A user
/// has fewer: by default 1,000 joined rooms, 200 open invitations, and what has ended within a month. Only in a Matrix client can
/// a user join more rooms. The memberships beyond the limit keep their older copies.
const MAX_MEMBERSHIPS: usize = if cfg!(test) { 100 } else { 10_000 };

/// Copies the changes of all records. Returns the records that failed.
pub async fn copy_changes(time: &TimeLimit<'_>, records: &[Record]) -> Vec<Failure> {
    let copies = copy(time, Copies::of(records));
    let (failed, failed_rooms) = join(copies, copy_rooms(time, records)).await;
    failed.into_iter().chain(failed_rooms).collect()
}

async fn copy(time: &TimeLimit<'_>, Copies { users, joins }: Copies<'_>) -> Vec<Failure> {
    let users = users.into_iter().map(|(user, (indexes, changes))| (indexes, Work::Changes(user, changes)));
    let joins = joins.into_values().map(|(indexes, key, member)| (indexes, Work::Join(key, member)));
    // In the order of the batch, as `write` in `lib.rs` does: so a batch that runs out of time gets further each time.
    let mut work: Vec<(Vec<usize>, Work<'_>)> = users.chain(joins).collect();
    work.sort_by_key(|(indexes, _)| indexes.first().copied());
    // The compiler cannot infer the closure's lifetimes without `collect`.
    let work: Vec<_> = work
        .into_iter()
        .map(|(indexes, work)| async move {
            if indexes.first().is_some_and(|first| !time.admits(*first)) {
                return indexes.into_iter().map(Failure::no_time).collect();
            }
            let Err(error) = work.run(time.app).await else { return Vec::new() };
            tracing::warn!(%error, "cannot copy a change");
            indexes.into_iter().map(|index| Failure::new(index, &error)).collect()
        })
        .collect();
    let failed: Vec<Vec<Failure>> = stream::iter(work).buffer_unordered(CONCURRENT_WRITES).collect().await;
    failed.into_iter().flatten().collect()
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

/// What a batch copies into memberships, with the indexes of the records that cause it.
#[derive(Debug, Default)]
struct Copies<'a> {
    users: BTreeMap<UserId, (Vec<usize>, Changes<'a>)>,
    joins: BTreeMap<(UserId, &'a RoomId), (Vec<usize>, &'a Key, &'a Member)>,
}

/// A part of this that succeeds or fails as a whole.
#[derive(Debug)]
enum Work<'a> {
    /// Changes of a user, for all memberships of the user.
    Changes(UserId, Changes<'a>),
    /// All data of a user, for a new membership.
    Join(&'a Key, &'a Member),
}

/// The newest data of a user in a batch, as far as it has changed.
#[derive(Debug, Default)]
struct Changes<'a> {
    team: Option<ChosenTeam>,
    stats: Option<&'a VersionedStats>,
    /// The predictions by match, and whether the user has edited them. An edit, unlike new points, also counts as activity.
    predictions: BTreeMap<u32, (&'a Prediction, bool)>,
}

impl<'a> Copies<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut copies = Self::default();
        for (index, record) in records.iter().enumerate() {
            match &record.change {
                Change::Prediction { old, new: Some(new), .. } => {
                    // Only an edit or new points change the version. After new points, the unchanged pick is copied
                    // again, because the first copy may have missed a membership: the index of memberships lags behind
                    // joins.
                    let is_edit = old.as_ref().is_none_or(|old| old.edits != new.edits);
                    if is_edit || old.as_ref().is_some_and(|old| old.revision != new.revision) {
                        let predictions = &mut copies.changes(new.user_id, index).predictions;
                        let was_edited = predictions.get(&new.event_id).is_some_and(|(_, is_edit)| *is_edit);
                        predictions.insert(new.event_id, (new, is_edit || was_edited));
                    }
                }
                Change::Member { old, new: Some(new), .. }
                    if new.has_joined() && !old.as_ref().is_some_and(Member::has_joined) =>
                {
                    let join = (Vec::new(), &record.key, new);
                    let (indexes, _, member) =
                        copies.joins.entry((new.user_id, &new.room_id)).or_insert(join);
                    indexes.push(index);
                    *member = new;
                }
                Change::UserStats { user, stats, is_counted: true, .. } => {
                    copies.changes(*user, index).stats = Some(stats);
                }
                Change::Team { user, chosen } => copies.changes(*user, index).team = Some(*chosen),
                // `copy_rooms` copies the changes of rooms.
                Change::Prediction { .. }
                | Change::Member { .. }
                | Change::UserStats { .. }
                | Change::Room { .. }
                | Change::Marker { .. }
                | Change::Part(_)
                | Change::SessionEnded { .. }
                | Change::Cleanup(_)
                | Change::Other => {}
            }
        }
        copies
    }

    /// Returns the changes of a user, to which the record at `index` adds one. The stream has the changes of an item in their
    /// order, so the last record has the newest data.
    fn changes(&mut self, user: UserId, index: usize) -> &mut Changes<'a> {
        let (indexes, changes) = self.users.entry(user).or_default();
        indexes.push(index);
        changes
    }
}

impl Work<'_> {
    async fn run(&self, app: &App) -> Result<(), StoreError> {
        match self {
            Self::Changes(user, changes) => copy_into_all(app, *user, changes).await,
            Self::Join(key, member) => fill_membership(app, key, member).await,
        }
    }
}

impl Changes<'_> {
    /// Copies what applies to a membership. The index may still show an invitation or an earlier leave of a user who has
    /// joined, so invited and former members get it as well.
    async fn write(&self, app: &App, membership: &UserMembership) -> Result<(), StoreError> {
        let (store, key) = (&app.store, membership.key());
        if let Some(chosen) = self.team {
            store.copy_team(key.clone(), chosen.team, chosen.at).await?;
        }
        if let Some(stats) = self.stats {
            store.copy_stats(key.clone(), stats).await?;
        }
        let prediction = membership.event_id.and_then(|event| self.predictions.get(&event));
        if let Some((row, is_edit)) = prediction {
            store.copy_pick(key.clone(), row).await?;
            if let Some(time) = row.changed.time().filter(|_| *is_edit) {
                store.touch_seen(key, Day::of(time)).await?;
            }
        }
        Ok(())
    }
}

/// Copies changes into all memberships of a user. Stops at the first error: then the records are redelivered.
async fn copy_into_all(app: &App, user: UserId, changes: &Changes<'_>) -> Result<(), StoreError> {
    let memberships = app.store.memberships(user, MAX_MEMBERSHIPS).await?;
    if memberships.len() == MAX_MEMBERSHIPS {
        tracing::warn!(%user, "the user has too many memberships; some keep older copies");
    }
    // The compiler cannot infer the closure's lifetimes without `collect`.
    let writes: Vec<_> = memberships.iter().map(|membership| changes.write(app, membership)).collect();
    stream::iter(writes).buffer_unordered(CONCURRENT_MEMBERSHIPS).try_collect().await
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
