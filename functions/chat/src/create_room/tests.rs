use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;
use touchline_testing::{Fault, concurrently};

use crate::testing::{app, builder, listed, process_changes};

#[tokio::test]
async fn rooms_are_public_unless_they_are_created_private() {
    let (app, [alice, ..]) = app().await;
    let response = alice.creates_room(" Corner ").topic("Set pieces").about_event(1).await;
    let body = response.body.clone();
    let id = response.room_id();
    assert!(id.starts_with('!') && id.ends_with(":touchline.local"), "{id}");
    assert_eq!(
        body,
        json!({
            "message": "Room created.",
            "data": {
                "room_id": id, "name": "Corner", "topic": "Set pieces", "event_id": 1, "creator_id": 1,
                "is_encrypted": false, "join_rule": "public", "is_official": false, "league": "match",
            },
        })
    );
    let private = alice.creates_room("Den").private().await.expect_data(201);
    assert_eq!(
        private,
        json!({
            "room_id": private["room_id"], "name": "Den", "topic": "", "event_id": null, "creator_id": 1,
            "is_encrypted": true, "join_rule": "invite", "is_official": false, "league": "all",
        })
    );
    process_changes(&app).await;
    let room = listed(&alice, &id).await.unwrap();
    assert_eq!((&room["is_joined"], &room["member_count"]), (&json!(true), &json!(1)));
}

#[tokio::test]
async fn invalid_input_creates_no_room() {
    let (app, [alice, ..]) = app().await;
    for (field, value) in [
        ("name", json!("")),
        ("name", json!("x".repeat(101))),
        ("name", json!("a\u{7}b")),
        ("name", json!(7)),
        ("name", json!("\u{3164}")),
        ("name", json!("Corner\u{202E}")),
        ("name", json!("Official Corner")),
        ("name", json!("Fuck Corner")),
        ("topic", json!("Corner\u{200B}")),
        ("topic", json!("Fuck the Corner")),
        ("topic", json!("x".repeat(501))),
        ("is_private", json!("yes")),
        ("event_id", json!("one")),
    ] {
        alice.creates_room("Corner").field(field, value).await.expect_invalid(&[field]);
    }
    alice.creates_room("Corner").about_event(4_000_000_000).await.expect_error(404, "event_not_found");
    assert!(!app.dump().await.contains("Corner"));
}

/// Any look-alike of a match room's name could pass a check of names, so a flag tells which room is the match's.
#[tokio::test]
async fn a_room_of_a_user_with_the_name_of_a_match_room_is_not_official() {
    let (_app, [alice, ..]) = app().await;
    let listed = alice.lists_rooms().about_event(1).await.expect_data(200);
    let official = listed.as_array().unwrap().iter().find(|room| room["is_official"] == true).unwrap();
    let name = format!("🏆 {}", official["name"].as_str().unwrap());
    let room = alice.creates_room(&name).about_event(1).await.expect_data(201);
    assert_eq!(room["is_official"], false);
}

#[tokio::test]
async fn every_request_creates_a_room_unless_it_repeats_an_idempotency_key() {
    let (_app, [alice, bob, _]) = app().await;
    let first = alice.creates_room("Corner").await.room_id();
    let second = alice.creates_room("Corner").await.room_id();
    assert_ne!(first, second);

    let request = alice.creates_room("Corner").idempotency_key("k1");
    let created = request.clone().await;
    assert!(!created.is_replay());
    let created = created.expect(201);
    let replay = request.await;
    assert!(replay.is_replay());
    assert_eq!(replay.expect(200), created);
    alice.creates_room("Other").idempotency_key("k1").await.expect_error(422, "reference_reused");
    // Each user has their own keys, so bob's request with the key "k1" creates another room.
    let of_bob = bob.creates_room("Corner").idempotency_key("k1").await.room_id();
    assert_ne!(created["data"]["room_id"], of_bob);
    let too_long = alice.creates_room("Corner").idempotency_key(&"x".repeat(65)).await;
    too_long.expect_invalid(&["Idempotency-Key"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_with_one_key_create_one_room() {
    let (app, [alice, ..]) = app().await;
    let responses = concurrently(20, |_| {
        let request = alice.creates_room("Corner").idempotency_key("k");
        async move {
            loop {
                let response = request.clone().await;
                if response.status != 503 {
                    return response;
                }
            }
        }
    })
    .await;
    let ids: Vec<_> = responses.iter().map(|response| response.body["data"]["room_id"].clone()).collect();
    assert!(ids.iter().all(|id| id.is_string() && *id == ids[0]), "{ids:?}");
    assert_eq!(responses.iter().filter(|response| response.status == 201).count(), 1);
    assert_eq!(app.dump().await.matches("S(\"Corner\")").count(), 1);
}

/// Each write of the creation fails in turn, either before or after the store carries out the write.
#[tokio::test]
async fn the_next_request_resumes_a_creation_that_failed_half_way() {
    for fault in [Fault::FailBefore, Fault::FailAfter] {
        let mut failures = 0;
        for step in 0.. {
            let (app, [alice, ..]) = app().await;
            let writes = Arc::new(AtomicU32::new(0));
            let count = Arc::clone(&writes);
            app.faults.set(move |attempt| {
                let is_write = attempt.operation.starts_with("Update") || attempt.operation.contains("Write");
                if is_write && count.fetch_add(1, Ordering::SeqCst) == step { fault } else { Fault::None }
            });
            let request = alice.creates_room("Corner").private();
            let first = request.clone().await;
            app.faults.clear();
            if writes.load(Ordering::SeqCst) <= step {
                first.expect(201);
                break;
            }
            failures += 1;
            first.expect(500);
            let rooms = |dump: &str| dump.matches("S(\"Corner\")").count();
            // If the store carried out the last write, the room of the failed request exists, and the next
            // request creates a second room.
            let created = rooms(&app.dump().await);
            assert!(created == 0 || fault == Fault::FailAfter);
            request.await.expect(201);
            assert_eq!(rooms(&app.dump().await), created + 1, "step {step}");
        }
        assert_eq!(
            failures, 4,
            "four writes: the start of the creation, the count, the username lock and the room"
        );
    }
}

#[tokio::test]
async fn creating_a_room_while_the_homeserver_is_down_is_503() {
    let app = builder().with_chat_down().start().await;
    let alice = app.user("alice").await;
    alice.creates_room("Corner").await.expect_error(503, "chat_unavailable");
    assert!(!app.dump().await.contains("S(\"Corner\")"));
}
