use chrono::TimeDelta;
use serde_json::json;
use touchline::domain::{RoomId, UserId};
use touchline_testing::{Fault, HomeserverStandIn, concurrently};

use crate::testing::{app, builder, listed, membership_event, process_changes};

const UNKNOWN: &str = "ABCDEFGH2345";

#[tokio::test]
async fn a_code_lets_users_join_a_private_room_again_and_again() {
    let (app, [alice, bob, carol]) = app().await;
    let room = alice.creates_room("Den").private().await.room_id();
    let code = alice.creates_invite_link(&room).await.link_code();
    bob.joins(&room).await.expect_error(403, "not_allowed");
    let joined = json!({
        "message": "You joined the room.",
        "data": { "room_id": room, "membership": "join" },
    });
    for code in [&code, &code, &code.to_lowercase()] {
        assert_eq!(bob.accepts_invite_link(code).await.expect(200), joined);
    }
    assert_eq!(alice.accepts_invite_link(&code).await.expect(200), joined, "the maker is a member");
    carol.accepts_invite_link(&code).await.expect(200);
    process_changes(&app).await;
    assert_eq!(listed(&bob, &room).await.unwrap()["member_count"], 3);
    // A user who has left, or was kicked, can come back: the code is the right to join.
    bob.leaves(&room).await.expect(200);
    bob.accepts_invite_link(&code).await.expect(200);
    let kick = membership_event(&app, &room, carol.chat_id(), "leave", 0);
    app.homeserver().pushes("kick", [kick]).await.expect(200);
    carol.accepts_invite_link(&code).await.expect(200);
    process_changes(&app).await;
    assert_eq!(listed(&bob, &room).await.unwrap()["member_count"], 3);
}

#[tokio::test]
async fn wrong_expired_and_revoked_codes_have_the_same_error() {
    let (app, [alice, bob, _]) = app().await;
    let [den, lair] =
        [alice.creates_room("Den").private().await.room_id(), alice.creates_room("Lair").await.room_id()];
    let revoked = alice.creates_invite_link(&den).await.link_code();
    alice.revokes_invite_link(&den).await.expect(200);
    let expired = alice.creates_invite_link(&lair).field("expires_in_hours", 1).await.link_code();
    app.clock.advance(TimeDelta::hours(1));
    let malformed = ["x", "ABCDEFGH234", "ABCDEFGH23456", "%00", "ABCDEFGH234%C3%A9"].map(str::to_owned);
    let mut bodies = Vec::new();
    for code in [revoked, expired, UNKNOWN.to_owned()].into_iter().chain(malformed) {
        let response = bob.accepts_invite_link(&code).await;
        response.expect_error(404, "invite_link_not_found");
        bodies.push(response.body);
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
}

#[tokio::test]
async fn a_link_ends_with_the_membership_or_the_suspension_of_its_maker_and_with_the_room() {
    let (app, [alice, bob, carol]) = app().await;
    let room = alice.creates_room("Den").private().await.room_id();
    let of_alice = alice.creates_invite_link(&room).await.link_code();
    bob.accepts_invite_link(&of_alice).await.expect(200);
    let code = bob.creates_invite_link(&room).await.link_code();
    let rejected =
        || async { carol.accepts_invite_link(&code).await.expect_error(404, "invite_link_not_found") };
    bob.leaves(&room).await.expect(200);
    rejected().await;
    bob.accepts_invite_link(&of_alice).await.expect(200);
    app.store.suspend_user(UserId(bob.id), app.clock.now()).await.unwrap();
    rejected().await;
    app.store.restore_user(UserId(bob.id)).await.unwrap();
    app.store.remove_room(&RoomId::parse(&room).unwrap(), app.clock.now()).await.unwrap();
    rejected().await;
    alice.creates_invite_link(&room).await.expect_error(404, "room_not_found");
}

#[tokio::test]
async fn a_block_between_the_caller_and_the_maker_ends_the_link_for_the_caller() {
    let (_app, [alice, bob, carol]) = app().await;
    let room = alice.creates_room("Den").private().await.room_id();
    let code = alice.creates_invite_link(&room).await.link_code();
    alice.blocks(bob.id).await.expect(200);
    // Bob must not learn that alice has blocked him.
    bob.accepts_invite_link(&code).await.expect_error(404, "invite_link_not_found");
    carol.blocks(alice.id).await.expect(200);
    carol.accepts_invite_link(&code).await.expect_error(403, "not_allowed");
    carol.unblocks(alice.id).await.expect(200);
    carol.accepts_invite_link(&code).await.expect(200);
}

#[tokio::test]
async fn the_limit_of_rooms_holds_for_links() {
    let app = builder().variable("MAX_JOINED_ROOMS", "1").start().await;
    let [alice, bob] = [app.user("alice").await, app.user("bob").await];
    let room = alice.creates_room("Den").private().await.room_id();
    let code = alice.creates_invite_link(&room).await.link_code();
    alice.accepts_invite_link(&code).await.expect(200);
    let own = bob.creates_room("Lair").await.room_id();
    bob.accepts_invite_link(&code).await.expect_error(422, "too_many_rooms");
    bob.leaves(&own).await.expect(200);
    app.clock.advance(TimeDelta::seconds(2));
    bob.accepts_invite_link(&code).await.expect(200);
}

#[tokio::test]
async fn the_homeserver_gets_an_invitation_and_a_join_for_a_private_room() {
    let homeserver = HomeserverStandIn::start().await;
    let app = builder()
        .variable("CHAT_HOMESERVER_URL", homeserver.url())
        .variable("CHAT_AS_TOKEN", "as-token-of-the-tests")
        .start()
        .await;
    let [alice, bob] = [app.user("alice").await, app.user("bob").await];
    let carol = app.user("carol").await;
    for (is_private, requests) in [(true, vec!["invite", "join"]), (false, vec!["join"])] {
        let create = alice.creates_room("Den");
        let room = if is_private { create.private() } else { create }.await.room_id();
        let code = alice.creates_invite_link(&room).await.link_code();
        let _ = homeserver.take_requests();
        bob.accepts_invite_link(&code).await.expect(200);
        let named = |request: &String| match request.as_str() {
            request if request == format!("POST rooms/{room}/invite") => Some("invite"),
            request if request == format!("POST join/{room}") => Some("join"),
            _ => None,
        };
        let sent: Vec<&str> = homeserver.take_requests().iter().filter_map(named).collect();
        assert_eq!(sent, requests);
        homeserver.set_down(true);
        carol.accepts_invite_link(&code).await.expect_error(503, "chat_unavailable");
        homeserver.set_down(false);
    }
}

#[tokio::test]
async fn a_user_can_enter_fifty_codes_a_day() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Den").private().await.room_id();
    let code = alice.creates_invite_link(&room).await.link_code();
    for n in 0..50 {
        for _ in 0..2 {
            let wrong = bob.accepts_invite_link(&format!("ABCDEFGHIJ{n:02}")).await;
            wrong.expect_error(404, "invite_link_not_found");
        }
    }
    let limited = bob.accepts_invite_link(&code).await;
    limited.expect_error(429, "rate_limited");
    assert_eq!(limited.message(), "You can use 50 invite links a day. Try again after midnight UTC.");
    app.clock.advance(TimeDelta::days(1));
    bob.accepts_invite_link(&code).await.expect(200);
}

#[tokio::test]
async fn wrong_codes_are_limited_per_network_and_right_ones_are_not() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Den").private().await.room_id();
    let code = alice.creates_invite_link(&room).await.link_code();
    let address = "203.0.113.50";
    for _ in 0..10 {
        bob.accepts_invite_link(&code).from_address(address).await.expect(200);
    }
    for guesser in 0..6 {
        let guesser = app.user(&format!("guesser.{guesser}")).await;
        for n in 0..50 {
            let guess = guesser.accepts_invite_link(&format!("ABCDEFGHIJ{n:02}")).from_address(address);
            guess.await.expect_error(404, "invite_link_not_found");
        }
    }
    let carol = app.user("carla").await;
    carol.accepts_invite_link(&code).from_address(address).await.expect_error(429, "rate_limited");
    carol.accepts_invite_link(&code).from_address("203.0.113.51").await.expect(200);
    app.clock.advance(TimeDelta::hours(1));
    carol.accepts_invite_link(&code).from_address(address).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_of_one_user_all_succeed_and_count_once() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Den").private().await.room_id();
    let code = alice.creates_invite_link(&room).await.link_code();
    for response in concurrently(10, |_| bob.accepts_invite_link(&code)).await {
        response.expect(200);
    }
    process_changes(&app).await;
    assert_eq!(listed(&bob, &room).await.unwrap()["member_count"], 2);
}

#[tokio::test]
async fn a_join_that_stops_at_any_store_call_succeeds_at_the_next_try() {
    for fault in [Fault::LoseResponse, Fault::FailAfter] {
        for failing in 0..16 {
            let (app, [alice, bob, _]) = app().await;
            let room = alice.creates_room("Den").private().await.room_id();
            let code = alice.creates_invite_link(&room).await.link_code();
            let mut calls = 0;
            app.faults.set(move |attempt| {
                calls += u32::from(attempt.number == 1);
                if calls == failing + 1 && attempt.number == 1 { fault } else { Fault::None }
            });
            let _ = bob.accepts_invite_link(&code).await;
            app.faults.clear();
            bob.accepts_invite_link(&code).await.expect(200);
            process_changes(&app).await;
            assert_eq!(listed(&bob, &room).await.unwrap()["member_count"], 2, "{fault:?} {failing}");
        }
    }
}
