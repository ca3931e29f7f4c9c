use chrono::TimeDelta;
use serde_json::json;
use touchline::domain::room::Membership;
use touchline::domain::{RoomId, UserId};
use touchline::storage::Reads;
use touchline::storage::members::{Joined, MembershipRequest};
use touchline_testing::{Fault, concurrently};

use crate::testing::{app, builder, listed, membership_event, process_changes};

#[tokio::test]
async fn a_user_can_join_a_room_only_once() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Corner").await.room_id();
    assert_eq!(
        bob.joins(&room).await.expect(200),
        json!({
            "message": "You joined the room.",
            "data": { "room_id": room, "membership": "join" },
        })
    );
    bob.joins(&room).await.expect_error(409, "already_a_member");
    alice.joins(&room).await.expect_error(409, "already_a_member");
    process_changes(&app).await;
    let seen = listed(&bob, &room).await.unwrap();
    assert_eq!((&seen["is_joined"], &seen["member_count"]), (&json!(true), &json!(2)));
}

#[tokio::test]
async fn joining_a_private_room_needs_an_invitation() {
    let (_app, [alice, bob, carol]) = app().await;
    let room = alice.creates_room("Den").private().await.room_id();
    bob.joins(&room).await.expect_error(403, "not_allowed");
    alice.invites_to(&room).user(bob.id).await.expect(200);
    bob.joins(&room).await.expect(200);
    bob.joins(&room).await.expect_error(409, "already_a_member");
    carol.joins(&room).await.expect_error(403, "not_allowed");
    // An invitation is valid for one join.
    bob.leaves(&room).await.expect(200);
    bob.joins(&room).await.expect_error(403, "not_allowed");
}

#[tokio::test]
async fn unknown_room_ids_are_404() {
    let (_app, [alice, ..]) = app().await;
    let room = alice.creates_room("Corner").await.room_id();
    let encoded = room.replace('!', "%21").replace(':', "%3A");
    alice.joins(&encoded).await.expect_error(409, "already_a_member");
    for id in ["!nobody:touchline.local", "x", "%21", "!a", "!:", "%00", "!a:b%20c", "%F0%9F%92%A5", "!%FF:b"]
    {
        alice.joins(id).await.expect_error(404, "room_not_found");
    }
    alice.joins(&format!("!{}:b", "x".repeat(300))).await.expect_error(404, "room_not_found");
}

#[tokio::test(flavor = "multi_thread")]
async fn exactly_one_of_thirty_concurrent_joins_by_one_user_succeeds() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Corner").await.room_id();
    let responses = concurrently(30, |_| bob.joins(&room)).await;
    let (joined, others): (Vec<_>, Vec<_>) =
        responses.into_iter().partition(|response| response.status == 200);
    assert_eq!(joined.len(), 1, "{others:?}");
    for response in others {
        response.expect_error(409, "already_a_member");
    }
    process_changes(&app).await;
    assert_eq!(listed(&bob, &room).await.unwrap()["member_count"], 2);
}

/// The response of the store is lost, so the SDK retries the write. The retry must not count as a second
/// join.
#[tokio::test]
async fn a_join_succeeds_although_the_response_of_the_store_is_lost() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Corner").await.room_id();
    app.faults.set(|attempt| {
        if attempt.operation == "UpdateItem" && attempt.number == 1 {
            Fault::LoseResponse
        } else {
            Fault::None
        }
    });
    bob.joins(&room).await.expect(200);
}

/// A replica of the tables may not have the new user, session, room and invitation yet.
#[tokio::test]
async fn new_users_can_use_new_rooms_although_eventually_consistent_reads_miss_both() {
    let (app, [alice, bob, _]) = app().await;
    app.faults.set(|_| Fault::Miss);
    let room = alice.creates_room("Corner").private().await.room_id();
    alice.views_member_stats(&room).await.expect(200);
    alice.invites_to(&room).user(bob.id).await.expect(200);
    bob.joins(&room).await.expect(200);
    bob.leaves(&room).await.expect(200);
    bob.requests_chat_credentials().await.expect(200);
}

/// The homeserver can push a join event before the request that caused the event has stored the membership.
#[tokio::test]
async fn a_join_succeeds_although_the_homeserver_pushed_the_join_event_first() {
    let (app, [alice, bob, carol]) = app().await;
    let room = alice.creates_room("Corner").await.room_id();
    app.homeserver().pushes("1", [membership_event(&app, &room, bob.chat_id(), "join", 1)]).await.expect(200);
    bob.joins(&room).await.expect(200);
    bob.joins(&room).await.expect_error(409, "already_a_member");
    // The creator is a member from the creation on. A later join event does not let the creator join again.
    app.homeserver()
        .pushes("m", [membership_event(&app, &room, alice.chat_id(), "join", 1)])
        .await
        .expect(200);
    alice.joins(&room).await.expect_error(409, "already_a_member");
    // Carol joined through the homeserver a minute before her request, so her request is a second join.
    app.homeserver()
        .pushes("2", [membership_event(&app, &room, carol.chat_id(), "join", -60)])
        .await
        .expect(200);
    carol.joins(&room).await.expect_error(409, "already_a_member");
    process_changes(&app).await;
    assert_eq!(listed(&carol, &room).await.unwrap()["member_count"], 3);
}

#[tokio::test]
async fn homeserver_events_supersede_only_older_requests() {
    let (app, [alice, bob, _]) = app().await;
    let id = RoomId::parse(&alice.creates_room("Corner").await.room_id()).unwrap();
    let (store, began) = (&app.store, app.clock.now());
    let room = store.room(&id).await.unwrap().unwrap();
    let user = UserId(bob.id);
    let later = began + TimeDelta::seconds(1);
    store.apply_homeserver_membership(&room, user, Membership::Leave, later).await.unwrap();
    assert_eq!(store.join(&room, user, &MembershipRequest::new(began, 1)).await.unwrap(), Joined::Now);
    let member = store.member(&room, user, Reads::Eventual).await.unwrap().unwrap();
    assert_eq!(member.membership, Membership::Leave);
    // An older invite event does not undo a join. A newer join event supersedes a leave request.
    app.clock.advance(TimeDelta::minutes(1));
    bob.joins(id.as_str()).await.expect(200);
    let began = app.clock.now();
    let (earlier, later) = (began - TimeDelta::seconds(30), began + TimeDelta::seconds(1));
    store.apply_homeserver_membership(&room, user, Membership::Invite, earlier).await.unwrap();
    assert!(store.member(&room, user, Reads::Eventual).await.unwrap().unwrap().has_joined());
    store.apply_homeserver_membership(&room, user, Membership::Join, later).await.unwrap();
    store.leave(&room, user, &MembershipRequest::new(began, 9)).await.unwrap();
    assert!(store.member(&room, user, Reads::Eventual).await.unwrap().unwrap().has_joined());
}

/// A write can reach the store twice. The homeserver's clock is behind ours, so its leave looks older than the request.
#[tokio::test]
async fn a_repeated_join_does_not_undo_a_leave_on_a_homeserver_whose_clock_is_behind() {
    let (app, [alice, bob, carol]) = app().await;
    let id = RoomId::parse(&alice.creates_room("Corner").await.room_id()).unwrap();
    let (store, began) = (&app.store, app.clock.now());
    let room = store.room(&id).await.unwrap().unwrap();
    let request = MembershipRequest::new(began, 1);
    for (user, is_event_first) in [(UserId(bob.id), false), (UserId(carol.id), true)] {
        let (joined, left) = (began - TimeDelta::seconds(2), began - TimeDelta::seconds(1));
        if is_event_first {
            store.apply_homeserver_membership(&room, user, Membership::Join, joined).await.unwrap();
        }
        assert_eq!(store.join(&room, user, &request).await.unwrap(), Joined::Now);
        store.apply_homeserver_membership(&room, user, Membership::Leave, left).await.unwrap();
        assert_eq!(store.join(&room, user, &request).await.unwrap(), Joined::Now);
        let member = store.member(&room, user, Reads::Consistent).await.unwrap().unwrap();
        assert_eq!(member.membership, Membership::Leave, "event first: {is_event_first}");
    }
}

/// As above, but the user leaves with another request, within a second.
#[tokio::test]
async fn a_repeated_join_does_not_undo_a_leave_within_the_same_second() {
    let (app, [alice, bob, _]) = app().await;
    let id = RoomId::parse(&alice.creates_room("Corner").await.room_id()).unwrap();
    let (store, began, user) = (&app.store, app.clock.now(), UserId(bob.id));
    let room = store.room(&id).await.unwrap().unwrap();
    let join = MembershipRequest::new(began, 1);
    store.join(&room, user, &join).await.unwrap();
    store.leave(&room, user, &MembershipRequest::new(began + TimeDelta::milliseconds(300), 2)).await.unwrap();
    let left = began - TimeDelta::seconds(1);
    store.apply_homeserver_membership(&room, user, Membership::Leave, left).await.unwrap();
    store.join(&room, user, &join).await.unwrap();
    let member = store.member(&room, user, Reads::Consistent).await.unwrap().unwrap();
    assert_eq!(member.membership, Membership::Leave);
}

/// The clocks of two environments differ by up to a second.
#[tokio::test]
async fn a_later_request_counts_although_its_clock_is_behind() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Corner").await.room_id();
    let membership = || async {
        let id = RoomId::parse(&room).unwrap();
        let room = app.store.room(&id).await.unwrap().unwrap();
        app.store.member(&room, UserId(bob.id), Reads::Consistent).await.unwrap().unwrap().membership
    };
    bob.joins(&room).await.expect(200);
    app.clock.advance(-TimeDelta::milliseconds(400));
    bob.leaves(&room).await.expect(200);
    assert_eq!(membership().await, Membership::Leave);
    app.clock.advance(-TimeDelta::milliseconds(400));
    bob.joins(&room).await.expect(200);
    assert_eq!(membership().await, Membership::Join);
}

#[tokio::test]
async fn an_invitation_does_not_replace_a_membership_that_began_meanwhile() {
    let (app, [alice, bob, _]) = app().await;
    let id = RoomId::parse(&alice.creates_room("Corner").await.room_id()).unwrap();
    bob.joins(id.as_str()).await.expect(200);
    app.clock.advance(TimeDelta::minutes(1));
    let (room, user) = (app.store.room(&id).await.unwrap().unwrap(), UserId(bob.id));
    assert!(!app.store.invite(&room, user, &MembershipRequest::new(app.clock.now(), 9)).await.unwrap());
    assert!(app.store.member(&room, user, Reads::Consistent).await.unwrap().unwrap().has_joined());
}

#[tokio::test]
async fn an_older_event_does_not_undo_a_join_that_a_request_claimed() {
    let (app, [alice, bob, _]) = app().await;
    let id = RoomId::parse(&alice.creates_room("Corner").await.room_id()).unwrap();
    let (store, began) = (&app.store, app.clock.now());
    let room = store.room(&id).await.unwrap().unwrap();
    let user = UserId(bob.id);
    let joined = began + TimeDelta::milliseconds(100);
    store.apply_homeserver_membership(&room, user, Membership::Join, joined).await.unwrap();
    let (request, another) = (MembershipRequest::new(began, 1), MembershipRequest::new(began, 2));
    assert_eq!(store.join(&room, user, &request).await.unwrap(), Joined::Now);
    assert_eq!(store.join(&room, user, &request).await.unwrap(), Joined::Now, "a retry");
    assert_eq!(store.join(&room, user, &another).await.unwrap(), Joined::Already);
    let earlier = began - TimeDelta::seconds(3);
    store.apply_homeserver_membership(&room, user, Membership::Leave, earlier).await.unwrap();
    assert!(store.member(&room, user, Reads::Consistent).await.unwrap().unwrap().has_joined());
}

#[tokio::test]
async fn creating_or_joining_a_room_locks_the_username() {
    let (_app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Corner").await.room_id();
    alice.updates_profile().username("alicia").await.expect_error(409, "username_locked");
    bob.updates_profile().username("bobby").await.expect(200);
    bob.joins(&room).await.expect(200);
    bob.updates_profile().username("robert").await.expect_error(409, "username_locked");
}

#[tokio::test]
async fn joining_a_room_while_the_homeserver_is_down_is_503() {
    let (app, [alice, ..]) = app().await;
    let room = alice.creates_room("Corner").await.room_id();
    let stored = app.store.room(&RoomId::parse(&room).unwrap()).await.unwrap().unwrap();
    let down = builder().with_chat_down().start().await;
    down.store.put_room(&stored).await.unwrap();
    let dave = down.user("dave").id(9).await;
    dave.joins(&room).await.expect_error(503, "chat_unavailable");
    assert!(!down.dump().await.contains("member#9"));
}
