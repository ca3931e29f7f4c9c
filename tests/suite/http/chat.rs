//! Rooms, on whichever chat network there is: one suite for the port that carries no messages and for a real
//! homeserver, which does things in its own time and by other clients.

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use touchline::ports::clock::{Clock as _, SystemClock};

use crate::target::{Answer, Elsewhere, Fan, Target, eventually, name};

const ROOMS: &str = "/api/auth/chat-rooms";

pub async fn made(fan: &Fan, name: &str, is_private: bool) -> String {
    let body = json!({ "name": name, "topic": "Talk", "is_private": is_private });
    let room = fan.post("/api/auth/chat-room", &body).await.expect(201);
    room["data"]["room_id"].as_str().unwrap().to_owned()
}

pub async fn act(fan: &Fan, room: &str, what: &str) -> Answer {
    fan.post(&format!("{ROOMS}/{room}/{what}"), &json!({})).await
}

/// A room as somebody sees it in the list.
pub async fn listed(fan: &Fan, name: &str) -> Value {
    let list = fan.get(&format!("{ROOMS}?search={name}")).await.expect(200);
    list["data"].as_array().unwrap().iter().find(|room| room["name"] == name).cloned().unwrap_or_default()
}

async fn stats(fan: &Fan, room: &str) -> Value {
    fan.get(&format!("{ROOMS}/{room}/member-stats")).await.expect(200)["data"].clone()
}

#[tokio::test]
async fn rooms_are_made_joined_and_left() {
    let (ada, bob) = (Target::fan().await, Target::fan().await);
    let event = ada.get("/api/auth/events?per_page=1").await.expect(200)["data"][0].clone();
    let title = name();
    let body = json!({ "name": title, "topic": "Set pieces", "event_id": event["id"], "is_private": false });
    let room = ada.post("/api/auth/chat-room", &body).await.expect(201)["data"].clone();
    let id = room["room_id"].as_str().unwrap();
    let server = ada.chat_id().split_once(':').unwrap().1;
    assert!(id.starts_with('!') && id.ends_with(&format!(":{server}")), "{id}");
    assert_eq!(
        room,
        json!({
            "room_id": id, "name": title, "topic": "Set pieces", "event_id": event["id"],
            "creator_id": ada.id(), "is_encrypted": false, "join_rule": "public",
        })
    );

    let joined = act(&bob, id, "join").await.expect(200);
    assert_eq!(joined["data"], json!({ "room_id": id, "membership": "join" }));
    act(&bob, id, "join").await.expect_error(409, "already_a_member");
    let encoded = id.replace('!', "%21").replace(':', "%3A");
    act(&ada, &encoded, "join").await.expect_error(409, "already_a_member");
    let seen = eventually(async || listed(&bob, &title).await, |room| room["member_count"] == 2).await;
    assert_eq!((&seen["is_joined"], &seen["event"]["id"]), (&json!(true), &event["id"]));

    let left = act(&bob, id, "leave").await.expect(200);
    assert_eq!(left["data"], json!({ "room_id": id, "membership": "leave" }));
    let seen = eventually(async || listed(&bob, &title).await, |room| room["member_count"] == 1).await;
    assert_eq!(seen["is_joined"], false);
    act(&bob, id, "join").await.expect(200);
}

#[tokio::test]
async fn a_private_room_is_for_the_invited() {
    let (ada, bob) = (Target::fan().await, Target::fan().await);
    let title = name();
    let room = made(&ada, &title, true).await;
    act(&bob, &room, "join").await.expect_error(403, "not_allowed");
    assert_eq!(listed(&bob, &title).await, Value::Null);
    for what in ["member-stats", "predictions"] {
        bob.get(&format!("{ROOMS}/{room}/{what}")).await.expect_error(403, "not_a_member");
    }
    let path = format!("{ROOMS}/{room}/invite");
    bob.post(&path, &json!({ "user_id": bob.id() })).await.expect_error(403, "not_a_member");
    let invited = ada.post(&path, &json!({ "user_id": bob.id() })).await.expect(200);
    assert_eq!(invited["data"], json!({ "room_id": room, "user_id": bob.id(), "membership": "invite" }));
    let seen = eventually(async || listed(&bob, &title).await, Value::is_object).await;
    assert_eq!((&seen["is_joined"], &seen["is_encrypted"]), (&json!(false), &json!(true)));
    bob.get(&format!("{ROOMS}/{room}/member-stats")).await.expect_error(403, "not_a_member");
    act(&bob, &room, "join").await.expect(200);
    act(&bob, &room, "join").await.expect_error(409, "already_a_member");
    assert_eq!(
        eventually(async || stats(&bob, &room).await, |stats| stats["total_members"] == 2).await["active_members"],
        2
    );
}

#[tokio::test]
async fn what_people_do_elsewhere_is_seen_here() {
    let (ada, bob) = (Target::fan().await, Target::fan().await);
    let title = name();
    let room = made(&ada, &title, false).await;
    bob.elsewhere(Elsewhere::Joins, &room).await;
    let seen = eventually(async || listed(&bob, &title).await, |room| room["member_count"] == 2).await;
    assert_eq!(seen["is_joined"], true);
    act(&bob, &room, "leave").await.expect(200);
    act(&bob, &room, "join").await.expect(200);

    let moment = |room: &Value| room["last_activity"].as_str().unwrap().parse::<DateTime<Utc>>().unwrap();
    let before = moment(&seen);
    let written = async || {
        // Seconds are all that is shown; the next message may be in the next one.
        bob.elsewhere(Elsewhere::Writes, &room).await;
        moment(&listed(&ada, &title).await)
    };
    eventually(written, |last| *last > before).await;

    bob.elsewhere(Elsewhere::Leaves, &room).await;
    let seen = eventually(async || listed(&bob, &title).await, |room| room["member_count"] == 1).await;
    assert_eq!(seen["is_joined"], false);
}

/// Somebody who has not been seen for long is not active, until they write.
#[tokio::test]
async fn whoever_writes_is_active() {
    let Some(dynamodb) = Target::dynamodb() else { return };
    let (ada, bob) = (Target::fan().await, Target::fan().await);
    let room = made(&ada, &name(), false).await;
    act(&bob, &room, "join").await.expect(200);
    eventually(async || stats(&ada, &room).await, |stats| stats["active_members"] == 2).await;

    let client = client(dynamodb);
    let tables = client.list_tables().send().await.unwrap();
    let mut aged = 0;
    for table in tables.table_names().iter().filter(|table| table.ends_with("-rooms")) {
        for shard in 0..4 {
            let place = client
                .update_item()
                .table_name(table)
                .key("pk", AttributeValue::S(format!("room#{room}#{shard}")))
                .key("sk", AttributeValue::S(format!("member#{}", bob.id())))
                .update_expression("SET seen = :long_ago")
                .condition_expression("attribute_exists(pk)")
                .expression_attribute_values(":long_ago", AttributeValue::N("20000".into()));
            aged += u32::from(place.send().await.is_ok());
        }
    }
    assert_eq!(aged, 1);
    eventually(async || stats(&ada, &room).await, |stats| stats["active_members"] == 1).await;
    bob.elsewhere(Elsewhere::Writes, &room).await;
    eventually(async || stats(&ada, &room).await, |stats| stats["active_members"] == 2).await;
}

pub fn client(url: &str) -> aws_sdk_dynamodb::Client {
    use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-west-1"))
        .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
        .endpoint_url(url)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

#[tokio::test]
async fn a_transaction_counts_once_and_a_bad_one_blocks_nothing() {
    let (ada, bob) = (Target::fan().await, Target::fan().await);
    let title = name();
    let (room, target, id) = (made(&ada, &title, false).await, Target::get(), name());
    for token in ["wrong", "wrong-and-much-longer"] {
        let answer = target.push_as(token, &id, json!({ "events": [] }).to_string()).await;
        assert_eq!((answer.status.as_u16(), &answer.body["errcode"]), (403, &json!("M_FORBIDDEN")));
    }
    for body in [json!([]), json!({ "events": "x" }), json!({})] {
        assert_eq!(target.push(&id, &body).await.status, 400, "{body}");
    }
    let joining = json!({ "events": [{
        "type": "m.room.member", "room_id": room, "sender": bob.chat_id(), "state_key": bob.chat_id(),
        "content": { "membership": "join" }, "origin_server_ts": SystemClock.now().timestamp_millis(),
    }] });
    for _ in 0..3 {
        assert_eq!(target.push(&id, &joining).await.expect(200), json!({}));
    }
    let seen = eventually(async || listed(&bob, &title).await, |room| room["member_count"] == 2).await;
    assert_eq!(seen["is_joined"], true);
}

#[tokio::test]
async fn search_finds_any_part_in_any_case() {
    let ada = Target::fan().await;
    let word = name();
    let title = format!("The {} End", word.to_uppercase());
    made(&ada, &title, false).await;
    for part in [&word[2..8], &word.to_uppercase(), &format!("{} end", &word[9..]), &word[1..]] {
        let path = format!("{ROOMS}?search={}", part.replace(' ', "%20"));
        let hits = async || ada.get(&path).await.expect(200)["data"].clone();
        let is_there = |hits: &Value| hits.as_array().unwrap().iter().any(|room| room["name"] == *title);
        eventually(hits, is_there).await;
    }
}

#[tokio::test]
async fn nonsense_is_refused_and_never_breaks_anything() {
    let ada = Target::fan().await;
    for (body, field) in [
        (json!({}), "name"),
        (json!({ "name": "" }), "name"),
        (json!({ "name": "x".repeat(101) }), "name"),
        (json!({ "name": "a\u{7f}b" }), "name"),
        (json!({ "name": "a", "topic": "x".repeat(501) }), "topic"),
        (json!({ "name": "a", "is_private": 1 }), "is_private"),
    ] {
        let answer = ada.post("/api/auth/chat-room", &body).await;
        answer.expect_error(422, "validation_error");
        assert!(answer.body["errors"][field][0].is_string(), "{}", answer.body);
    }
    let body = json!({ "name": "a", "event_id": 4_294_967_295_u32 });
    ada.post("/api/auth/chat-room", &body).await.expect_error(404, "event_not_found");
    let mut ids = vec!["x", "!", "!a", "!:b", "%00", "!nobody:nowhere", "!%F0%9F%92%A5:b", "!a:b%0A"];
    // Where paths arrive as they are: ministack's gateway takes %2F for another part of the path.
    if !Target::is_deployed() {
        ids.push("..%2F..");
    }
    for id in ids {
        for what in ["join", "leave"] {
            act(&ada, id, what).await.expect_error(404, "room_not_found");
        }
        ada.post(&format!("{ROOMS}/{id}/invite"), &json!({ "user_id": 1 }))
            .await
            .expect_error(404, "room_not_found");
        for what in ["member-stats", "predictions"] {
            ada.get(&format!("{ROOMS}/{id}/{what}")).await.expect_error(404, "room_not_found");
        }
    }
    for query in ["joined=maybe", "event_id=first", "per_page=0", "cursor=nonsense", "search="] {
        ada.get(&format!("{ROOMS}?{query}")).await.expect_error(422, "validation_error");
    }
}

#[tokio::test]
async fn a_name_that_is_known_in_rooms_stays() {
    let ada = Target::fan().await;
    let body = json!({ "username": name() });
    ada.post("/api/auth/update-user-info", &body).await.expect(200);
    made(&ada, &name(), false).await;
    let body = json!({ "username": name() });
    ada.post("/api/auth/update-user-info", &body).await.expect_error(409, "username_locked");
}

#[tokio::test]
async fn credentials_are_of_the_form_that_clients_expect() {
    let ada = Target::fan().await;
    let first = &ada.login["matrix_credentials"];
    let again = ada.post("/api/auth/chat/credentials", &json!({})).await.expect(200)["data"].clone();
    assert_eq!((&again["user_id"], &again["device_id"]), (&first["user_id"], &first["device_id"]));
    let username = ada.login["user"]["username"].as_str().unwrap();
    assert!(ada.chat_id().starts_with(&format!("@{username}:")));
}
