//! Tests of invite links.

use std::time::Duration;

use serde_json::json;
use touchline_testing::{Response, User, concurrently};

use super::predictions::{finish, new_match};
use crate::target::{HttpApi, eventually, unique_name};

/// How many friends join, and how many of them at the same time.
const FRIENDS: usize = 50;
const AT_ONCE: usize = 5;

/// A code that no link has.
const UNKNOWN: &str = "ABCDEFGH2345";

/// Accepts a link, and tries again while the API is busy.
async fn accepts(user: &User<HttpApi>, code: &str) -> Response {
    loop {
        let response = user.accepts_invite_link(code).await;
        if !matches!(response.status.as_u16(), 429 | 500..) {
            return response;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_league_of_fifty_friends_by_link() {
    let app = HttpApi::under_test();
    let alice = app.user("alice").await;
    let event = new_match(&app).await;
    let id = u32::try_from(event["id"].as_u64().unwrap()).unwrap();
    let created = alice.creates_room(&unique_name()).private().about_event(id).league("match").await;
    let room = created.room_id();
    let code = alice.creates_invite_link(&room).await.link_code();
    let friends = concurrently(AT_ONCE, |worker| {
        let (app, code) = (app.clone(), code.clone());
        async move {
            let mut friends = Vec::new();
            for _ in 0..FRIENDS / AT_ONCE {
                let friend = app.user("friend").await;
                accepts(&friend, &code).await.expect(200);
                // Each worker's friends predict another number of goals.
                friend.predicts(id).home().score(u32::try_from(worker).unwrap() + 1, 0).await.expect(201);
                friends.push(friend);
            }
            friends
        }
    })
    .await;
    let friends: Vec<User<HttpApi>> = friends.into_iter().flatten().collect();
    assert_eq!(friends.len(), FRIENDS);
    let stats = async || alice.views_member_stats(&room).await.expect_data(200);
    eventually(stats, |stats| stats["total_members"] == FRIENDS + 1).await;
    // Only members can read the statistics and the table of a private room.
    for friend in &friends {
        friend.views_member_stats(&room).await.expect(200);
    }
    let stranger = app.user("stranger").await;
    stranger.views_table(&room).await.expect_error(403, "not_a_member");
    let total = async || alice.views_table(&room).await.expect(200)["meta"]["total"].clone();
    eventually(total, |total| *total == FRIENDS + 1).await;

    finish(&app, &event, 2, 0).await;
    app.invoke("points", &json!({ "event_id": id })).await;
    // Ten friends predicted the exact score, the others the winner. Alice has not predicted.
    let table = async || alice.views_table(&room).query("per_page", 100).await.expect(200);
    let table = eventually(table, |table| table["meta"]["me"]["rank"] == FRIENDS + 1).await;
    let ranks: Vec<u64> =
        table["data"].as_array().unwrap().iter().map(|row| row["rank"].as_u64().unwrap()).collect();
    let exact = FRIENDS / AT_ONCE;
    let expected =
        [vec![1; exact], vec![exact as u64 + 1; FRIENDS - exact], vec![FRIENDS as u64 + 1]].concat();
    assert_eq!(ranks, expected);
    for friend in &friends {
        let around = friend.views_table(&room).query("around", "me").await.expect(200);
        let me = &around["meta"]["me"];
        assert!(around["data"].as_array().unwrap().contains(me), "{around}");
        let row = table["data"].as_array().unwrap().iter().find(|row| row["user"]["id"] == friend.id);
        assert_eq!(me["rank"], row.unwrap()["rank"]);
    }
    // An operator can have the table of a room built.
    app.invoke("standings", &json!({ "room": room })).await;
    assert_eq!(alice.views_table(&room).await.expect(200)["meta"]["total"], FRIENDS + 1);
}

#[tokio::test]
async fn a_link_works_until_it_is_revoked() {
    let app = HttpApi::under_test();
    let [alice, bob, carol] = [app.user("alice").await, app.user("bob").await, app.user("carol").await];
    let room = alice.creates_room(&unique_name()).private().await.room_id();
    bob.creates_invite_link(&room).await.expect_error(403, "not_a_member");
    bob.revokes_invite_link(&room).await.expect_error(403, "not_a_member");
    let link = alice.creates_invite_link(&room).field("expires_in_hours", 1).await.expect_data(201);
    let code = link["code"].as_str().unwrap();
    assert_eq!(link["room_id"], room);
    assert_eq!(alice.creates_invite_link(&room).await.expect_data(200), link);
    for code in [code, &code.to_lowercase()] {
        let joined = accepts(&bob, code).await.expect_data(200);
        assert_eq!(joined, json!({ "room_id": room, "membership": "join" }));
    }
    let of_bob = bob.creates_invite_link(&room).await.link_code();
    bob.revokes_invite_link(&room).await.expect(200);
    carol.accepts_invite_link(&of_bob).await.expect_error(404, "invite_link_not_found");
    alice.revokes_invite_link(&room).await.expect(200);
    carol.accepts_invite_link(code).await.expect_error(404, "invite_link_not_found");
    for code in [UNKNOWN, "x", "%00"] {
        carol.accepts_invite_link(code).await.expect_error(404, "invite_link_not_found");
    }
    alice.creates_invite_link("!nobody:nowhere").await.expect_error(404, "room_not_found");
    alice.revokes_invite_link("!nobody:nowhere").await.expect_error(404, "room_not_found");
}
