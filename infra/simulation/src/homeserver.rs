//! A homeserver: rooms, members, and the transactions that it pushes. It can be slow, lose responses and be down for
//! hours.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;
use touchline::domain::Username;
use touchline::domain::chat::Credentials;
use touchline::domain::room::{Room, RoomId};
use touchline::ports::chat::{Chat, ChatError, Closed, LocalChat, NewRoom};
use touchline_testing::{HS_TOKEN, Persona};

use crate::clock::VirtualClock;
use crate::fault::Faults;
use crate::gateway::Gateway;
use crate::process::Process;
use crate::signal::Signal;

/// The maximum number of accepted transactions that the homeserver pushes again.
const MAX_PUSHED_AGAIN: usize = 3;

/// The homeserver of a world.
#[derive(Debug)]
pub struct Homeserver {
    /// Makes up ids in the homeserver's format.
    ids: LocalChat,
    server: String,
    /// The homeserver's own clock.
    clock: VirtualClock,
    faults: Arc<Faults>,
    state: Mutex<State>,
    changed: Signal,
}

#[derive(Debug, Default)]
struct State {
    rooms: BTreeMap<String, RoomState>,
    /// The events that are not pushed yet.
    outbox: VecDeque<Value>,
    /// The events of the transaction that is being pushed.
    pushing: Vec<Value>,
    events: u64,
    down_until: Option<Instant>,
}

#[derive(Debug, Default)]
struct RoomState {
    is_private: bool,
    /// The membership of each user: `join`, `invite` or `leave`.
    members: BTreeMap<String, &'static str>,
    /// When the membership of each user changed.
    changes: BTreeMap<String, Vec<Instant>>,
}

impl Homeserver {
    #[must_use]
    pub fn new(ids: LocalChat, server: String, clock: VirtualClock, faults: Arc<Faults>) -> Self {
        Self { ids, server, clock, faults, state: Mutex::default(), changed: Signal::default() }
    }

    /// Returns every membership: room, username, and `join`, `invite` or `leave`.
    #[must_use]
    pub fn memberships(&self) -> BTreeMap<(String, String), &'static str> {
        let state = self.state.lock().expect("no holder of the lock panics");
        let members = state.rooms.iter().flat_map(|(room, of)| {
            of.members.iter().map(move |(user, membership)| ((room.clone(), user.clone()), *membership))
        });
        members.collect()
    }

    /// Returns the membership of a user and when it changed, earliest first.
    #[must_use]
    pub fn membership(&self, room: &str, username: &str) -> (&'static str, Vec<Instant>) {
        let state = self.state.lock().expect("no holder of the lock panics");
        let Some(of) = state.rooms.get(room) else { return ("leave", Vec::new()) };
        let changes = of.changes.get(username).cloned().unwrap_or_default();
        (of.members.get(username).copied().unwrap_or("leave"), changes)
    }

    /// Returns whether every event is pushed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let state = self.state.lock().expect("no holder of the lock panics");
        state.outbox.is_empty() && state.pushing.is_empty()
    }

    /// Returns whether a change of a membership is not pushed yet.
    #[must_use]
    pub fn is_unpushed(&self, room: &str, username: &str) -> bool {
        let state = self.state.lock().expect("no holder of the lock panics");
        let user = format!("@{username}:{}", self.server);
        let mut events = state.outbox.iter().chain(&state.pushing);
        events.any(|event| event["room_id"] == room && event["state_key"] == user)
    }

    /// A user acts in a Matrix client, without our API. Does nothing if the homeserver would forbid it.
    pub fn act(&self, room: &str, username: &str, action: ClientAction<'_>) {
        let mut state = self.state.lock().expect("no holder of the lock panics");
        let Some(of) = state.rooms.get(room) else { return };
        let membership = of.members.get(username).copied().unwrap_or("leave");
        match action {
            ClientAction::Join if membership == "invite" || (membership == "leave" && !of.is_private) => {
                self.set_membership(&mut state, room, username, username, "join");
            }
            ClientAction::Leave if membership != "leave" => {
                self.set_membership(&mut state, room, username, username, "leave");
            }
            ClientAction::Kick(whom)
                if membership == "join" && of.members.get(whom).is_some_and(|is| *is != "leave") =>
            {
                self.set_membership(&mut state, room, username, whom, "leave");
            }
            ClientAction::Message if membership == "join" => {
                let event = json!({ "type": "m.room.message", "content": { "body": "…" } });
                self.push(&mut state, room, username, event);
            }
            _ => {}
        }
    }

    fn set_membership(&self, state: &mut State, room: &str, by: &str, whom: &str, to: &'static str) {
        if let Some(of) = state.rooms.get_mut(room) {
            of.members.insert(whom.to_owned(), to);
            of.changes.entry(whom.to_owned()).or_default().push(Instant::now());
        }
        let event = json!({
            "type": "m.room.member",
            "state_key": format!("@{whom}:{}", self.server),
            "content": { "membership": to },
        });
        self.push(state, room, by, event);
    }

    fn push(&self, state: &mut State, room: &str, sender: &str, mut event: Value) {
        state.events += 1;
        event["event_id"] = format!("$event{}", state.events).into();
        event["room_id"] = room.into();
        event["sender"] = format!("@{sender}:{}", self.server).into();
        event["origin_server_ts"] = self.clock.time().timestamp_millis().into();
        state.outbox.push_back(event);
        self.changed.change();
    }

    /// Pushes events to the application service forever: one transaction at a time, until it is accepted.
    pub async fn push_all(self: Arc<Self>, gateway: Gateway) {
        let persona = Persona::with_token(&gateway, HS_TOKEN);
        let mut seen = 0;
        let mut number = 0_u32;
        // The transactions that were accepted, in order.
        let mut accepted: Vec<Vec<Value>> = Vec::new();
        loop {
            // Sometimes events wait, and the next transaction contains several.
            if self.faults.occurs("SlowPush", 100) {
                tokio::time::sleep(self.faults.dice().millis(0, 10_000)).await;
            }
            let events: Vec<Value> = {
                let mut state = self.state.lock().expect("no holder of the lock panics");
                let count = state.outbox.len().min(1 + self.faults.dice().below(10) as usize);
                let events: Vec<Value> = state.outbox.drain(..count).collect();
                state.pushing.clone_from(&events);
                events
            };
            if events.is_empty() {
                self.changed.changed(&mut seen).await;
                continue;
            }
            number += 1;
            let mut pause = Duration::from_secs(1);
            while persona.pushes(&number.to_string(), &events).await.status != 200 {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_mins(1));
            }
            accepted.push(events);
            self.state.lock().expect("no holder of the lock panics").pushing.clear();
            // Sometimes the homeserver pushes accepted transactions again: the last one, or up to three earlier ones. After
            // its database was restored, earlier events have new transaction ids.
            let (first, suffix) = if self.faults.occurs("PushedTwice", 50) {
                (number, String::new())
            } else if self.faults.occurs("PushedOld", 20) {
                (1 + self.faults.dice().below(number), String::new())
            } else if self.faults.occurs("PushedUnderNewId", 30) {
                (1 + self.faults.dice().below(number), format!("-again-{number}"))
            } else {
                continue;
            };
            for (number, events) in (1..).zip(&accepted).skip(first as usize - 1).take(MAX_PUSHED_AGAIN) {
                while persona.pushes(&format!("{number}{suffix}"), events).await.status != 200 {
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }

    /// Makes a call with delays and maybe with a fault. `apply` changes the state.
    async fn call<T>(&self, apply: impl FnOnce(&mut State) -> Result<T, ChatError>) -> Result<T, ChatError> {
        let stop_counting = || {
            if let Some(process) = Process::current() {
                process.stop_counting();
            }
        };
        let unavailable = |why: &str| {
            stop_counting();
            ChatError::Unavailable(why.to_owned())
        };
        tokio::time::sleep(self.faults.dice().millis(1, 80)).await;
        if self.faults.occurs("HomeserverDown", 4) {
            let outage = Duration::from_secs(60 * u64::from(self.faults.dice().between(1, 180)));
            self.state.lock().expect("no holder of the lock panics").down_until =
                Some(Instant::now() + outage);
        }
        {
            let state = self.state.lock().expect("no holder of the lock panics");
            if !self.faults.have_stopped() && state.down_until.is_some_and(|until| until > Instant::now()) {
                return Err(unavailable("down"));
            }
        }
        if self.faults.occurs("HomeserverRequestLost", 20) {
            return Err(unavailable("the request was lost"));
        }
        let result = apply(&mut self.state.lock().expect("no holder of the lock panics"));
        let mut longest = 80;
        if self.faults.occurs("HomeserverSlow", 30) {
            // The function may run out of time.
            stop_counting();
            longest = 8_000;
        }
        tokio::time::sleep(self.faults.dice().millis(1, longest)).await;
        if self.faults.occurs("HomeserverResponseLost", 20) {
            return Err(unavailable("the response was lost"));
        }
        result
    }
}

/// What a user can do in a Matrix client.
#[derive(Debug, Clone, Copy)]
pub enum ClientAction<'a> {
    Join,
    Leave,
    Kick(&'a str),
    Message,
}

fn created(state: &mut State, id: &RoomId, is_private: bool) -> bool {
    let is_new = !state.rooms.contains_key(id.as_str());
    if is_new {
        state.rooms.insert(id.as_str().to_owned(), RoomState { is_private, ..RoomState::default() });
    }
    is_new
}

impl Chat for Homeserver {
    fn log_in<'a>(
        &'a self,
        username: &'a Username,
        device: &'a str,
    ) -> BoxFuture<'a, Result<Credentials, ChatError>> {
        Box::pin(async move {
            let credentials = self.ids.log_in(username, device).await;
            self.call(|_| credentials).await
        })
    }

    fn log_out<'a>(&'a self, _: &'a Username, _: &'a str) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.call(|_| Ok(())))
    }

    fn log_out_everywhere<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.call(|_| Ok(())))
    }

    fn erase_user<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<bool, ChatError>> {
        Box::pin(self.call(|_| Ok(true)))
    }

    fn update_ignored_users<'a>(
        &'a self,
        _: &'a Username,
        _: &'a [Username],
        _: &'a [Username],
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.call(|_| Ok(())))
    }

    fn has_rooms<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<bool, ChatError>> {
        Box::pin(self.call(move |state| {
            let mut memberships = state.rooms.values().filter_map(|room| room.members.get(username.as_str()));
            Ok(memberships.any(|membership| *membership == "join"))
        }))
    }

    fn ensure_user<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.call(|_| Ok(())))
    }

    fn match_room<'a>(&'a self, event: u32, name: &'a str) -> BoxFuture<'a, Result<RoomId, ChatError>> {
        Box::pin(async move {
            let id = self.ids.match_room(event, name).await?;
            self.call(|state| {
                created(state, &id, false);
                Ok(id.clone())
            })
            .await
        })
    }

    fn rename_match_room<'a>(&'a self, _: &'a RoomId, _: &'a str) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.call(|_| Ok(())))
    }

    fn create_room<'a>(&'a self, new: NewRoom<'a>) -> BoxFuture<'a, Result<RoomId, ChatError>> {
        Box::pin(async move {
            let id = self.ids.create_room(new).await?;
            self.call(|state| {
                if created(state, &id, new.is_private) {
                    let creator = new.creator.as_str();
                    self.set_membership(state, id.as_str(), creator, creator, "join");
                }
                Ok(id.clone())
            })
            .await
        })
    }

    fn join<'a>(
        &'a self,
        room: &'a Room,
        user: &'a Username,
        _: bool,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.call(move |state| {
            let of = state.rooms.get(room.room_id.as_str()).ok_or(ChatError::NotFound)?;
            match of.members.get(user.as_str()) {
                Some(&"join") => Ok(()),
                Some(&"invite") => {
                    self.set_membership(state, room.room_id.as_str(), user.as_str(), user.as_str(), "join");
                    Ok(())
                }
                _ if of.is_private => Err(ChatError::Forbidden),
                _ => {
                    self.set_membership(state, room.room_id.as_str(), user.as_str(), user.as_str(), "join");
                    Ok(())
                }
            }
        }))
    }

    fn close_room<'a>(
        &'a self,
        _: &'a RoomId,
        _: Option<&'a Username>,
    ) -> BoxFuture<'a, Result<Closed, ChatError>> {
        Box::pin(self.call(|_| Ok(Closed::Locked)))
    }

    fn kick<'a>(
        &'a self,
        _: &'a RoomId,
        _: &'a Username,
        _: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.call(|_| Ok(())))
    }

    fn kick_others<'a>(&'a self, _: &'a RoomId, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.call(|_| Ok(())))
    }

    fn leave<'a>(&'a self, room: &'a RoomId, user: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.call(move |state| {
            let of = state.rooms.get(room.as_str()).ok_or(ChatError::NotFound)?;
            match of.members.get(user.as_str()) {
                Some(&("join" | "invite")) => {
                    self.set_membership(state, room.as_str(), user.as_str(), user.as_str(), "leave");
                    Ok(())
                }
                _ => Err(ChatError::Forbidden),
            }
        }))
    }

    fn invite<'a>(
        &'a self,
        room: &'a RoomId,
        by: &'a Username,
        whom: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        Box::pin(self.call(move |state| {
            let of = state.rooms.get(room.as_str()).ok_or(ChatError::NotFound)?;
            let membership = |user: &Username| of.members.get(user.as_str()).copied();
            match (membership(by), membership(whom)) {
                (Some("join"), Some("join")) => Err(ChatError::Forbidden),
                (Some("join"), _) => {
                    self.set_membership(state, room.as_str(), by.as_str(), whom.as_str(), "invite");
                    Ok(())
                }
                _ => Err(ChatError::Forbidden),
            }
        }))
    }
}
