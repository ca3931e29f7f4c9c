use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};
use futures_util::future::try_join;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::api::homeserver::{Empty, Transaction};
use touchline::domain::room::{Day, Membership, Room, RoomId};
use touchline::domain::{UserId, Username, digest};
use touchline::flows::rooms;
use touchline::storage::{Reads, StoreError, keys};
use touchline::{App, Call, Error, Reply};

use crate::room_event::{self, RoomEvent, RoomEventKind};

/// How many writes are under way at once.
const AT_ONCE: usize = 16;

/// What happened on the chat network, whoever did it there, reaches our tables. The homeserver sends one
/// transaction after the other and each until it is taken, so that nothing but trouble of our own may refuse
/// it: events that make no sense, or are none of ours, are passed over.
pub async fn handle(app: App, call: Call<Transaction>) -> Result<Reply<Empty>, Error> {
    let id = digest(&[&call.path.txn_id.0]);
    let events = &call.input.events.0;
    let content = digest(&events.iter().map(ToString::to_string).collect::<Vec<_>>());
    if app.store.is_push_processed(&id, &content).await? {
        return Ok(Empty {}.into());
    }
    let server = &app.config.chat.server;
    let now = app.clock.now();
    // Other servers date their own events; nothing has happened in the future.
    let told = events.iter().filter_map(|event| room_event::read(event, server));
    let happened = Happened::of(told.map(|told| RoomEvent { at: told.at.min(now), ..told }));
    happened.keep(&app).await?;
    app.store.save_processed_push(&id, &content, now).await?;
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
    fn of(told: impl Iterator<Item = RoomEvent>) -> Self {
        let mut happened = Self::default();
        for RoomEvent { room, at, kind } in told {
            match kind {
                // In the order of the room: the last one stands.
                RoomEventKind::Membership(user, to) => {
                    happened.memberships.insert((room, user), (to, at));
                }
                RoomEventKind::Message(by) => {
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
        let (rooms, users) = try_join(app.store.rooms(&rooms, Reads::Consistent), users(app, &names)).await?;
        // Rooms that people made elsewhere are none of ours.
        let room = |id: &RoomId| rooms.get(id);

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
                seen.push(app.store.touch_seen(member, Day::of(*at)));
            }
        }
        all(seen).await?;
        all(self
            .written
            .iter()
            .filter_map(|(id, at)| Some((room(id)?, at)))
            .map(|(room, at)| app.store.touch_activity(&room.room_id, *at))
            .collect())
        .await
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
    // First of all their name stays: it becomes known in a room.
    if to == Membership::Join
        && let Some(user) = app.store.user(user, Reads::Eventual).await?
    {
        rooms::lock_username(app, &user).await?;
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
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::{Fault, HS_TOKEN, TestApp};

    use crate::testing::{act, app, builder, listed, made, member, message, push, push_as, stats, tallied};

    async fn told(app: &TestApp, id: &str, events: &[Value]) {
        assert_eq!(push(app, id, &json!({ "events": events })).await.expect(200), json!({}));
        tallied(app).await;
    }

    /// Whether somebody is in, and how many are.
    async fn seen(app: &TestApp, token: &str, room: &str) -> (bool, u64) {
        let room = listed(app, token, room).await.unwrap();
        (room["is_joined"].as_bool().unwrap(), room["member_count"].as_u64().unwrap())
    }

    #[tokio::test]
    async fn only_the_homeserver_is_believed() {
        let (app, _) = app().await;
        for token in ["", "x", "hs-token-of-the-testz", "hs-token-of-the-tests2"] {
            let answer = push_as(&app, token, "1", br#"{"events":[]}"#).await;
            assert_eq!(answer.status, 403);
            assert_eq!(answer.body["errcode"], "M_FORBIDDEN", "{}", answer.body);
        }
        let answer = app.send("PUT", "/_matrix/app/v1/transactions/1", &[], b"{}").await;
        assert_eq!((answer.status.as_u16(), &answer.body["errcode"]), (401, &json!("M_MISSING_TOKEN")));
        // Where no token is configured, nobody is.
        let app = builder().variable("CHAT_HS_TOKEN", "").start().await;
        assert_eq!(push_as(&app, "", "1", b"{}").await.status, 403);
    }

    #[tokio::test]
    async fn comings_and_goings_elsewhere_reach_us() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Stand", false).await;
        told(&app, "1", &[member(&app, &room, 2, "join", 0)]).await;
        assert_eq!(seen(&app, &bob, &room).await, (true, 2));
        told(&app, "2", &[member(&app, &room, 2, "leave", 1)]).await;
        assert_eq!(seen(&app, &bob, &room).await, (false, 1));
        // In and out within one transaction: what is last stands.
        told(&app, "3", &[member(&app, &room, 2, "join", 2), member(&app, &room, 2, "ban", 3)]).await;
        assert_eq!(seen(&app, &bob, &room).await, (false, 1));
        let den = made(&app, &ada, "Den", true).await;
        told(&app, "4", &[member(&app, &den, 2, "invite", 4)]).await;
        let _ = act(&app, &bob, &den, "join").await.expect(200);
        // A joining elsewhere fixes the name as one of ours does.
        let answer = app.post_as(&bob, "/api/auth/update-user-info", json!({ "username": "bob" })).await;
        answer.expect_error(409, "username_locked");
    }

    #[tokio::test]
    async fn a_message_moves_the_rooms_last_activity_and_never_back() {
        let (app, [ada, ..]) = app().await;
        let room = made(&app, &ada, "Stand", false).await;
        tallied(&app).await;
        let last = async |app: &TestApp| listed(app, &ada, &room).await.unwrap()["last_activity"].clone();
        let (old, before) = (message(&app, &room, 1), last(&app).await);
        app.clock.advance(TimeDelta::minutes(5));
        let mut early = message(&app, &room, 1);
        early["origin_server_ts"] = json!(9_999_999_999_999_i64);
        told(&app, "1", &[early]).await;
        let after = last(&app).await;
        assert!(after.as_str() > before.as_str(), "{before} {after}");
        assert_eq!(after, app.clock.now().format("%Y-%m-%dT%H:%M:%SZ").to_string(), "not the far future");
        told(&app, "2", &[old]).await;
        assert_eq!(last(&app).await, after);
    }

    #[tokio::test]
    async fn the_same_transaction_counts_once_and_an_old_one_undoes_nothing() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Stand", false).await;
        let joining = [member(&app, &room, 2, "join", -10)];
        told(&app, "1", &joining).await;
        told(&app, "1", &joining).await;
        assert_eq!(seen(&app, &bob, &room).await, (true, 2));
        told(&app, "2", &[member(&app, &room, 2, "leave", -9)]).await;
        for id in ["1", "3"] {
            told(&app, id, &joining).await;
            assert_eq!(seen(&app, &bob, &room).await, (false, 1), "transaction {id}");
        }
        // A homeserver that starts over counts from one again, with other things to tell.
        told(&app, "1", &[member(&app, &room, 2, "join", -8)]).await;
        assert_eq!(seen(&app, &bob, &room).await, (true, 2));
    }

    #[tokio::test]
    async fn what_is_malformed_is_refused_and_blocks_nothing() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Stand", false).await;
        for body in ["{", "", "[]", "{}", r#"{"events":7}"#, r#"{"events":{"a":1}}"#, "null"] {
            let answer = push_as(&app, HS_TOKEN, "1", body.as_bytes()).await;
            assert_eq!(answer.status, 400, "{body}: {}", answer.body);
            assert!(answer.body["errcode"].as_str().unwrap().starts_with("M_"), "{}", answer.body);
        }
        let mut odd = member(&app, &room, 3, "join", 0);
        odd["content"] = json!(7);
        let events = [
            json!(null),
            json!("x"),
            json!({ "type": "m.room.message" }),
            odd,
            member(&app, "!unknown:touchline.local", 2, "join", 0),
            member(&app, &room, 99, "join", 0),
            member(&app, &room, 2, "join", 0),
        ];
        told(&app, "1", &events).await;
        assert_eq!(seen(&app, &bob, &room).await, (true, 2));
    }

    /// Whichever write fails, the transaction comes again and ends the same.
    #[tokio::test]
    async fn dying_after_any_write_changes_nothing_in_the_end() {
        let mut died = 0;
        for step in 0.. {
            let (app, [ada, bob, _]) = app().await;
            let room = made(&app, &ada, "Stand", false).await;
            app.clock.advance(TimeDelta::seconds(1));
            let body = json!({ "events": [member(&app, &room, 2, "join", 0), message(&app, &room, 2)] });
            let writes = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&writes);
            app.faults.set(move |attempt| {
                let is_write = ["UpdateItem", "PutItem"].contains(&attempt.operation);
                let now = is_write && count.fetch_add(1, Ordering::SeqCst) == step;
                if now { Fault::DoAndRefuse } else { Fault::None }
            });
            let first = push(&app, "1", &body).await;
            app.faults.clear();
            if writes.load(Ordering::SeqCst) <= step {
                assert_eq!(first.status, 200);
                break;
            }
            died += 1;
            assert_eq!(first.status, 500, "{}", first.body);
            let _ = push(&app, "1", &body).await.expect(200);
            tallied(&app).await;
            assert_eq!(seen(&app, &bob, &room).await, (true, 2), "step {step}");
            let answer = app.post_as(&bob, "/api/auth/update-user-info", json!({ "username": "bob" })).await;
            answer.expect_error(409, "username_locked");
            assert_eq!(stats(&app, &ada, &room).await["active_members"], 2, "step {step}");
        }
        assert!(died >= 5, "{died}");
    }
}
