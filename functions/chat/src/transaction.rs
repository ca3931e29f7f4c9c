use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::api::homeserver::{Empty, Transaction};
use touchline::domain::room::{Day, Membership, Room, RoomId};
use touchline::domain::{UserId, Username, digest};
use touchline::flows::rooms;
use touchline::storage::members::CLOCK_SKEW;
use touchline::storage::{Reads, StoreError, keys};
use touchline::{App, Call, Error, Reply};

use crate::room_event::{self, RoomEvent, RoomEventKind};

/// The maximum number of concurrent writes.
const CONCURRENT_WRITES: usize = 16;

/// Stores the membership changes and the times of messages that the homeserver pushes.
///
/// The homeserver retries a transaction until it succeeds, and only then sends the next transaction. A bad
/// event must therefore not fail its transaction. This function ignores malformed events, events of unknown
/// rooms, and membership changes of unknown users. A message from an unknown sender counts only as activity
/// of the room.
pub async fn handle(app: App, call: Call<Transaction>) -> Result<Reply<Empty>, Error> {
    let id = digest(&[&call.path.txn_id.0]);
    let events = &call.input.events.0;
    let content = digest(&events.iter().map(ToString::to_string).collect::<Vec<_>>());
    if app.store.is_push_processed(&id, &content).await? {
        return Ok(Empty {}.into());
    }
    let server = &app.config.chat.server;
    let now = app.clock.now();
    let events = events.iter().filter_map(|event| room_event::read(event, server));
    // Replace a time in the future. Our homeserver's clock may be ahead of ours, and its times order the membership
    // changes of a user, so they stay as they are. Other servers can send any time.
    let events = events.map(|event| {
        let latest = if event.is_ours { now + CLOCK_SKEW } else { now };
        RoomEvent { at: event.at.min(latest), ..event }
    });
    NetChanges::of(events, now).store(&app).await?;
    app.store.save_processed_push(&id, &content, now).await?;
    Ok(Empty {}.into())
}

/// The combined effect of a transaction's events.
#[derive(Debug, Default)]
struct NetChanges {
    memberships: BTreeMap<(RoomId, Username), Change>,
    /// The time of the last message in each room.
    last_messages: BTreeMap<RoomId, DateTime<Utc>>,
    /// The time of each sender's last message in each room.
    last_sent: BTreeMap<(RoomId, Username), DateTime<Utc>>,
}

/// The last change of a membership.
#[derive(Debug, Clone, Copy)]
struct Change {
    to: Membership,
    at: DateTime<Utc>,
    /// Whether this or an earlier event of the transaction ended the membership.
    has_left: bool,
}

impl NetChanges {
    fn of(events: impl Iterator<Item = RoomEvent>, now: DateTime<Utc>) -> Self {
        let mut changes = Self::default();
        for RoomEvent { room, at, kind, .. } in events {
            match kind {
                // The events of a room arrive in order, so the last membership event of a user counts.
                RoomEventKind::Membership(user, to) => {
                    let key = (room, user);
                    let before = changes.memberships.get(&key);
                    // Matrix rejects invitations of members, so an invitation after a join is an old event. Ignore it.
                    if to == Membership::Invite && before.is_some_and(|before| before.to == Membership::Join)
                    {
                        continue;
                    }
                    let has_left = to == Membership::Leave || before.is_some_and(|before| before.has_left);
                    changes.memberships.insert(key, Change { to, at, has_left });
                }
                RoomEventKind::Message(sender) => {
                    let at = at.min(now);
                    if let Some(sender) = sender {
                        let last = changes.last_sent.entry((room.clone(), sender)).or_insert(at);
                        *last = at.max(*last);
                    }
                    let last = changes.last_messages.entry(room).or_insert(at);
                    *last = at.max(*last);
                }
            }
        }
        changes
    }

    async fn store(self, app: &App) -> Result<(), StoreError> {
        let members = self.memberships.keys().chain(self.last_sent.keys());
        let (rooms, names): (BTreeSet<_>, BTreeSet<_>) = members.cloned().unzip();
        let rooms: BTreeSet<RoomId> = rooms.into_iter().chain(self.last_messages.keys().cloned()).collect();
        let (rooms, names): (Vec<_>, Vec<_>) = (rooms.into_iter().collect(), names.into_iter().collect());
        let (rooms, users) = try_join(app.store.rooms(&rooms, Reads::Consistent), users(app, &names)).await?;
        // `None` for rooms that were not created through this service.
        let room = |id: &RoomId| rooms.get(id);

        let mut memberships = Vec::new();
        for ((id, name), change) in &self.memberships {
            if let (Some(room), Some(user)) = (room(id), users.get(name)) {
                memberships.push(set_membership(app, room, *user, *change));
            }
        }
        run_all(memberships).await?;
        let mut seen = Vec::new();
        for ((id, name), at) in &self.last_sent {
            if let (Some(room), Some(user)) = (room(id), users.get(name)) {
                let member = keys::member(&room.room_id, room.shards, *user);
                seen.push(app.store.touch_seen(member, Day::of(*at)));
            }
        }
        run_all(seen).await?;
        run_all(
            self.last_messages
                .iter()
                .filter_map(|(id, at)| Some((room(id)?, at)))
                .map(|(room, at)| app.store.touch_activity(&room.room_id, *at))
                .collect(),
        )
        .await
    }
}

async fn run_all<F: Future<Output = Result<(), StoreError>>>(writes: Vec<F>) -> Result<(), StoreError> {
    stream::iter(writes).buffer_unordered(CONCURRENT_WRITES).try_collect().await
}

async fn set_membership(
    app: &App,
    room: &Room,
    user: UserId,
    Change { to, at, has_left }: Change,
) -> Result<(), StoreError> {
    // Lock the username first: the homeserver knows members and invited users by it.
    if to != Membership::Leave
        && let Some(user) = app.store.find_user(user).await?
    {
        rooms::lock_username(app, &user).await?;
    }
    if to == Membership::Invite && has_left {
        app.store.apply_homeserver_membership(room, user, Membership::Leave, at).await?;
    }
    app.store.apply_homeserver_membership(room, user, to, at).await
}

async fn users(app: &App, names: &[Username]) -> Result<HashMap<Username, UserId>, StoreError> {
    let mut users = HashMap::new();
    for part in names.chunks(100) {
        users.extend(app.store.users_named(part).await?);
    }
    Ok(users)
}

#[cfg(test)]
mod tests;
