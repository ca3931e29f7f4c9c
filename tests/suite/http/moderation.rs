//! Tests of blocks, reports and moderation. They run with `LocalChat` or with a real homeserver.

use serde_json::{Value, json};
use touchline_testing::User;

use super::predictions::new_match;
use crate::target::{HttpApi, eventually, unique_name};

async fn two_users() -> (HttpApi, User<HttpApi>, User<HttpApi>) {
    let app = HttpApi::under_test();
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    (app, alice, bob)
}

async fn moderate(app: &HttpApi, action: &str, mut fields: Value) -> Value {
    fields["operator"] = "the tests".into();
    fields["reason"] = "A test.".into();
    app.invoke("moderation", &json!({ action: fields })).await
}

async fn listed(user: &User<HttpApi>, name: &str) -> bool {
    let list = user.lists_rooms().search(name).await.expect_data(200);
    list.as_array().unwrap().iter().any(|room| room["name"] == name)
}

#[tokio::test]
async fn a_blocked_user_cannot_invite_and_is_left_out_of_lists() {
    let (app, alice, bob) = two_users().await;
    let event = u32::try_from(new_match(&app).await["id"].as_u64().unwrap()).unwrap();
    bob.predicts(event).home().await.expect(201);
    let (name, other) = (unique_name(), unique_name());
    let den = bob.creates_room(&name).private().await.room_id();
    let lair = bob.creates_room(&other).private().await.room_id();
    bob.invites_to(&den).user(alice.id).await.expect(200);
    eventually(async || listed(&alice, &name).await, |listed| *listed).await;

    let blocked = alice.blocks(bob.id).await.expect_data(200);
    assert_eq!(blocked["user"]["id"], bob.id);
    bob.invites_to(&lair).user(alice.id).await.expect_error(403, "not_allowed");
    assert!(!listed(&alice, &name).await);
    let predictions = alice.lists_event_predictions(event).user(bob.id).await.expect_data(200);
    assert_eq!(predictions, json!([]));
    assert_eq!(alice.lists_blocks().await.expect_data(200), json!([blocked]));

    alice.unblocks(bob.id).await.expect(200);
    assert_eq!(alice.lists_blocks().await.expect_data(200), json!([]));
    assert!(!listed(&alice, &name).await, "the block has declined the invitation");
    bob.invites_to(&lair).user(alice.id).await.expect(200);
    alice.blocks(alice.id).await.expect_invalid(&["user"]);
    alice.blocks(u32::MAX).await.expect_error(404, "user_not_found");
}

#[tokio::test]
async fn a_report_is_listed_until_an_operator_closes_it() {
    let (app, alice, bob) = two_users().await;
    let report = alice.reports("spam").user(bob.id).field("text", "Links").await.expect_data(201);
    alice.reports("abuse").user(bob.id).await.expect(200);
    alice.reports("illegal").message("$message:example.org").await.expect(201);
    let find = async |status: &str| -> Value {
        let mut cursor = Value::Null;
        loop {
            let page = json!({ "list_reports": { "status": status, "cursor": cursor, "limit": 100 } });
            let page = app.invoke("moderation", &page).await;
            let found = page["reports"].as_array().unwrap().iter().find(|one| one["id"] == report["id"]);
            cursor = page["cursor"].clone();
            if found.is_some() || cursor.is_null() {
                return found.cloned().unwrap_or_default();
            }
        }
    };
    let open = find("open").await;
    assert_eq!(
        (&open["reason"], &open["text"], &open["user_id"]),
        (&json!("abuse"), &Value::Null, &json!(bob.id))
    );
    moderate(&app, "close_report", json!({ "report_id": report["id"] })).await;
    assert_eq!(find("open").await, Value::Null);
    assert_eq!(find("closed").await["status"], "closed");
    alice.reports("spam").user(bob.id).await.expect(201);
    assert_eq!(find("open").await["reason"], "spam");
}

#[tokio::test]
async fn a_suspended_user_cannot_log_in_until_an_operator_restores_the_account() {
    let (app, alice, bob) = two_users().await;
    let id = unique_name();
    let suspended = moderate(&app, "suspend", json!({ "user_id": bob.id, "id": id })).await;
    assert_eq!((&suspended["complete"], &suspended["sessions_ended"]), (&json!(true), &json!(1)));
    bob.views_profile().await.expect_error(401, "token_invalid");
    let code = app.anonymous().receives_code(&bob.phone).await;
    app.anonymous().verifies_code(&bob.phone, &code).await.expect_error(403, "suspended");
    moderate(&app, "restore", json!({ "user_id": bob.id })).await;
    assert_eq!(app.sign_in(&bob.phone).await.id, bob.id);
    alice.views_profile().await.expect(200);
    let entries = app.invoke("moderation", &json!({ "audit": { "limit": 100 } })).await["entries"].clone();
    let entry = entries.as_array().unwrap().iter().find(|entry| entry["id"] == *id).unwrap().clone();
    assert_eq!(
        (&entry["action"], &entry["subject"]),
        (&json!("suspend"), &json!(format!("user {}", bob.id)))
    );
}

#[tokio::test]
async fn a_reset_removes_the_name_of_a_user() {
    let (app, alice, _) = two_users().await;
    alice.updates_profile().name("Rude Name").await.expect(200);
    let reset = moderate(&app, "reset_name", json!({ "user_id": alice.id })).await;
    assert_eq!((&reset["name_removed"], &reset["username_changed"]), (&json!(true), &json!(true)));
    let profile = alice.views_profile().await.expect_data(200);
    assert_eq!(profile["name"], Value::Null);
    assert_ne!(profile["username"], alice.username);
}

#[tokio::test]
async fn a_removed_room_is_in_no_list_and_nobody_can_join_it() {
    let (app, alice, bob) = two_users().await;
    let name = unique_name();
    let room = alice.creates_room(&name).await.room_id();
    bob.joins(&room).await.expect(200);
    eventually(async || listed(&bob, &name).await, |listed| *listed).await;
    let removed = moderate(&app, "remove_room", json!({ "room_id": room })).await;
    assert_eq!((&removed["complete"], &removed["members_removed"]), (&json!(true), &json!(2)));
    for user in [&alice, &bob] {
        user.joins(&room).await.expect_error(404, "room_not_found");
        assert!(!listed(user, &name).await);
        let joined = user.lists_rooms().joined().await.expect_data(200);
        assert_eq!(joined, json!([]));
    }
}
