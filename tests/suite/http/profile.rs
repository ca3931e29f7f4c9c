use serde_json::json;
use touchline_testing::{Api as _, User};

use crate::target::{HttpApi, eventually, unique_name, unique_phone};

#[tokio::test]
async fn the_profile_shows_the_updated_fields() {
    let alice = HttpApi::under_test().user("alice").await;
    let username = unique_name();
    let update = alice.updates_profile().name("Ada Lovelace").email("ada@example.org");
    let saved = update.date_of_birth("1990-12-10").username(&username).await.expect_data(200);
    assert_eq!(saved, json!({ "id": alice.id, "name": "Ada Lovelace", "email": "ada@example.org" }));
    let profile = alice.views_profile().await.expect_data(200);
    for (field, value) in [
        ("name", "Ada Lovelace"),
        ("email", "ada@example.org"),
        ("date_of_birth", "1990-12-10"),
        ("username", &username),
    ] {
        assert_eq!(profile[field], value);
    }
}

#[tokio::test]
async fn a_phone_is_verified_by_the_latest_code_sent_to_it() {
    let app = HttpApi::under_test();
    let alice = app.user("alice").await;
    let new = unique_phone();
    alice.requests_new_code(&new).await.expect_error(422, "no_pending_verification");
    let started = alice.initiates_verification(&new).await.expect_data(200);
    assert_eq!(started, json!({ "expires_in": 300, "phone": new }));
    let first = app.last_code(&new).await;
    alice.requests_new_code(&new).await.expect(200);
    let second = app.last_code(&new).await;

    if first != second {
        alice.verifies_phone(&new, &first).await.expect_error(401, "invalid_code");
    }
    alice.verifies_phone(&alice.phone, &second).await.expect_error(422, "phone_mismatch");
    let verified = alice.verifies_phone(&new, &second).await.expect_data(200);
    assert_eq!(verified, json!({ "verified": true, "phone": new }));
    assert_eq!(alice.views_profile().await.expect_data(200)["phone"], new.as_str());
}

#[tokio::test]
async fn a_change_of_phone_ends_other_sessions_and_can_be_undone() {
    let app = HttpApi::under_test();
    let alice = app.user("alice").await;
    let other = app.sign_in(&alice.phone).await;
    let new = unique_phone();
    alice.initiates_verification(&new).await.expect(200);
    alice.verifies_phone(&new, &app.last_code(&new).await).await.expect(200);
    eventually(async || other.views_profile().await.status, |status| *status == 401).await;
    alice.views_profile().await.expect(200);

    let code = app.anonymous().receives_code(&alice.phone).await;
    let login = app.anonymous().undoes_phone_change(&alice.phone, &code).await.expect_data(200);
    let owner = User::from_login(&app, &login);
    assert_eq!((owner.id, owner.phone.as_str()), (alice.id, alice.phone.as_str()));
    eventually(async || alice.views_profile().await.status, |status| *status == 401).await;
    owner.views_profile().await.expect(200);
}

#[tokio::test]
async fn the_right_code_tells_that_the_phone_belongs_to_another_user() {
    let app = HttpApi::under_test();
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    alice.initiates_verification(&bob.phone).await.expect(200);
    let code = app.last_code(&bob.phone).await;
    alice.verifies_phone(&bob.phone, &code).await.expect_error(422, "phone_taken");
}

#[tokio::test]
async fn users_are_found_by_the_beginning_of_their_username_and_have_a_public_profile() {
    let app = HttpApi::under_test();
    let (alice, prefix) = (app.user("alice").await, unique_name());
    let mut friends = Vec::new();
    for suffix in ["a", "b", "c"] {
        let friend = app.user("friend").await;
        friend.updates_profile().username(&format!("{prefix}.{suffix}")).name("Ada").await.expect(200);
        friends.push(friend);
    }
    let [one, two, three] = &friends[..] else { panic!("three friends") };
    let found = async || {
        let list = alice.searches_users(&prefix.to_uppercase()).await.expect_data(200);
        list.as_array().unwrap().iter().map(|user| user["id"].clone()).collect::<Vec<_>>()
    };
    eventually(&found, |ids| *ids == [one.id, two.id, three.id]).await;
    let first = alice.searches_users(&prefix).per_page(1).await.expect(200);
    assert_eq!(
        first["data"],
        json!([{ "id": one.id, "username": format!("{prefix}.a"), "name": "Ada", "primary_team": null }])
    );
    let cursor = first["meta"]["next_cursor"].as_str().unwrap();
    let second = alice.searches_users(&prefix).per_page(1).cursor(cursor).await.expect_data(200);
    assert_eq!(second[0]["id"], two.id);
    alice.searches_users("a").await.expect_invalid(&["search"]);

    let profile = alice.views_user(one.id).await.expect_data(200);
    assert_eq!(alice.views_user(format!("{prefix}.a")).await.expect_data(200), profile);
    assert_eq!((&profile["name"], &profile["form"]), (&json!("Ada"), &json!([])));
    assert_eq!(profile["record"], json!({ "settled": 0, "correct": 0, "points": 0, "accuracy": 0.0 }));
    let text = profile.to_string();
    assert!(!text.contains(&one.phone) && !text.contains("email") && !text.contains("birth"), "{text}");

    two.blocks(alice.id).await.expect(200);
    alice.blocks(three.id).await.expect(200);
    eventually(&found, |ids| *ids == [one.id]).await;
    alice.views_user(two.id).await.expect_error(404, "user_not_found");
    alice.views_user(unique_name()).await.expect_error(404, "user_not_found");
}
