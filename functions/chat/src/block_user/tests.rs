use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline::flows::blocks::sync_ignored_users;
use touchline::storage::Reads;
use touchline_testing::{Fault, HomeserverStandIn, TestApp, User, concurrently};

use crate::testing::{app, builder, listed, process_changes};

fn blocked_ids(list: &Value) -> Vec<u64> {
    list["data"].as_array().unwrap().iter().map(|row| row["user"]["id"].as_u64().unwrap()).collect()
}

fn predictors(list: &Value) -> BTreeSet<u64> {
    list["data"].as_array().unwrap().iter().map(|row| row["user"]["id"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn blocked_users_are_listed_newest_first_and_page_by_page() {
    let (app, [alice, bob, carol]) = app().await;
    bob.updates_profile().name("Bob B").await.expect(200);
    assert_eq!(
        alice.blocks(bob.id).await.expect(200),
        json!({
            "message": "You blocked bob.",
            "data": {
                "user": { "id": bob.id, "username": "bob", "name": "Bob B" }, "created_at": "2026-11-15T12:00:00Z",
            },
        })
    );
    app.clock.advance(TimeDelta::seconds(1));
    alice.blocks(carol.id).await.expect(200);
    let first = alice.lists_blocks().per_page(1).await.expect(200);
    assert_eq!(blocked_ids(&first), [u64::from(carol.id)]);
    let cursor = first["meta"]["next_cursor"].as_str().unwrap();
    let second = alice.lists_blocks().per_page(1).cursor(cursor).await.expect(200);
    assert_eq!(
        (blocked_ids(&second), &second["meta"]["next_cursor"]),
        (vec![u64::from(bob.id)], &Value::Null)
    );
    bob.lists_blocks().cursor(cursor).await.expect_invalid(&["cursor"]);
    assert_eq!(bob.lists_blocks().await.expect(200), json!({ "data": [], "meta": { "next_cursor": null } }));
}

#[tokio::test]
async fn blocking_and_unblocking_again_changes_nothing() {
    let (app, [alice, bob, _]) = app().await;
    let first = alice.blocks(bob.id).await.expect_data(200);
    app.clock.advance(TimeDelta::hours(1));
    assert_eq!(alice.blocks(bob.id).await.expect_data(200), first);
    for _ in 0..2 {
        let message = json!({ "message": "You no longer block bob." });
        assert_eq!(alice.unblocks(bob.id).await.expect(200), message);
    }
    assert_eq!(alice.lists_blocks().await.expect(200)["data"], json!([]));
}

#[tokio::test]
async fn users_cannot_block_themselves_or_unknown_users() {
    let (_app, [alice, ..]) = app().await;
    alice.blocks(alice.id).await.expect_invalid(&["user"]);
    for unknown in [999, u32::MAX] {
        alice.blocks(unknown).await.expect_error(404, "user_not_found");
        alice.unblocks(unknown).await.expect_error(404, "user_not_found");
    }
    alice.post("/api/auth/users/bob/block", json!({})).await.expect_error(404, "user_not_found");
}

#[tokio::test]
async fn a_user_can_block_1000_users() {
    let (app, [alice, bob, carol]) = app().await;
    alice.blocks(bob.id).await.expect(200);
    let set = app.client().update_item().table_name(&app.config.tables.users);
    let set = set.key("pk", AttributeValue::S("user#1".into())).key("sk", AttributeValue::S("blocks".into()));
    let set = set.update_expression("SET blocked = :most");
    set.expression_attribute_values(":most", AttributeValue::N("1000".into())).send().await.unwrap();
    let rejected = alice.blocks(carol.id).await;
    rejected.expect_error(422, "too_many_blocks");
    assert_eq!(rejected.message(), "You have reached the limit of 1000 blocked users. Unblock a user first.");
    alice.blocks(bob.id).await.expect(200);
    alice.unblocks(bob.id).await.expect(200);
    alice.blocks(carol.id).await.expect(200);
}

#[tokio::test]
async fn a_lost_response_or_a_crash_does_not_count_a_block_twice() {
    for fault in [Fault::LoseResponse, Fault::FailAfter] {
        for failing in 0..8 {
            let (app, [alice, bob, carol]) = app().await;
            alice.blocks(carol.id).await.expect(200);
            let mut calls = 0;
            app.faults.set(move |attempt| {
                calls += u32::from(attempt.number == 1);
                if calls == failing + 1 && attempt.number == 1 { fault } else { Fault::None }
            });
            let _ = alice.blocks(bob.id).await;
            app.faults.clear();
            alice.blocks(bob.id).await.expect(200);
            alice.unblocks(carol.id).await.expect(200);
            let stored = app.store.blocks(UserId(alice.id), Reads::Consistent).await.unwrap();
            assert_eq!(stored.blocks.users().collect::<Vec<_>>(), [UserId(bob.id)]);
            assert!(!stored.has_unsynced_changes(), "{fault:?} {failing}");
            let dump = app.dump().await;
            assert!(dump.contains("\"blocked\": N(\"1\")"), "{dump}");
        }
    }
}

#[tokio::test]
async fn a_blocked_user_cannot_invite() {
    let (app, [alice, bob, carol]) = app().await;
    let room = bob.creates_room("Den").private().await.room_id();
    alice.blocks(bob.id).await.expect(200);
    let rejected = bob.invites_to(&room).user(alice.id).await;
    rejected.expect_error(403, "not_allowed");
    assert_eq!(rejected.message(), "You cannot invite this user.");
    bob.invites_to(&room).username("alice").await.expect_error(403, "not_allowed");
    process_changes(&app).await;
    assert_eq!(listed(&alice, &room).await, None);

    // Others are not affected, nor is the blocked user's other business.
    bob.invites_to(&room).user(carol.id).await.expect(200);
    carol.joins(&room).await.expect(200);
    carol.invites_to(&room).user(alice.id).await.expect(200);
    alice.unblocks(bob.id).await.expect(200);
    bob.invites_to(&room).user(alice.id).await.expect(200);
}

#[tokio::test]
async fn open_invitations_of_a_blocked_user_are_declined() {
    let (_app, [alice, bob, carol]) = app().await;
    let den = bob.creates_room("Den").private().await.room_id();
    let lair = carol.creates_room("Lair").private().await.room_id();
    carol.invites_to(&lair).user(bob.id).await.expect(200);
    bob.joins(&lair).await.expect(200);
    // Carol invites alice to bob's room, and bob invites alice to carol's room.
    bob.invites_to(&den).user(carol.id).await.expect(200);
    carol.joins(&den).await.expect(200);
    carol.invites_to(&den).user(alice.id).await.expect(200);
    bob.invites_to(&lair).user(alice.id).await.expect(200);
    alice.blocks(bob.id).await.expect(200);
    for search in ["", "den", "lair"] {
        let list = alice.lists_rooms();
        let list = if search.is_empty() { list } else { list.search(search) };
        let list = list.await.expect_data(200);
        let ids: Vec<_> =
            list.as_array().unwrap().iter().map(|room| room["room_id"].as_str().unwrap()).collect();
        assert_eq!(ids.contains(&&*den), search != "lair", "carol's invitation stays");
        assert!(!ids.contains(&&*lair), "bob's invitation is declined");
    }
    alice.unblocks(bob.id).await.expect(200);
    assert!(listed(&alice, &lair).await.is_none());
    alice.joins(&lair).await.expect_error(403, "not_allowed");
    bob.invites_to(&lair).user(alice.id).await.expect(200);
    // A room that the caller has joined stays in the list.
    alice.joins(&lair).await.expect(200);
    alice.blocks(bob.id).await.expect(200);
    assert!(listed(&alice, &lair).await.is_some());
}

#[tokio::test]
async fn an_invitation_in_a_matrix_client_counts_as_the_creators() {
    let (app, [alice, bob, _]) = app().await;
    let den = bob.creates_room("Den").private().await.room_id();
    let event = crate::testing::membership_event(&app, &den, alice.chat_id(), "invite", 1);
    app.homeserver().pushes("1", [event]).await.expect(200);
    assert!(listed(&alice, &den).await.is_some());
    alice.blocks(bob.id).await.expect(200);
    assert_eq!(listed(&alice, &den).await, None);
    // The invitation is declined, and not only hidden.
    assert!(app.store.open_invitations(UserId(alice.id), 9).await.unwrap().is_empty());
}

#[tokio::test]
async fn blocked_users_are_left_out_of_predictions_and_totals_stay() {
    let (app, [alice, bob, carol]) = app().await;
    app.clock.advance(-TimeDelta::hours(1));
    let room = carol.creates_room("Stand").about_event(1).await.room_id();
    for user in [&alice, &bob, &carol] {
        user.predicts(1).home().await.expect(201);
    }
    alice.joins(&room).await.expect(200);
    bob.joins(&room).await.expect(200);
    process_changes(&app).await;
    alice.blocks(bob.id).await.expect(200);
    let (me, other) = (u64::from(alice.id), u64::from(carol.id));
    for list in [
        alice.lists_event_predictions(1).await.expect(200),
        alice.lists_room_predictions(&room).await.expect(200),
    ] {
        assert_eq!(predictors(&list), [me, other].into());
        assert_eq!(list["meta"]["total_predictions"], 3);
    }
    let only_bob = alice.lists_event_predictions(1).user(bob.id).await.expect(200);
    assert_eq!(only_bob["data"], json!([]));
    // The block is one-sided.
    assert_eq!(predictors(&bob.lists_event_predictions(1).await.expect(200)).len(), 3);
}

/// Starts an app with a homeserver.
async fn with_homeserver() -> (TestApp, HomeserverStandIn, [User; 3]) {
    let homeserver = HomeserverStandIn::start().await;
    let app = builder()
        .variable("CHAT_HOMESERVER_URL", homeserver.url())
        .variable("CHAT_AS_TOKEN", "the-token-of-the-tests")
        .start()
        .await;
    let users = [app.user("alice").await, app.user("bob").await, app.user("carol").await];
    (app, homeserver, users)
}

fn ignored(homeserver: &HomeserverStandIn) -> Vec<String> {
    let list = homeserver.account_data("@alice:touchline.local", "m.ignored_user_list");
    list["ignored_users"].as_object().into_iter().flatten().map(|(user, _)| user.clone()).collect()
}

#[tokio::test]
async fn blocked_users_are_ignored_in_chat_beside_those_of_the_matrix_client() {
    let (_app, homeserver, [alice, bob, carol]) = with_homeserver().await;
    let list = json!({ "ignored_users": { "@spam:elsewhere": {} }, "other": 1 });
    homeserver.set_account_data("@alice:touchline.local", "m.ignored_user_list", list);
    alice.blocks(bob.id).await.expect(200);
    alice.blocks(carol.id).await.expect(200);
    assert_eq!(ignored(&homeserver), ["@bob:touchline.local", "@carol:touchline.local", "@spam:elsewhere"]);
    alice.unblocks(bob.id).await.expect(200);
    assert_eq!(ignored(&homeserver), ["@carol:touchline.local", "@spam:elsewhere"]);
    let list = homeserver.account_data("@alice:touchline.local", "m.ignored_user_list");
    assert_eq!(list["other"], 1);
    // A request that changes nothing does not call the homeserver.
    let _ = homeserver.take_requests();
    alice.blocks(carol.id).await.expect(200);
    alice.lists_blocks().await.expect(200);
    assert_eq!(homeserver.take_requests(), [""; 0]);
}

#[tokio::test]
async fn a_block_succeeds_while_the_homeserver_is_down_and_chat_follows() {
    let (app, homeserver, [alice, bob, carol]) = with_homeserver().await;
    alice.blocks(carol.id).await.expect(200);
    homeserver.set_down(true);
    let message = alice.blocks(bob.id).await.expect(200)["message"].clone();
    assert_eq!(message, "You blocked bob. Chat is not available at the moment and follows later.");
    let message = alice.unblocks(carol.id).await.expect(200)["message"].clone();
    assert_eq!(message, "You no longer block carol. Chat is not available at the moment and follows later.");
    assert_eq!(blocked_ids(&alice.lists_blocks().await.expect(200)), [u64::from(bob.id)]);
    assert!(sync_ignored_users(&app, UserId(alice.id)).await.is_err());
    homeserver.set_down(false);
    alice.lists_blocks().await.expect(200);
    assert_eq!(ignored(&homeserver), ["@bob:touchline.local"]);
    let _ = homeserver.take_requests();
    sync_ignored_users(&app, UserId(alice.id)).await.unwrap();
    assert_eq!(homeserver.take_requests(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_changes_leave_chat_with_the_stored_blocks() {
    let (app, homeserver, [alice, ..]) = with_homeserver().await;
    let mut others = Vec::new();
    for n in 0..6 {
        others.push(app.user(&format!("fan.{n}")).await.id);
    }
    concurrently(18, |n| {
        let (alice, user) = (alice.clone(), others[n % 6]);
        async move { if n % 3 == 2 { alice.unblocks(user).await } else { alice.blocks(user).await } }
    })
    .await;
    // A request that gave up after conflicts left the list to the next one.
    sync_ignored_users(&app, UserId(alice.id)).await.unwrap();
    let stored = app.store.blocks(UserId(alice.id), Reads::Consistent).await.unwrap();
    let people = app.store.people(&stored.blocks.users().collect::<Vec<_>>()).await.unwrap();
    let expected: BTreeSet<String> =
        people.values().map(|person| format!("@{}:touchline.local", person.username.as_str())).collect();
    assert_eq!(ignored(&homeserver).into_iter().collect::<BTreeSet<_>>(), expected);
    assert!(!stored.has_unsynced_changes());
}
