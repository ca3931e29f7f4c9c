use std::collections::{BTreeMap, BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::Value;
use touchline::api::homeserver::{Empty, Transaction};
use touchline::domain::room::{Day, Membership, Room, RoomId, StreamPosition};
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
///
/// A redelivered transaction changes nothing: a membership keeps the position of its last event, and times only grow.
pub async fn handle(app: App, call: Call<Transaction>) -> Result<Reply<Empty>, Error> {
    let server = &app.config.chat.server;
    let now = app.clock.now();
    let sent = &call.input.events.0;
    let events =
        sent.iter().enumerate().filter_map(|(index, event)| Some((index, room_event::read(event, server)?)));
    // Our homeserver's clock may be ahead of ours. Other servers can send any time.
    let events = events.map(|(index, event)| {
        let at = if event.is_ours { event.at.min(now + CLOCK_SKEW) } else { event.at.min(now) };
        (index, RoomEvent { at, ..event })
    });
    let changes = NetChanges::of(events, now);
    // Only membership changes depend on the order of transactions.
    let number =
        if changes.memberships.is_empty() { 0 } else { app.store.push_number(&identity(sent), now).await? };
    changes.store(&app, number).await?;
    Ok(Empty {}.into())
}

/// Returns a digest that identifies a transaction by the ids of its events. Their contents can differ in a redelivery: the
/// homeserver writes the age of an event at the time of sending.
fn identity(events: &[Value]) -> String {
    let ids = events
        .iter()
        .map(|event| event["event_id"].as_str().map_or_else(|| event.to_string(), str::to_owned));
    digest(&ids.collect::<Vec<_>>())
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
    /// The index of the event in the transaction.
    index: usize,
    /// The index of the last event of the transaction that ended the membership.
    left: Option<usize>,
}

impl NetChanges {
    fn of(events: impl Iterator<Item = (usize, RoomEvent)>, now: DateTime<Utc>) -> Self {
        let mut changes = Self::default();
        for (index, RoomEvent { room, at, is_ours, kind }) in events {
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
                    let left = if to == Membership::Leave {
                        Some(index)
                    } else {
                        before.and_then(|before| before.left)
                    };
                    // A membership that ended is deleted some time after `at`, so do not trust a time of another server.
                    let at = if is_ours { at } else { now };
                    changes.memberships.insert(key, Change { to, at, index, left });
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

    async fn store(self, app: &App, number: u64) -> Result<(), StoreError> {
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
                memberships.push(set_membership(app, room, *user, *change, number));
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
    Change { to, at, index, left }: Change,
    number: u64,
) -> Result<(), StoreError> {
    // Lock the username first: other members know the user by it.
    if to == Membership::Join
        && let Some(user) = app.store.find_user(user).await?
    {
        rooms::lock_username(app, &user).await?;
    }
    let apply = |to, index| {
        app.store.apply_homeserver_membership(room, user, (to, at), StreamPosition::new(number, index))
    };
    // An invitation does not replace a joined membership, so store first that it ended.
    if let Some(left) = left.filter(|_| to == Membership::Invite) {
        apply(Membership::Leave, left).await?;
    }
    apply(to, index).await
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
