//! Keeps what is known of people and rooms where it is looked for: with each member of a room what they
//! predict for its match, the team they are for and how good their predictions are, so that all of that can be
//! counted and ranked like anything else; and with the directory where a room is to be found.
//!
//! Either may come first, the joining or what is to be noted. Whichever change is looked at later sees the
//! other: a prediction looks for its user's rooms, a joining for the user's prediction, and so on. Versions
//! keep an older note from taking the place of a newer one, so that both may do it, and any number of times.

use std::collections::HashMap;

use futures_util::future::try_join3;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::App;
use touchline::domain::catalog::Match;
use touchline::domain::room::{Day, Member};
use touchline::domain::{Prediction, RoomId, UserId};
use touchline::storage::keys::Key;
use touchline::storage::stream::{Change, Record};
use touchline::storage::tallies::VersionedRecord;
use touchline::storage::users::ChosenTeam;
use touchline::storage::{Reads, StoreError};

use crate::AT_ONCE;

/// How many of somebody's rooms are written to at once: each is a connection, for each of the changes.
const ROOMS_AT_ONCE: usize = 4;

/// Returns the place of the first record for which it failed.
pub async fn keep(app: &App, records: &[Record]) -> Option<usize> {
    // Collected: the compiler cannot see through the closure otherwise.
    let keeping: Vec<_> = in_order(records)
        .into_iter()
        .map(|changes| async move {
            for (at, change) in changes {
                if let Err(error) = follow(app, change).await {
                    tracing::warn!(%error, "a change could not be followed; it comes again");
                    return Some(at);
                }
            }
            None
        })
        .collect();
    let failed: Vec<Option<usize>> = stream::iter(keeping).buffer_unordered(AT_ONCE).collect().await;
    failed.into_iter().flatten().min()
}

/// Groups of changes. Those within a group are followed in order: the changes of one room, because each updates
/// the directory from one name to the next. Every other change is a group of its own.
fn in_order(records: &[Record]) -> Vec<Vec<(usize, &Change)>> {
    let mut groups: Vec<Vec<(usize, &Change)>> = Vec::new();
    let mut group_of_room: HashMap<&RoomId, usize> = HashMap::new();
    for (at, Record { change, .. }) in records.iter().enumerate() {
        let room = match change {
            Change::Room { old, new } => new.as_ref().or(old.as_ref()).map(|room| &room.room_id),
            _ => None,
        };
        let group = room.map_or(groups.len(), |room| *group_of_room.entry(room).or_insert(groups.len()));
        match groups.get_mut(group) {
            Some(group) => group.push((at, change)),
            None => groups.push(vec![(at, change)]),
        }
    }
    groups
}

async fn follow(app: &App, change: &Change) -> Result<(), StoreError> {
    match change {
        Change::Prediction { old, new: Some(new) } => {
            let version = |row: &Prediction| (row.edits, row.revision);
            // With its points once more: the index of rooms may have lagged behind a joining.
            if old.as_ref().is_some_and(|old| version(old) == version(new)) {
                return Ok(());
            }
            let by_its_user = old.as_ref().is_none_or(|old| old.edits != new.edits);
            predicted(app, new, by_its_user).await
        }
        Change::Member { key, old, new: Some(new) }
            if new.has_joined() && !old.as_ref().is_some_and(Member::has_joined) =>
        {
            joined(app, key, new).await
        }
        Change::Room { old, new } => app.store.update_directory(old.as_ref(), new.as_ref()).await,
        Change::UserRecord { user, record } => ranked(app, *user, record).await,
        Change::Team { user, chosen } => supports(app, *user, *chosen).await,
        Change::Prediction { .. } | Change::Member { .. } | Change::Other => Ok(()),
    }
}

async fn predicted(app: &App, row: &Prediction, by_its_user: bool) -> Result<(), StoreError> {
    for place in app.store.joined_memberships(row.user_id, Some(row.event_id)).await? {
        app.store.copy_pick(place.clone(), row).await?;
        if let Some(moment) = row.changed.time().filter(|_| by_its_user) {
            app.store.touch_seen(place, Day::of(moment)).await?;
        }
    }
    Ok(())
}

async fn ranked(app: &App, user: UserId, counted: &VersionedRecord) -> Result<(), StoreError> {
    let places = stream::iter(app.store.joined_memberships(user, None).await?);
    places
        .map(|place| app.store.copy_record(place, counted))
        .buffer_unordered(ROOMS_AT_ONCE)
        .try_collect()
        .await
}

async fn supports(app: &App, user: UserId, chosen: ChosenTeam) -> Result<(), StoreError> {
    let places = stream::iter(app.store.joined_memberships(user, None).await?);
    let noting = places.map(|place| app.store.copy_team(place, chosen.team, chosen.at));
    noting.buffer_unordered(ROOMS_AT_ONCE).try_collect().await
}

async fn joined(app: &App, place: &Key, member: &Member) -> Result<(), StoreError> {
    let user = member.user_id;
    let (row, chosen, counted) =
        try_join3(prediction(app, member), app.store.chosen_team(user), app.store.versioned_record(user))
            .await?;
    if let Some(row) = row {
        app.store.copy_pick(place.clone(), &row).await?;
    }
    if let Some(chosen) = chosen {
        app.store.copy_team(place.clone(), chosen.team, chosen.at).await?;
    }
    if let Some(counted) = counted {
        app.store.copy_record(place.clone(), &counted).await?;
    }
    Ok(())
}

/// What a member predicts for the room's match.
async fn prediction(app: &App, member: &Member) -> Result<Option<Prediction>, StoreError> {
    let Some(event) = member.event_id else { return Ok(None) };
    // From the row itself: a copy of the catalog may not know it yet.
    let Some(event) = app.store.catalog_rows::<Match>(&[event]).await?.remove(&event) else {
        return Ok(None);
    };
    app.store.prediction(event.id, event.shards, member.user_id, Reads::Consistent).await
}
