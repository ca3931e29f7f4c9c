use aws_sdk_dynamodb::types::AttributeValue;
use chrono::TimeDelta;
use serde_json::json;
use touchline::domain::UserId;
use touchline::domain::room::{Member, Membership, Room, RoomId, StreamPosition};
use touchline::storage::Reads;
use touchline::storage::keys::{self, Key};
use touchline::storage::members::{Joined, MembershipRequest};
use touchline_testing::{Fault, TestApp, concurrently, next_position};

use crate::testing::{app, builder, listed, membership_event, names, process_changes};

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
async fn a_rejected_join_leaves_the_username_free() {
    let (_app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Den").private().await.room_id();
    bob.joins(&room).await.expect_error(403, "not_allowed");
    bob.updates_profile().username("robert").await.expect(200);
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

/// A room, and a request of Bob whose homeserver call is done but whose write is not.
struct Pending {
    app: TestApp,
    room: Room,
    bob: UserId,
}

impl Pending {
    async fn new() -> Self {
        let (app, [alice, bob, _]) = app().await;
        let id = RoomId::parse(&alice.creates_room("Corner").await.room_id()).unwrap();
        let room = app.store.room(&id).await.unwrap().unwrap();
        Self { app, room, bob: UserId(bob.id) }
    }

    async fn member(&self) -> Option<Member> {
        self.app.store.member(&self.room, self.bob, Reads::Consistent).await.unwrap()
    }

    async fn membership(&self) -> Option<Membership> {
        self.member().await.map(|member| member.membership)
    }

    fn request<'a>(&'a self, before: Option<&'a Member>, nonce: u32) -> MembershipRequest<'a> {
        MembershipRequest::new(&self.room, self.bob, before, self.app.clock.now(), nonce)
    }

    /// Applies the next event of the homeserver, whose clock is behind ours.
    async fn event(&self, to: Membership, seconds: i64) {
        self.event_at(next_position(), to, seconds).await;
    }

    async fn event_at(&self, position: StreamPosition, to: Membership, seconds: i64) {
        let change = (to, self.app.clock.now() + TimeDelta::seconds(seconds - 5));
        let applied = self.app.store.apply_homeserver_membership(&self.room, self.bob, change, position);
        applied.await.unwrap();
    }
}

/// The homeserver can push a join event before the request that caused the event has stored the membership.
#[tokio::test]
async fn a_join_succeeds_although_its_event_arrives_first() {
    let pending = Pending::new().await;
    let (store, request) = (&pending.app.store, pending.request(None, 1));
    pending.event(Membership::Join, 1).await;
    assert_eq!(store.join(&request).await.unwrap(), Joined::Now);
    assert_eq!(store.join(&request).await.unwrap(), Joined::Now, "a retry");
    // Another request cannot claim the same join.
    assert_eq!(store.join(&pending.request(None, 2)).await.unwrap(), Joined::Already);
}

#[tokio::test]
async fn a_user_who_joined_with_a_matrix_client_cannot_join_again() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Corner").await.room_id();
    // The creator is a member from the creation on. An event of the join does not let the creator join again.
    for user in [&alice, &bob] {
        let event = membership_event(&app, &room, user.chat_id(), "join", -60);
        app.homeserver().pushes(&user.id.to_string(), [event]).await.expect(200);
        user.joins(&room).await.expect_error(409, "already_a_member");
    }
    process_changes(&app).await;
    assert_eq!(listed(&bob, &room).await.unwrap()["member_count"], 2);
}

/// A write can reach the store late or twice. Events in between have the last word, whatever the clocks say.
#[tokio::test]
async fn a_late_write_does_not_undo_an_event() {
    let pending = Pending::new().await;
    let store = &pending.app.store;
    // The user joins, and leaves with a Matrix client.
    pending.event(Membership::Join, 1).await;
    pending.event(Membership::Leave, 2).await;
    assert_eq!(store.join(&pending.request(None, 1)).await.unwrap(), Joined::Now);
    assert_eq!(pending.membership().await, Some(Membership::Leave));
    // The user leaves, and joins again with a Matrix client.
    let before = pending.member().await;
    store.join(&pending.request(before.as_ref(), 2)).await.unwrap();
    let before = pending.member().await;
    let leave = pending.request(before.as_ref(), 3);
    store.leave(&leave).await.unwrap();
    pending.event(Membership::Leave, 3).await;
    pending.event(Membership::Join, 4).await;
    store.leave(&leave).await.unwrap();
    assert_eq!(pending.membership().await, Some(Membership::Join));
}

/// The network can deliver the write of a request again after later requests.
#[tokio::test]
async fn a_repeated_join_does_not_undo_later_requests() {
    let pending = Pending::new().await;
    let store = &pending.app.store;
    let join = pending.request(None, 1);
    assert_eq!(store.join(&join).await.unwrap(), Joined::Now);
    let joined = pending.member().await;
    store.leave(&pending.request(joined.as_ref(), 2)).await.unwrap();
    pending.event(Membership::Join, 1).await;
    pending.event(Membership::Leave, 2).await;
    store.join(&join).await.unwrap();
    assert_eq!(pending.membership().await, Some(Membership::Leave));
}

/// Without a homeserver there are no events, so both requests must be stored.
#[tokio::test]
async fn a_request_is_applied_after_a_concurrent_request() {
    let pending = Pending::new().await;
    let store = &pending.app.store;
    assert!(store.invite(&pending.request(None, 1)).await.unwrap());
    assert_eq!(store.join(&pending.request(None, 2)).await.unwrap(), Joined::Now);
    assert_eq!(pending.membership().await, Some(Membership::Join));
    // An invitation does not replace the membership that began meanwhile.
    assert!(!store.invite(&pending.request(None, 3)).await.unwrap());
    assert_eq!(pending.membership().await, Some(Membership::Join));
}

/// The event of an invitation can arrive while the user accepts it.
#[tokio::test]
async fn a_join_is_stored_although_the_event_of_the_invitation_arrives_first() {
    let pending = Pending::new().await;
    let store = &pending.app.store;
    store.invite(&pending.request(None, 1)).await.unwrap();
    let invited = pending.member().await;
    pending.event(Membership::Invite, 1).await;
    assert_eq!(store.join(&pending.request(invited.as_ref(), 2)).await.unwrap(), Joined::Now);
    assert_eq!(pending.membership().await, Some(Membership::Join));
}

#[tokio::test]
async fn an_older_event_does_not_undo_a_join_that_a_request_claimed() {
    let pending = Pending::new().await;
    let (earlier, later) = (next_position(), next_position());
    pending.event_at(later, Membership::Join, 1).await;
    pending.app.store.join(&pending.request(None, 1)).await.unwrap();
    pending.event_at(earlier, Membership::Leave, 4).await;
    assert_eq!(pending.membership().await, Some(Membership::Join));
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

/// The profile of a deleted account goes first, and the sessions follow.
#[tokio::test]
async fn requests_of_a_caller_who_has_just_deleted_the_account_are_401() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Corner").await.room_id();
    let Key { pk, sk } = keys::profile(UserId(bob.id));
    let delete = app.client().delete_item().table_name(&app.config.tables.users);
    delete.key("pk", AttributeValue::S(pk)).key("sk", AttributeValue::S(sk)).send().await.unwrap();
    for response in [
        bob.joins(&room).await,
        bob.leaves(&room).await,
        bob.invites_to(&room).user(alice.id).await,
        bob.creates_room("Den").await,
        bob.requests_chat_credentials().await,
    ] {
        response.expect_error(401, "token_invalid");
    }
}

/// Near the limit, a user can join one room within this time.
const ONE_ROOM_TAKES: TimeDelta = TimeDelta::seconds(2);

#[tokio::test]
async fn concurrent_joins_do_not_pass_the_limit() {
    let app = builder().variable("MAX_JOINED_ROOMS", "2").start().await;
    let [alice, bob] = [app.user("alice").await, app.user("bob").await];
    let mut rooms = vec![alice.creates_room("One").await.room_id()];
    for name in ["Two", "Three", "Four", "Five"] {
        let other = app.user(name).await;
        rooms.push(other.creates_room(name).await.room_id());
    }
    let joins = concurrently(5, |n| bob.joins(&rooms[n])).await;
    let mut statuses: Vec<u16> = joins.iter().map(|response| response.status.as_u16()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409, 409, 409, 409]);
}

#[tokio::test]
async fn a_user_joins_only_so_many_rooms() {
    let app = builder().variable("MAX_JOINED_ROOMS", "2").start().await;
    let [alice, bob] = [app.user("alice").await, app.user("bob").await];
    let first = alice.creates_room("One").await.room_id();
    app.clock.advance(ONE_ROOM_TAKES);
    let second = alice.creates_room("Two").await.room_id();
    let third = bob.creates_room("Three").await.room_id();
    bob.joins(&first).await.expect_error(409, "concurrent_change");
    app.clock.advance(ONE_ROOM_TAKES);
    bob.joins(&first).await.expect(200);
    let keyed = alice.creates_room("Four").idempotency_key("k");
    for rejected in [bob.joins(&second).await, alice.joins(&third).await, keyed.clone().await] {
        rejected.expect_error(422, "too_many_rooms");
        assert_eq!(rejected.message(), "You have reached the limit of 2 rooms. Leave a room first.");
    }
    assert!(!app.dump().await.contains("S(\"Four\")"));
    // Members are told that they are members, and others that a room does not exist.
    bob.joins(&first).await.expect_error(409, "already_a_member");
    bob.joins("!nobody:touchline.local").await.expect_error(404, "room_not_found");

    alice.leaves(&first).await.expect(200);
    keyed.clone().await.expect(201);
    alice.joins(&third).await.expect_error(422, "too_many_rooms");
    keyed.await.expect(200);
}

/// The homeserver has already let the user in, so we cannot reject the join. It counts.
#[tokio::test]
async fn a_join_in_a_matrix_client_is_stored_beyond_the_limit() {
    let app = builder().variable("MAX_JOINED_ROOMS", "2").start().await;
    let [alice, bob] = [app.user("alice").await, app.user("bob").await];
    let mut rooms = Vec::new();
    for name in ["One", "Two"] {
        rooms.push(alice.creates_room(name).await.room_id());
        app.clock.advance(ONE_ROOM_TAKES);
    }
    rooms.push(bob.creates_room("Three").await.room_id());
    for room in &rooms {
        let event = membership_event(&app, room, bob.chat_id(), "join", 0);
        app.homeserver().pushes(room, [event]).await.expect(200);
    }
    let list = bob.lists_rooms().joined().await.expect(200);
    assert_eq!(names(&list).len(), 3);
    // Bob has one room more than the limit, so he has to leave two before he can join another.
    bob.leaves(&rooms[0]).await.expect(200);
    bob.joins(&rooms[0]).await.expect_error(422, "too_many_rooms");
    bob.leaves(&rooms[1]).await.expect(200);
    app.clock.advance(ONE_ROOM_TAKES);
    bob.joins(&rooms[0]).await.expect(200);
}
