//! Tests of chat rooms. They run with `LocalChat`, which carries no messages, or with a real homeserver, whose
//! Matrix events arrive asynchronously.

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline_testing::User;

use crate::matrix_client::MatrixClient;
use crate::target::{HttpApi, eventually, unique_name};

async fn two_users() -> (User<HttpApi>, User<HttpApi>) {
    let app = HttpApi::under_test();
    (app.user("alice").await, app.user("bob").await)
}

/// Returns the room with this name from the user's list, or null if the list does not have the room.
async fn listed(user: &User<HttpApi>, name: &str) -> Value {
    let list = user.lists_rooms().search(name).await.expect_data(200);
    list.as_array().unwrap().iter().find(|room| room["name"] == name).cloned().unwrap_or_default()
}

/// Waits until the room in the user's list has this many members, and returns the room.
async fn listed_with_members(user: &User<HttpApi>, name: &str, count: u32) -> Value {
    eventually(async || listed(user, name).await, |room| room["member_count"] == count).await
}

async fn stats(user: &User<HttpApi>, room: &str) -> Value {
    user.views_member_stats(room).await.expect_data(200)
}

#[tokio::test]
async fn rooms_are_created_joined_and_left() {
    let (alice, bob) = two_users().await;
    let event = alice.lists_events().per_page(1).await.expect_data(200)[0]["id"].clone();
    let name = unique_name();
    let request = alice.creates_room(&name).topic("Set pieces");
    let room = request.field("event_id", event.clone()).field("is_private", false).await.expect_data(201);
    let id = room["room_id"].as_str().unwrap();
    let server = alice.chat_id().split_once(':').unwrap().1;
    assert!(id.starts_with('!') && id.ends_with(&format!(":{server}")), "{id}");
    assert_eq!(
        room,
        json!({
            "room_id": id, "name": name, "topic": "Set pieces", "event_id": event,
            "creator_id": alice.id, "is_encrypted": false, "is_official": false, "join_rule": "public",
            "league": "match",
        })
    );

    assert_eq!(bob.joins(id).await.expect_data(200), json!({ "room_id": id, "membership": "join" }));
    bob.joins(id).await.expect_error(409, "already_a_member");
    let encoded = id.replace('!', "%21").replace(':', "%3A");
    alice.joins(&encoded).await.expect_error(409, "already_a_member");
    let seen = listed_with_members(&bob, &name, 2).await;
    assert_eq!((&seen["is_joined"], &seen["event"]["id"]), (&json!(true), &event));
    assert_eq!(bob.views_room(&encoded).await.expect_data(200), seen);

    assert_eq!(bob.leaves(id).await.expect_data(200), json!({ "room_id": id, "membership": "leave" }));
    assert_eq!(listed_with_members(&bob, &name, 1).await["is_joined"], false);
    bob.joins(id).await.expect(200);
}

#[tokio::test]
async fn a_private_room_is_visible_to_invited_users_only() {
    let (alice, bob) = two_users().await;
    let name = unique_name();
    let room = alice.creates_room(&name).private().await.room_id();
    bob.joins(&room).await.expect_error(403, "not_allowed");
    assert_eq!(listed(&bob, &name).await, Value::Null);
    bob.views_member_stats(&room).await.expect_error(403, "not_a_member");
    bob.lists_room_predictions(&room).await.expect_error(403, "not_a_member");
    bob.invites_to(&room).user(bob.id).await.expect_error(403, "not_a_member");

    let invited = alice.invites_to(&room).user(bob.id).await.expect_data(200);
    assert_eq!(invited, json!({ "room_id": room, "user_id": bob.id, "membership": "invite" }));
    let seen = eventually(async || listed(&bob, &name).await, Value::is_object).await;
    assert_eq!((&seen["is_joined"], &seen["is_encrypted"]), (&json!(false), &json!(true)));
    bob.views_member_stats(&room).await.expect_error(403, "not_a_member");

    bob.joins(&room).await.expect(200);
    bob.joins(&room).await.expect_error(409, "already_a_member");
    let stats = eventually(async || stats(&bob, &room).await, |stats| stats["total_members"] == 2).await;
    assert_eq!(stats["active_members"], 2);
}

#[tokio::test]
async fn the_room_list_reflects_activity_in_a_matrix_client() {
    let (alice, bob) = two_users().await;
    let name = unique_name();
    let room = alice.creates_room(&name).await.room_id();
    let client = MatrixClient(&bob);
    client.joins(&room).await;
    let seen = listed_with_members(&bob, &name, 2).await;
    assert_eq!(seen["is_joined"], true);
    bob.leaves(&room).await.expect(200);
    bob.joins(&room).await.expect(200);

    let last_activity =
        |room: &Value| room["last_activity"].as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    let before = last_activity(&seen);
    let write = async || {
        // Each attempt writes a new message. The list shows times in whole seconds, so a message in the same
        // second as `before` does not change `last_activity`.
        client.writes(&room, "Goal!").await;
        last_activity(&listed(&alice, &name).await)
    };
    eventually(write, |last| *last > before).await;

    client.leaves(&room).await;
    // A list reads the memberships first and the counts later, so a response can show only one of the two changes.
    let has_left = |room: &Value| room["member_count"] == 1 && room["is_joined"] == false;
    eventually(async || listed(&bob, &name).await, has_left).await;
}

#[tokio::test]
async fn a_member_who_was_away_is_active_again_after_a_message() {
    let ((alice, bob), store) = (two_users().await, HttpApi::store());
    let room = alice.creates_room(&unique_name()).await.room_id();
    bob.joins(&room).await.expect(200);
    let active = async |count: u32| {
        eventually(async || stats(&alice, &room).await, |stats| stats["active_members"] == count).await
    };
    active(2).await;

    let mut memberships = Vec::new();
    for shard in 0..4 {
        let (pk, sk) = (format!("room#{room}#{shard}"), format!("member#{}", bob.id));
        memberships.extend(store.find("rooms", &pk, &sk).await);
    }
    assert_eq!(memberships.len(), 1, "bob has one membership: {memberships:?}");
    let (table, membership) = &memberships[0];
    let long_ago = AttributeValue::N("20000".into());
    store.set(table, membership, "seen", long_ago).await;
    active(1).await;
    MatrixClient(&bob).writes(&room, "Goal!").await;
    active(2).await;
}

#[tokio::test]
async fn a_redelivered_transaction_counts_once_even_after_rejected_pushes_with_its_id() {
    let app = HttpApi::under_test();
    let (alice, bob) = two_users().await;
    let (name, transaction) = (unique_name(), unique_name());
    let room = alice.creates_room(&name).await.room_id();
    for token in ["wrong", "wrong-and-much-longer"] {
        let push = app.with_token(token).pushes(&transaction, json!([]));
        push.await.expect_matrix_error(403, "M_FORBIDDEN");
    }
    for body in [json!([]), json!({ "events": "x" }), json!({})] {
        app.homeserver().pushes(&transaction, json!([])).body(body).await.expect(400);
    }
    let join = json!({
        "type": "m.room.member", "room_id": room, "sender": bob.chat_id(), "state_key": bob.chat_id(),
        "content": { "membership": "join" }, "origin_server_ts": SystemClock.now().timestamp_millis(),
    });
    for _ in 0..3 {
        assert_eq!(app.homeserver().pushes(&transaction, [&join]).await.expect(200), json!({}));
    }
    assert_eq!(listed_with_members(&bob, &name, 2).await["is_joined"], true);
}

#[tokio::test]
async fn the_search_finds_a_room_by_any_part_of_its_name_in_any_case() {
    let alice = HttpApi::under_test().user("alice").await;
    let word = unique_name();
    let name = format!("The {} End", word.to_uppercase());
    alice.creates_room(&name).await.expect(201);
    for part in [&word[2..8], &word.to_uppercase(), &format!("{} end", &word[9..]), &word[1..]] {
        let hits = async || alice.lists_rooms().search(part).await.expect_data(200);
        let is_there = |hits: &Value| hits.as_array().unwrap().iter().any(|room| room["name"] == *name);
        eventually(hits, is_there).await;
    }
}

#[tokio::test]
async fn invalid_room_fields_are_422_and_an_unknown_event_is_404() {
    let alice = HttpApi::under_test().user("alice").await;
    for (field, value) in [
        ("name", json!("")),
        ("name", json!("x".repeat(101))),
        ("name", json!("a\u{7f}b")),
        ("topic", json!("x".repeat(501))),
        ("is_private", json!(1)),
    ] {
        alice.creates_room("a").field(field, value).await.expect_invalid(&[field]);
    }
    alice.creates_room("a").without("name").await.expect_invalid(&["name"]);
    alice.creates_room("a").about_event(u32::MAX).await.expect_error(404, "event_not_found");
}

#[tokio::test]
async fn unknown_room_ids_are_404() {
    let alice = HttpApi::under_test().user("alice").await;
    let mut ids = vec!["x", "!", "!a", "!:b", "%00", "!nobody:nowhere", "!%F0%9F%92%A5:b", "!a:b%0A"];
    // `tests/deployed` uses ministack. Its gateway decodes %2F to a slash, so the request would have another
    // path.
    if !HttpApi::is_deployed() {
        ids.push("..%2F..");
    }
    for id in ids {
        alice.joins(id).await.expect_error(404, "room_not_found");
        alice.leaves(id).await.expect_error(404, "room_not_found");
        alice.invites_to(id).user(1).await.expect_error(404, "room_not_found");
        alice.views_member_stats(id).await.expect_error(404, "room_not_found");
        alice.lists_room_predictions(id).await.expect_error(404, "room_not_found");
    }
}

#[tokio::test]
async fn invalid_query_parameters_of_the_room_list_are_422() {
    let alice = HttpApi::under_test().user("alice").await;
    for (parameter, value) in
        [("joined", "maybe"), ("event_id", "first"), ("per_page", "0"), ("cursor", "x"), ("search", "")]
    {
        alice.lists_rooms().query(parameter, value).await.expect_invalid(&[parameter]);
    }
}

#[tokio::test]
async fn a_username_cannot_change_after_the_user_creates_a_room() {
    let alice = HttpApi::under_test().user("alice").await;
    alice.updates_profile().username(&unique_name()).await.expect(200);
    alice.creates_room(&unique_name()).await.expect(201);
    alice.updates_profile().username(&unique_name()).await.expect_error(409, "username_locked");
}

#[tokio::test]
async fn new_chat_credentials_have_the_user_and_device_of_the_login() {
    let alice = HttpApi::under_test().user("alice").await;
    let fresh = alice.requests_chat_credentials().await.expect_data(200);
    for field in ["user_id", "device_id"] {
        assert_eq!(fresh[field], alice.credentials[field]);
    }
    assert!(alice.chat_id().starts_with(&format!("@{}:", alice.username)));
}
