//! The app and the requests that the tests of the endpoints share.

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline_testing::{Builder, TestApp, User};

pub fn builder() -> Builder {
    let routers = [login::router, profile::router, teams::router, predictions::router, crate::router];
    TestApp::serving(&routers)
}

/// An app with the sample league, and the users alice (1), bob (2) and carol (3).
pub async fn app() -> (TestApp, [User; 3]) {
    let app = builder().start().await;
    app.invoke(feed::handle, league()).await;
    let users = [app.user("alice").await, app.user("bob").await, app.user("carol").await];
    process_changes(&app).await;
    (app, users)
}

/// The sample league, as a document for the feed.
pub fn league() -> Value {
    serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap()
}

/// Lets `tally` process all changes so far, and then the changes that it made itself.
pub async fn process_changes(app: &TestApp) {
    let tables = &app.config.tables;
    for table in [&tables.users, &tables.predictions, &tables.rooms, &tables.predictions, &tables.rooms] {
        let report = app.invoke(tally::handle, app.changes(table).await).await;
        assert_eq!(report["batchItemFailures"], json!([]));
    }
}

/// The names of the rooms in a list.
pub fn names(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|room| room["name"].as_str().unwrap()).collect()
}

/// One room of the user's list.
pub async fn listed(user: &User, room: &str) -> Option<Value> {
    let list = user.lists_rooms().per_page(100).await.expect_data(200);
    list.as_array().unwrap().iter().find(|one| one["room_id"] == room).cloned()
}

/// The statistics of a room, after all changes are processed.
pub async fn stats(app: &TestApp, user: &User, room: &str) -> Value {
    process_changes(app).await;
    user.views_member_stats(room).await.expect_data(200)
}

/// A homeserver event: the membership of a user, so many seconds from now.
pub fn membership_event(app: &TestApp, room: &str, chat_id: &str, membership: &str, seconds: i64) -> Value {
    json!({
        "type": "m.room.member", "room_id": room, "sender": "@moderator:touchline.local",
        "state_key": chat_id, "content": { "membership": membership },
        "origin_server_ts": (app.clock.now() + TimeDelta::seconds(seconds)).timestamp_millis(),
    })
}

/// A homeserver event: a message by a user.
pub fn message_event(app: &TestApp, room: &str, sender: &User) -> Value {
    json!({
        "type": "m.room.message", "room_id": room, "sender": sender.chat_id(),
        "content": { "msgtype": "m.text", "body": "Goal!" },
        "origin_server_ts": app.clock.now().timestamp_millis(),
    })
}
