use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::TimeDelta;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use touchline_testing::{Fault, TestApp, User};

use crate::testing::{app, builder, listed, membership_event, message_event, process_changes, stats};

async fn push(app: &TestApp, transaction: &str, events: &[Value]) {
    assert_eq!(app.homeserver().pushes(transaction, events).await.expect(200), json!({}));
    process_changes(app).await;
}

/// Returns whether the user has joined the room, and how many members the room has.
async fn joined_and_count(user: &User, room: &str) -> (bool, u64) {
    let room = listed(user, room).await.unwrap();
    (room["is_joined"].as_bool().unwrap(), room["member_count"].as_u64().unwrap())
}

#[tokio::test]
async fn only_the_homeserver_can_push() {
    let (app, _) = app().await;
    let no_events: [Value; 0] = [];
    for token in ["", "x", "hs-token-of-the-testz", "hs-token-of-the-tests2"] {
        app.with_token(token).pushes("1", no_events.clone()).await.expect_matrix_error(403, "M_FORBIDDEN");
    }
    app.anonymous().pushes("1", no_events.clone()).await.expect_matrix_error(401, "M_MISSING_TOKEN");
    // Without a configured token, every token is rejected, even an empty token.
    let app = builder().variable("CHAT_HS_TOKEN", "").start().await;
    app.with_token("").pushes("1", no_events).await.expect_matrix_error(403, "M_FORBIDDEN");
}

#[tokio::test]
async fn membership_changes_on_the_homeserver_are_stored() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    let to = |membership, seconds| membership_event(&app, &room, bob.chat_id(), membership, seconds);
    push(&app, "1", &[to("join", 0)]).await;
    assert_eq!(joined_and_count(&bob, &room).await, (true, 2));
    push(&app, "2", &[to("leave", 1)]).await;
    assert_eq!(joined_and_count(&bob, &room).await, (false, 1));
    // Of two events about the same user in one transaction, the last one counts.
    push(&app, "3", &[to("join", 2), to("ban", 3)]).await;
    assert_eq!(joined_and_count(&bob, &room).await, (false, 1));
    let den = alice.creates_room("Den").private().await.room_id();
    push(&app, "4", &[membership_event(&app, &den, bob.chat_id(), "invite", 4)]).await;
    bob.joins(&den).await.expect(200);
}

#[tokio::test]
async fn a_join_of_a_new_user_is_stored_although_eventually_consistent_reads_miss_the_user() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    app.faults.set(|_| Fault::Miss);
    let join = membership_event(&app, &room, bob.chat_id(), "join", 0);
    app.homeserver().pushes("1", [join]).await.expect(200);
    app.faults.clear();
    process_changes(&app).await;
    assert_eq!(joined_and_count(&bob, &room).await, (true, 2));
    bob.updates_profile().username("robert").await.expect_error(409, "username_locked");
}

/// The second transaction reaches an environment whose clock is behind the clock of the first one.
#[tokio::test]
async fn membership_changes_keep_their_order_if_the_clock_of_the_homeserver_is_ahead() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    let to = |membership, seconds| membership_event(&app, &room, bob.chat_id(), membership, seconds);
    let (join, leave) = (to("join", 3), to("leave", 4));
    push(&app, "1", &[join]).await;
    app.clock.advance(TimeDelta::milliseconds(-800));
    push(&app, "2", &[leave]).await;
    assert_eq!(joined_and_count(&bob, &room).await, (false, 1));
}

#[tokio::test]
async fn only_users_who_joined_with_a_matrix_client_cannot_change_their_username() {
    let (app, [alice, bob, carol]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    let join = membership_event(&app, &room, bob.chat_id(), "join", 0);
    let invite = membership_event(&app, &room, carol.chat_id(), "invite", 0);
    push(&app, "1", &[join, invite]).await;
    bob.updates_profile().username("robert").await.expect_error(409, "username_locked");
    carol.updates_profile().username("caroline").await.expect(200);
}

#[tokio::test]
async fn a_message_updates_the_last_activity_and_an_older_message_does_not() {
    let (app, [alice, ..]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    process_changes(&app).await;
    let last_activity = async || listed(&alice, &room).await.unwrap()["last_activity"].clone();
    let (old, before) = (message_event(&app, &room, &alice), last_activity().await);
    app.clock.advance(TimeDelta::minutes(5));
    let mut future = message_event(&app, &room, &alice);
    future["origin_server_ts"] = json!(9_999_999_999_999_i64);
    push(&app, "1", &[future]).await;
    let after = last_activity().await;
    assert!(after.as_str() > before.as_str(), "{before} {after}");
    assert_eq!(after, app.clock.now().format("%Y-%m-%dT%H:%M:%SZ").to_string(), "no activity in the future");
    push(&app, "2", &[old]).await;
    assert_eq!(last_activity().await, after);
}

#[tokio::test]
async fn redelivered_or_older_events_do_not_change_a_membership() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    let to = |membership, seconds| membership_event(&app, &room, bob.chat_id(), membership, seconds);
    let join = [to("join", -10)];
    push(&app, "1", &join).await;
    push(&app, "1", &join).await;
    assert_eq!(joined_and_count(&bob, &room).await, (true, 2));
    push(&app, "2", &[to("leave", -9)]).await;
    for id in ["1", "3"] {
        push(&app, id, &join).await;
        assert_eq!(joined_and_count(&bob, &room).await, (false, 1), "transaction {id}");
    }
    // A reinstalled homeserver starts from transaction 1 again, with other events.
    push(&app, "1", &[to("join", -8)]).await;
    assert_eq!(joined_and_count(&bob, &room).await, (true, 2));
}

/// A moderator on another server can send any time, and the clock of our homeserver can be set back.
#[tokio::test]
async fn events_take_effect_in_the_order_of_the_homeserver_whatever_their_times_say() {
    for sender in ["@moderator:elsewhere.example", "@alice:touchline.local"] {
        for time in [0, -1, 4_102_444_800_000_i64] {
            let (app, [alice, bob, _]) = app().await;
            let room = alice.creates_room("Stand").await.room_id();
            let to = |membership, seconds| membership_event(&app, &room, bob.chat_id(), membership, seconds);
            push(&app, "1", &[to("join", 0)]).await;
            let mut kick = to("leave", 0);
            kick["sender"] = json!(sender);
            kick["origin_server_ts"] = json!(time);
            push(&app, "2", std::slice::from_ref(&kick)).await;
            assert_eq!(joined_and_count(&bob, &room).await, (false, 1), "{sender} {time}");
            // The kick does not block later events, and does not undo them when it is redelivered.
            push(&app, "3", &[to("join", 1)]).await;
            for id in ["2", "4"] {
                push(&app, id, std::slice::from_ref(&kick)).await;
                assert_eq!(joined_and_count(&bob, &room).await, (true, 2), "{sender} {time}");
            }
        }
    }
}

/// The homeserver does not wait for a delivery whose connection broke. It delivers the transaction again and then the next
/// one, while the first delivery still runs.
#[tokio::test]
async fn a_delivery_that_ends_after_the_next_transaction_changes_nothing() {
    let (app, [alice, bob, _]) = app().await;
    for interrupted in 1.. {
        let room = alice.creates_room("Stand").await.room_id();
        let to = |membership, seconds| membership_event(&app, &room, bob.chat_id(), membership, seconds);
        let (mut join, leave) = ([to("join", 0)], [to("leave", 1)]);
        join[0]["event_id"] = json!(format!("$join{interrupted}"));
        // The homeserver writes the age of an event at the time of sending.
        let mut join_again = join.clone();
        join_again[0]["unsigned"] = json!({ "age": 1_234 });
        let calls = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&calls);
        let others = (app.homeserver().pushes("1", &join_again), app.homeserver().pushes("2", &leave));
        let mut others = Some(others);
        app.faults.interrupt(move |_| {
            let is_now = count.fetch_add(1, Ordering::Relaxed) + 1 == interrupted;
            let (again, next) = is_now.then(|| others.take()).flatten()?;
            let pushed = async move {
                again.await.expect(200);
                next.await.expect(200);
            };
            Some(pushed.boxed())
        });
        app.homeserver().pushes("1", &join).await.expect(200);
        app.faults.clear();
        if calls.load(Ordering::Relaxed) < interrupted {
            break;
        }
        process_changes(&app).await;
        assert_eq!(joined_and_count(&bob, &room).await, (false, 1), "interrupted before call {interrupted}");
    }
}

#[tokio::test]
async fn malformed_bodies_are_400() {
    let (app, _) = app().await;
    let no_events: [Value; 0] = [];
    for body in ["{", "", "[]", "{}", r#"{"events":7}"#, r#"{"events":{"a":1}}"#, "null"] {
        let push = app.homeserver().pushes("1", no_events.clone());
        let response = push.bytes("application/json", body).await;
        assert_eq!(response.status, 400, "{body}: {}", response.body);
        assert!(response.body["errcode"].as_str().unwrap().starts_with("M_"), "{}", response.body);
    }
}

#[tokio::test]
async fn malformed_events_and_events_of_unknown_rooms_or_users_are_ignored() {
    let (app, [alice, bob, carol]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    let mut malformed = membership_event(&app, &room, carol.chat_id(), "join", 0);
    malformed["content"] = json!(7);
    let events = [
        json!(null),
        json!("x"),
        json!({ "type": "m.room.message" }),
        malformed,
        membership_event(&app, "!unknown:touchline.local", bob.chat_id(), "join", 0),
        membership_event(&app, &room, "@unknown:touchline.local", "join", 0),
        membership_event(&app, &room, bob.chat_id(), "join", 0),
    ];
    push(&app, "1", &events).await;
    assert_eq!(joined_and_count(&bob, &room).await, (true, 2));
}

/// In each round, a different write fails: the store carries out the write, then reports an error. The
/// homeserver retries the transaction.
#[tokio::test]
async fn a_transaction_that_failed_half_way_is_completed_by_its_retry() {
    let mut failures = 0;
    for step in 0.. {
        let (app, [alice, bob, _]) = app().await;
        let room = alice.creates_room("Stand").await.room_id();
        app.clock.advance(TimeDelta::seconds(1));
        let join = membership_event(&app, &room, bob.chat_id(), "join", 0);
        let transaction = app.homeserver().pushes("1", [join, message_event(&app, &room, &bob)]);
        let writes = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&writes);
        app.faults.set(move |attempt| {
            let is_write = ["UpdateItem", "PutItem"].contains(&attempt.operation);
            let fails = is_write && count.fetch_add(1, Ordering::SeqCst) == step;
            if fails { Fault::FailAfter } else { Fault::None }
        });
        let first = transaction.clone().await;
        app.faults.clear();
        if writes.load(Ordering::SeqCst) <= step {
            first.expect(200);
            break;
        }
        failures += 1;
        first.expect(500);
        transaction.await.expect(200);
        process_changes(&app).await;
        assert_eq!(joined_and_count(&bob, &room).await, (true, 2), "step {step}");
        bob.updates_profile().username("robert").await.expect_error(409, "username_locked");
        assert_eq!(stats(&app, &alice, &room).await["active_members"], 2, "step {step}");
    }
    assert!(failures >= 5, "{failures}");
}

/// Matrix rejects invitations of members, so an invitation after a join is an old event.
#[tokio::test]
async fn an_invitation_does_not_replace_a_joined_membership_unless_the_user_has_left() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    let to = |membership, seconds| membership_event(&app, &room, bob.chat_id(), membership, seconds);
    push(&app, "1", &[to("join", 0)]).await;
    push(&app, "2", &[to("invite", 1)]).await;
    assert_eq!(joined_and_count(&bob, &room).await, (true, 2));
    push(&app, "3", &[to("leave", 2), to("invite", 3)]).await;
    assert_eq!(joined_and_count(&bob, &room).await, (false, 1));
    push(&app, "4", &[to("leave", 4), to("join", 5), to("invite", 6)]).await;
    assert_eq!(joined_and_count(&bob, &room).await, (true, 2));
}

#[tokio::test]
async fn an_event_about_another_spelling_of_a_username_changes_nothing() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    bob.joins(&room).await.expect(200);
    let other = bob.chat_id().to_uppercase().replace(":TOUCHLINE.LOCAL", ":touchline.local");
    push(&app, "1", &[membership_event(&app, &room, &other, "leave", 1)]).await;
    assert_eq!(joined_and_count(&bob, &room).await, (true, 2));
}
