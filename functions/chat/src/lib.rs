//! Chat rooms: making, finding, joining, leaving, inviting; and what the homeserver tells of them.

mod create_room;
mod credentials;
mod invite;
mod join;
mod leave;
mod list_rooms;
mod member_stats;
mod ping;
mod query_room;
mod query_user;
mod room_event;
mod transaction;

use touchline::domain::{Room, RoomId, User, UserId};
use touchline::storage::Reads;
use touchline::{App, Error, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app)
        .on(create_room::handle)
        .on(list_rooms::handle)
        .on(join::handle)
        .on(leave::handle)
        .on(invite::handle)
        .on(member_stats::handle)
        .on(credentials::handle)
        .on(transaction::handle)
        .on(query_user::handle)
        .on(query_room::handle)
        .on(ping::handle)
}

/// A session outlives its user's record only by a mistake of ours.
const NO_RECORD: Error = Error::Broken("a session without its user's record");

/// The room that a path names.
async fn room(app: &App, id: &RoomId) -> Result<Room, Error> {
    app.store.room(id).await?.ok_or(Error::RoomNotFound)
}

/// Who asks.
async fn caller(app: &App, id: UserId) -> Result<User, Error> {
    app.store.user(id, Reads::Eventual).await?.ok_or(NO_RECORD)
}

/// What the tests of the endpoints share.
#[cfg(test)]
mod testing {
    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::{Answer, Builder, HS_TOKEN, TestApp};

    pub const ROOMS: &str = "/api/auth/chat-rooms";

    pub fn builder() -> Builder {
        let routers = [login::router, profile::router, teams::router, predictions::router, crate::router];
        TestApp::serving(&routers)
    }

    /// The sample league, imported, and users 1 to 3 with their tokens.
    pub async fn app() -> (TestApp, [String; 3]) {
        let app = builder().start().await;
        let league = serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
        feed::handle(app.app.clone(), league).await.unwrap();
        let tokens = [app.register(1).await, app.register(2).await, app.register(3).await];
        tallied(&app).await;
        (app, tokens)
    }

    /// Lets `tally` see every change there ever was, once more, and what comes of them.
    pub async fn tallied(app: &TestApp) {
        let tables = &app.app.config.tables;
        for table in [&tables.users, &tables.predictions, &tables.rooms, &tables.predictions, &tables.rooms] {
            let answer = tally::handle(app.app.clone(), app.changes(table).await).await.unwrap();
            assert_eq!(answer["batchItemFailures"], json!([]));
        }
    }

    pub async fn made(app: &TestApp, token: &str, name: &str, is_private: bool) -> String {
        let body = json!({ "name": name, "is_private": is_private });
        let room = app.post_as(token, "/api/auth/chat-room", body).await.expect(201);
        room["data"]["room_id"].as_str().unwrap().to_owned()
    }

    pub async fn act(app: &TestApp, token: &str, room: &str, what: &str) -> Answer {
        app.post_as(token, &format!("{ROOMS}/{room}/{what}"), json!({})).await
    }

    pub async fn invite(app: &TestApp, token: &str, room: &str, whom: Value) -> Answer {
        app.post_as(token, &format!("{ROOMS}/{room}/invite"), whom).await
    }

    pub async fn list(app: &TestApp, token: &str, query: &str) -> Value {
        app.get_as(token, &format!("{ROOMS}?{query}")).await.expect(200)
    }

    pub fn names(list: &Value) -> Vec<&str> {
        list["data"].as_array().unwrap().iter().map(|room| room["name"].as_str().unwrap()).collect()
    }

    /// One room of a list.
    pub async fn listed(app: &TestApp, token: &str, room: &str) -> Option<Value> {
        let list = list(app, token, "per_page=100").await;
        list["data"].as_array().unwrap().iter().find(|one| one["room_id"] == room).cloned()
    }

    pub async fn stats(app: &TestApp, token: &str, room: &str) -> Value {
        tallied(app).await;
        app.get_as(token, &format!("{ROOMS}/{room}/member-stats")).await.expect(200)["data"].clone()
    }

    /// The homeserver tells something.
    pub async fn push(app: &TestApp, id: &str, body: &Value) -> Answer {
        push_as(app, HS_TOKEN, id, body.to_string().as_bytes()).await
    }

    pub async fn push_as(app: &TestApp, token: &str, id: &str, body: &[u8]) -> Answer {
        let path = format!("/_matrix/app/v1/transactions/{id}");
        app.send("PUT", &path, &[("authorization", &format!("Bearer {token}"))], body).await
    }

    /// Somebody's membership, as an event of the chat network, so many seconds from now.
    pub fn member(app: &TestApp, room: &str, user: u32, to: &str, seconds: i64) -> Value {
        json!({
            "type": "m.room.member", "room_id": room, "sender": "@somebody:touchline.local",
            "state_key": format!("@fan.{user}:touchline.local"), "content": { "membership": to },
            "origin_server_ts": (app.clock.now() + TimeDelta::seconds(seconds)).timestamp_millis(),
        })
    }

    pub fn message(app: &TestApp, room: &str, user: u32) -> Value {
        json!({
            "type": "m.room.message", "room_id": room, "sender": format!("@fan.{user}:touchline.local"),
            "content": { "msgtype": "m.text", "body": "Goal!" },
            "origin_server_ts": app.clock.now().timestamp_millis(),
        })
    }
}
