use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};
use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::api::homeserver::{Empty, Transaction};
use touchline::domain::push::{self, Told, What};
use touchline::domain::room::{Day, Membership, Room, RoomId};
use touchline::domain::{UserId, Username, digest};
use touchline::storage::{StoreError, keys};
use touchline::{App, Call, Error, Reply};

/// How many writes are under way at once.
const AT_ONCE: usize = 16;

/// What happened on the chat network, whoever did it there, reaches our tables. The homeserver sends one
/// transaction after the other and each until it is taken, so that nothing but trouble of our own may refuse
/// it: events that make no sense, or are none of ours, are passed over.
pub async fn handle(app: App, call: Call<Transaction>) -> Result<Reply<Empty>, Error> {
    let id = digest(&[call.path("txnId").unwrap_or_default()]);
    let events = &call.input.events.0;
    let content = digest(&events.iter().map(ToString::to_string).collect::<Vec<_>>());
    if app.store.is_push_done(&id, &content).await? {
        return Ok(Empty {}.into());
    }
    let server = &app.config.chat.server;
    let happened = Happened::of(events.iter().filter_map(|event| push::read(event, server)));
    happened.keep(&app).await?;
    app.store.end_push(&id, &content, app.clock.now()).await?;
    Ok(Empty {}.into())
}

/// What a transaction tells, brought down to what is left of it in the end.
#[derive(Debug, Default)]
struct Happened {
    memberships: BTreeMap<(RoomId, Username), (Membership, DateTime<Utc>)>,
    written: BTreeMap<RoomId, DateTime<Utc>>,
    writers: BTreeMap<(RoomId, Username), DateTime<Utc>>,
}

impl Happened {
    fn of(told: impl Iterator<Item = Told>) -> Self {
        let mut happened = Self::default();
        for Told { room, at, what } in told {
            match what {
                // In the order of the room: the last one stands.
                What::Membership(user, to) => {
                    happened.memberships.insert((room, user), (to, at));
                }
                What::Message(by) => {
                    if let Some(by) = by {
                        let seen = happened.writers.entry((room.clone(), by)).or_insert(at);
                        *seen = at.max(*seen);
                    }
                    let written = happened.written.entry(room).or_insert(at);
                    *written = at.max(*written);
                }
            }
        }
        happened
    }

    async fn keep(self, app: &App) -> Result<(), StoreError> {
        let people = self.memberships.keys().chain(self.writers.keys());
        let (rooms, names): (HashSet<_>, HashSet<_>) = people.cloned().unzip();
        let rooms: HashSet<RoomId> = rooms.into_iter().chain(self.written.keys().cloned()).collect();
        let (rooms, names): (Vec<_>, Vec<_>) = (rooms.into_iter().collect(), names.into_iter().collect());
        let (rooms, users) = try_join(app.store.rooms(&rooms), users(app, &names)).await?;
        // Rooms that people made elsewhere are none of ours.
        let room = |id: &RoomId| rooms.get(id).map(|(room, _)| room);

        let mut memberships = Vec::new();
        for ((id, name), (to, at)) in &self.memberships {
            if let (Some(room), Some(user)) = (room(id), users.get(name)) {
                memberships.push(set_membership(app, room, *user, *to, *at));
            }
        }
        all(memberships).await?;
        let mut seen = Vec::new();
        for ((id, name), at) in &self.writers {
            if let (Some(room), Some(user)) = (room(id), users.get(name)) {
                let member = keys::member(&room.room_id, room.shards, *user);
                seen.push(app.store.note_seen(member, Day::of(*at)));
            }
        }
        all(seen).await?;
        all(self.written.iter().filter_map(|(id, at)| Some((room(id)?, at)))
            .map(|(room, at)| app.store.note_activity(&room.room_id, *at))
            .collect()).await
    }
}

async fn all<F: Future<Output = Result<(), StoreError>>>(writes: Vec<F>) -> Result<(), StoreError> {
    stream::iter(writes).buffer_unordered(AT_ONCE).try_collect().await
}

async fn set_membership(
    app: &App,
    room: &Room,
    user: UserId,
    to: Membership,
    at: DateTime<Utc>,
) -> Result<(), StoreError> {
    if app.store.told_membership(room, user, to, at).await? {
        let member = keys::member(&room.room_id, room.shards, user);
        app.store.note_seen(member, Day::of(at)).await?;
        // Their name is known in a room now, and stays.
        if let Some(user) = app.store.user_cheaply(user).await?
            && user.chat_since.is_none()
        {
            app.store.fix_username(&user, app.clock.now()).await?;
        }
    }
    Ok(())
}

async fn users(app: &App, names: &[Username]) -> Result<HashMap<Username, UserId>, StoreError> {
    let mut users = HashMap::new();
    for part in names.chunks(100) {
        users.extend(app.store.users_named(part).await?);
    }
    Ok(users)
}
