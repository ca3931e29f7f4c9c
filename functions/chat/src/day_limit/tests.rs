use chrono::TimeDelta;
use touchline::domain::UserId;
use touchline::domain::room::{Membership, RoomId};
use touchline_testing::{Builder, Fault, Response, TestApp, User, concurrently, next_position};

use crate::testing::builder;

/// Starts an app in which a user can create two rooms and send two invitations a day.
fn limited() -> Builder {
    builder().variable("ROOMS_PER_DAY", "2").variable("INVITATIONS_PER_DAY", "2")
}

async fn alice_and(app: &TestApp, others: u32) -> (User, Vec<User>) {
    let mut users = Vec::new();
    for n in 0..others {
        users.push(app.user(&format!("fan.{n}")).await);
    }
    (app.user("alice").await, users)
}

fn expect_limit(response: &Response, sentence: &str) {
    response.expect_error(429, "rate_limited");
    assert_eq!(response.message(), sentence);
    let wait = response.body["retry_after"].as_u64().unwrap();
    assert!(wait > 0 && wait <= 86_400, "{wait}");
    assert_eq!(response.header("retry-after").unwrap(), wait.to_string());
}

const NO_MORE_ROOMS: &str = "You can create 2 rooms a day. Create the next one after midnight UTC.";
const NO_MORE_INVITATIONS: &str = "You can send 2 invitations a day. Send the next one after midnight UTC.";

#[tokio::test]
async fn a_user_creates_only_so_many_rooms_a_day() {
    let app = limited().start().await;
    let (alice, fans) = alice_and(&app, 1).await;
    for name in ["One", "Two"] {
        alice.creates_room(name).await.expect(201);
    }
    for _ in 0..2 {
        expect_limit(&alice.creates_room("Three").await, NO_MORE_ROOMS);
    }
    // Each user has their own limit.
    fans[0].creates_room("Three").await.expect(201);
    app.clock.advance(TimeDelta::days(1));
    alice.creates_room("Three").await.expect(201);
}

#[tokio::test]
async fn a_user_sends_only_so_many_invitations_a_day() {
    let app = limited().start().await;
    let (alice, fans) = alice_and(&app, 3).await;
    let room = alice.creates_room("Den").private().await.room_id();
    for fan in &fans[..2] {
        alice.invites_to(&room).user(fan.id).await.expect(200);
    }
    // A repeated invitation changes nothing, so it is not counted.
    alice.invites_to(&room).user(fans[0].id).await.expect(200);
    expect_limit(&alice.invites_to(&room).user(fans[2].id).await, NO_MORE_INVITATIONS);
    // The rejected invitation has no effect on the invited user.
    fans[2].updates_profile().username("renamed").await.expect(200);
    fans[2].joins(&room).await.expect_error(403, "not_allowed");
    app.clock.advance(TimeDelta::days(1));
    alice.invites_to(&room).user(fans[2].id).await.expect(200);
}

#[tokio::test]
async fn an_invitation_after_the_user_declined_counts_again() {
    let app = limited().start().await;
    let (alice, fans) = alice_and(&app, 1).await;
    let room = alice.creates_room("Den").private().await.room_id();
    for _ in 0..2 {
        alice.invites_to(&room).user(fans[0].id).await.expect(200);
        fans[0].leaves(&room).await.expect(200);
    }
    expect_limit(&alice.invites_to(&room).user(fans[0].id).await, NO_MORE_INVITATIONS);
}

#[tokio::test]
async fn failed_requests_do_not_count() {
    let app = limited().start().await;
    let (alice, fans) = alice_and(&app, 3).await;
    for _ in 0..3 {
        alice.creates_room("").await.expect_invalid(&["name"]);
        alice.creates_room("Den").about_event(4_000_000_000).await.expect(503);
    }
    let room = alice.creates_room("Den").private().await.room_id();
    let keyed = alice.creates_room("Corner").idempotency_key("k");
    keyed.clone().await.expect(201);
    // The limit is reached, but this request creates nothing.
    keyed.await.expect(200);

    fans[0].joins(&room).await.expect_error(403, "not_allowed");
    alice.invites_to(&room).user(fans[0].id).await.expect(200);
    fans[0].joins(&room).await.expect(200);
    for _ in 0..3 {
        alice.invites_to(&room).user(999).await.expect_error(404, "user_not_found");
        alice.invites_to(&room).user(fans[0].id).await.expect_error(409, "already_a_member");
        alice
            .invites_to("!nobody:touchline.local")
            .user(fans[1].id)
            .await
            .expect_error(404, "room_not_found");
        fans[1].invites_to(&room).user(fans[2].id).await.expect_error(403, "not_a_member");
    }
    alice.invites_to(&room).user(fans[1].id).await.expect(200);
    expect_limit(&alice.invites_to(&room).user(fans[2].id).await, NO_MORE_INVITATIONS);
}

#[tokio::test]
async fn requests_without_a_response_of_the_homeserver_do_not_count() {
    let app = limited().start().await;
    let room = app.user("alice").await.creates_room("Den").private().await.room_id();
    let stored = app.store.room(&RoomId::parse(&room).unwrap()).await.unwrap().unwrap();

    let down = limited().with_chat_down().start().await;
    let (alice, fans) = alice_and(&down, 3).await;
    down.store.put_room(&stored).await.unwrap();
    let (id, now) = (UserId(alice.id), down.clock.now());
    down.store
        .apply_homeserver_membership(&stored, id, (Membership::Join, now), next_position())
        .await
        .unwrap();
    for fan in &fans {
        alice.creates_room(&fan.username).await.expect_error(503, "chat_unavailable");
        alice.invites_to(&room).user(fan.id).await.expect_error(503, "chat_unavailable");
    }
}

/// The response to each call to the store is lost in turn, so the SDK retries the call.
#[tokio::test]
async fn a_retried_call_to_the_store_counts_once() {
    let app = limited().start().await;
    let (alice, fans) = alice_and(&app, 3).await;
    app.faults.first_attempts(Fault::LoseResponse);
    let room =
        alice.creates_room("One").private().idempotency_key("one").await.body["data"]["room_id"].clone();
    alice.creates_room("Two").idempotency_key("two").await;
    expect_limit(&alice.creates_room("Three").await, NO_MORE_ROOMS);
    for fan in &fans[..2] {
        alice.invites_to(room.as_str().unwrap()).user(fan.id).await.expect(200);
    }
    expect_limit(&alice.invites_to(room.as_str().unwrap()).user(fans[2].id).await, NO_MORE_INVITATIONS);
}

/// A process can crash after any write, and the client then retries the request.
#[tokio::test]
async fn a_retry_of_a_request_that_failed_half_way_counts_once() {
    for fault in [Fault::FailBefore, Fault::FailAfter] {
        for step in 0.. {
            let app = limited().start().await;
            let (alice, fans) = alice_and(&app, 3).await;
            let room = alice.creates_room("Den").private().await.room_id();
            let mut writes = 0;
            app.faults.set(move |attempt| {
                let is_write = attempt.operation.starts_with("Update") || attempt.operation.contains("Write");
                writes += u32::from(is_write);
                if is_write && writes == step + 1 { fault } else { Fault::None }
            });
            let created = alice.creates_room("Corner").idempotency_key("k").await;
            let invited = alice.invites_to(&room).user(fans[0].id).await;
            app.faults.clear();
            alice.creates_room("Corner").idempotency_key("k").await;
            alice.invites_to(&room).user(fans[0].id).await.expect(200);
            expect_limit(&alice.creates_room("Stand").await, NO_MORE_ROOMS);
            alice.invites_to(&room).user(fans[1].id).await.expect(200);
            expect_limit(&alice.invites_to(&room).user(fans[2].id).await, NO_MORE_INVITATIONS);
            if created.status == 201 && invited.status == 200 {
                assert_eq!(step, 5, "three writes for the room, two for the invitation");
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_do_not_exceed_the_limits() {
    let app = limited().start().await;
    let (alice, fans) = alice_and(&app, 10).await;
    let room = alice.creates_room("Den").private().await.room_id();
    let created = concurrently(10, |n| alice.creates_room(&format!("Room {n}"))).await;
    assert_eq!(created.iter().filter(|response| response.status == 201).count(), 1);
    let rejected: Vec<_> = created.iter().filter(|response| response.status == 429).collect();
    assert_eq!(rejected.len(), 9, "{created:?}");

    alice.invites_to(&room).user(fans[9].id).await.expect(200);
    let invited = concurrently(9, |n| alice.invites_to(&room).user(fans[n].id)).await;
    assert_eq!(invited.iter().filter(|response| response.status == 200).count(), 1, "{invited:?}");
    assert_eq!(invited.iter().filter(|response| response.status == 429).count(), 8);
}
