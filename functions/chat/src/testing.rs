//! The test app and the helpers that the endpoint tests share.

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline_testing::{Builder, TestApp, User};

pub fn builder() -> Builder {
    let routers = [login::router, profile::router, teams::router, predictions::router, crate::router];
    TestApp::serving(&routers)
}

/// Starts an app with the sample league and the users alice (id 1), bob (id 2) and carol (id 3).
pub async fn app() -> (TestApp, [User; 3]) {
    let app = builder().start().await;
    app.invoke(feed::handle, league()).await;
    let users = [app.user("alice").await, app.user("bob").await, app.user("carol").await];
    process_changes(&app).await;
    (app, users)
}

/// Returns the sample league as a document for `feed`.
pub fn league() -> Value {
    serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap()
}

/// Lets `tally` process all changes so far, and then the changes that `tally` made itself.
pub async fn process_changes(app: &TestApp) {
    let tables = &app.config.tables;
    for table in
        [&tables.users, &tables.predictions, &tables.rooms, &tables.predictions, &tables.rooms, &tables.rooms]
    {
        let report = app.invoke(tally::handle, app.changes(table).await).await;
        assert_eq!(report["batchItemFailures"], json!([]));
    }
}

/// Returns the names of the rooms in a list.
pub fn names(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|room| room["name"].as_str().unwrap()).collect()
}

/// Returns one room of the user's list, or `None` if the list does not have the room.
pub async fn listed(user: &User, room: &str) -> Option<Value> {
    let list = user.lists_rooms().per_page(100).await.expect_data(200);
    list.as_array().unwrap().iter().find(|one| one["room_id"] == room).cloned()
}

/// Returns the statistics of a room, after `tally` has processed all changes.
pub async fn stats(app: &TestApp, user: &User, room: &str) -> Value {
    process_changes(app).await;
    user.views_member_stats(room).await.expect_data(200)
}

/// Returns a Matrix event that sets the membership of a user, dated `seconds` from now.
pub fn membership_event(app: &TestApp, room: &str, chat_id: &str, membership: &str, seconds: i64) -> Value {
    let sender = if membership == "join" { chat_id } else { "@moderator:touchline.local" };
    json!({
        "type": "m.room.member", "room_id": room, "sender": sender,
        "state_key": chat_id, "content": { "membership": membership },
        "origin_server_ts": (app.clock.now() + TimeDelta::seconds(seconds)).timestamp_millis(),
    })
}

/// Returns a Matrix event for a message of `sender`.
pub fn message_event(app: &TestApp, room: &str, sender: &User) -> Value {
    json!({
        "type": "m.room.message", "room_id": room, "sender": sender.chat_id(),
        "content": { "msgtype": "m.text", "body": "Goal!" },
        "origin_server_ts": app.clock.now().timestamp_millis(),
    })
}
