use aws_sdk_dynamodb::types::AttributeValue;
use chrono::TimeDelta;
use serde_json::json;
use touchline::domain::{Name, UserId, Username};
use touchline::storage::users::Changes;
use touchline_testing::{Fault, TestApp, User, concurrently};

async fn alice() -> (TestApp, User) {
    let app = TestApp::serving(&[crate::router, login::router]).start().await;
    let alice = app.user("alice").await;
    (app, alice)
}

#[tokio::test]
async fn absent_fields_keep_their_values() {
    let (_app, alice) = alice().await;
    let body = alice.updates_profile().name("Ada").await.expect(200);
    let data = json!({ "id": 1, "name": "Ada", "email": null });
    assert_eq!(body, json!({ "message": "Your details are saved.", "data": data }));
    let data = alice.updates_profile().email("a@b.co").field("name", json!(null)).await.expect_data(200);
    assert_eq!(data, json!({ "id": 1, "name": "Ada", "email": "a@b.co" }));
    let data = alice.updates_profile().await.expect_data(200);
    assert_eq!(data, json!({ "id": 1, "name": "Ada", "email": "a@b.co" }));
}

#[tokio::test]
async fn a_later_change_counts_although_the_clock_of_its_environment_is_behind() {
    let (app, alice) = alice().await;
    alice.updates_profile().name("Ada").await.expect(200);
    app.clock.advance(TimeDelta::milliseconds(-800));
    assert_eq!(alice.updates_profile().name("Grace").await.expect_data(200)["name"], "Grace");
    assert_eq!(alice.views_profile().await.expect_data(200)["name"], "Grace");
}

/// A request can reach the store again long after its retry was answered.
#[tokio::test]
async fn a_delayed_write_does_not_overwrite_a_later_change() {
    let (app, alice) = alice().await;
    let began = app.clock.now();
    app.clock.advance(TimeDelta::seconds(30));
    alice.updates_profile().name("Grace").email("grace@example.org").await.expect(200);
    let late = Changes { name: Name::parse("Ada").ok(), ..Changes::default() };
    assert!(app.store.update_user(UserId(alice.id), &late, began).await.is_err());
    assert_eq!(alice.views_profile().await.expect_data(200)["name"], "Grace");
}

#[tokio::test]
async fn invalid_fields_are_422_and_nothing_is_written() {
    let (_app, alice) = alice().await;
    let before = alice.views_profile().await.expect(200);
    let response =
        alice.updates_profile().name("").email("x").date_of_birth("2000-02-30").username("!").await;
    response.expect_invalid(&["date_of_birth", "email", "name", "username"]);
    assert_eq!(response.message(), "Enter at least one character.", "the sentence for name, the first field");
    for (field, value) in [
        ("name", json!("x".repeat(101))),
        ("name", json!("a\u{0}b")),
        ("name", json!(["Ada"])),
        ("email", json!("a@b")),
        ("date_of_birth", json!("2026-11-15")),
        ("date_of_birth", json!("2013-11-16")),
        ("date_of_birth", json!("15.11.2000")),
        ("date_of_birth", json!(20_000_101)),
        ("username", json!("admin")),
        ("username", json!("adm1n")),
        ("username", json!("fuck")),
        ("name", json!("\u{2800}")),
        ("name", json!("Grace \u{202E}")),
        ("name", json!("Touchline Support")),
        ("name", json!("Fuck You")),
    ] {
        let response = alice.updates_profile().name("Grace").field(field, value).await;
        response.expect_invalid(&[field]);
        assert_eq!(response.body["errors"][field], json!([response.message()]));
    }
    assert_eq!(alice.views_profile().await.expect(200), before);
}

#[tokio::test]
async fn a_former_username_stays_reserved_for_its_user() {
    let (app, alice) = alice().await;
    let is_taken =
        async |name: &str| app.anonymous().checks_username(name).await.expect(200)["available"] == false;
    // The second request sends the username that the user already has.
    for _ in 0..2 {
        let data = alice.updates_profile().username("Ada").name("Ada").await.expect_data(200);
        assert_eq!(data["name"], "Ada");
        assert!(is_taken("ada").await);
    }
    alice.updates_profile().username("grace").await.expect(200);
    assert!(is_taken("grace").await && is_taken("ada").await);
    alice.updates_profile().username("ada").await.expect(200);
    alice.updates_profile().username("grace").await.expect(200);
    assert_eq!(alice.views_profile().await.expect_data(200)["username"], "grace");

    let eve = app.user("eve").await;
    for taken in ["grace", "ada", "alice"] {
        let response = eve.updates_profile().username(taken).name("Eve").await;
        response.expect_error(422, "username_taken");
        assert_eq!(response.body["errors"], json!({ "username": ["This username is taken."] }));
    }
    let name = &eve.views_profile().await.expect_data(200)["name"];
    assert_eq!(*name, json!(null), "a rejected request writes nothing");
}

#[tokio::test]
async fn a_user_can_change_between_usernames_that_look_alike() {
    let (app, alice) = alice().await;
    let eve = app.user("eve").await;
    for name in ["ada_l", "adal", "a.dal", "ada_l", "ada1"] {
        alice.updates_profile().username(name).await.expect(200);
        assert_eq!(alice.views_profile().await.expect_data(200)["username"], name);
        let response = eve.updates_profile().username("a_d_a_l").await;
        response.expect_error(422, "username_taken");
    }
    // The user had all of these usernames, so each still leads to the user.
    for name in ["ada_l", "adal", "a.dal", "ada1"] {
        let name = Username::parse(name).unwrap();
        assert_eq!(app.store.user_named(&name).await.unwrap(), Some(UserId(alice.id)), "{name:?}");
    }
    eve.updates_profile().username("adal").await.expect_error(422, "username_taken");
}

#[tokio::test]
async fn a_user_keeps_a_username_that_can_no_longer_be_chosen() {
    let app = TestApp::serving(&[crate::router]).start().await;
    let old = app.user("admin_bob").await;
    let data = old.updates_profile().username("admin_bob").name("Bob").await.expect_data(200);
    assert_eq!(data["name"], "Bob");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_fifty_concurrent_users_gets_the_username_that_all_want() {
    let app = TestApp::serving(&[crate::router]).start().await;
    let users = concurrently(50, |n| app.user(&format!("fan{}{}", 2 + n / 8, 2 + n % 8))).await;
    let responses = concurrently(50, |n| users[n].updates_profile().username("striker")).await;
    let with = |status: u16| responses.iter().filter(|response| response.status == status).count();
    assert_eq!((with(200), with(422)), (1, 49), "{responses:?}");
    assert_eq!(app.dump().await.matches("name#").count(), 51, "the 50 original usernames, and striker");
}

#[tokio::test]
async fn a_change_of_username_can_be_retried_after_a_crash_between_any_two_store_calls() {
    for calls_before_crash in 0..5 {
        let (app, alice) = alice().await;
        let mut calls = 0;
        app.faults.set(move |_| {
            calls += 1;
            if calls <= calls_before_crash { Fault::None } else { Fault::LoseRequest }
        });
        let _ = alice.updates_profile().username("ada").await;
        app.faults.clear();
        alice.updates_profile().username("ada").await.expect(200);
        assert_eq!(app.dump().await.matches("name#").count(), 2);
        let ada = Username::parse("ada").unwrap();
        assert_eq!(app.store.user_named(&ada).await.unwrap(), Some(UserId(alice.id)));
        let profile = alice.views_profile().await.expect_data(200);
        assert_eq!(profile["username"], "ada", "after {calls_before_crash} calls");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_by_one_user_for_the_same_username_all_succeed() {
    let (_app, alice) = alice().await;
    for response in concurrently(8, |_| alice.updates_profile().username("ada")).await {
        response.expect(200);
    }
}

#[tokio::test]
async fn a_login_after_a_change_of_username_returns_the_new_username() {
    let (app, alice) = alice().await;
    alice.updates_profile().username("ada").await.expect(200);
    assert_eq!(app.sign_in(&alice.phone).await.username, "ada");
}

/// Each change reserves one more username for the user, so the number of changes is limited.
#[tokio::test]
async fn a_username_can_change_at_most_ten_times() {
    let (_app, alice) = alice().await;
    for n in 0..10 {
        alice.updates_profile().username(&format!("ada{n}")).await.expect(200);
    }
    alice.updates_profile().username("ada10").await.expect_error(409, "username_locked");
}

#[tokio::test]
async fn a_username_cannot_change_while_the_homeserver_is_down() {
    let app = TestApp::serving(&[crate::router]).with_chat_down().start().await;
    let alice = app.user("alice").await;
    alice.updates_profile().username("ada").await.expect_error(503, "chat_unavailable");
    assert_eq!(alice.views_profile().await.expect_data(200)["username"], "alice");
    alice.updates_profile().name("Ada").await.expect(200);
}

#[tokio::test]
async fn a_username_cannot_change_after_the_user_joins_a_chat_room() {
    let (app, alice) = alice().await;
    app.client()
        .update_item()
        .table_name(&app.config.tables.users)
        .key("pk", AttributeValue::S(format!("user#{}", alice.id)))
        .key("sk", AttributeValue::S("profile".into()))
        .update_expression("SET chat_since = :now")
        .expression_attribute_values(":now", AttributeValue::N("1".into()))
        .send()
        .await
        .unwrap();
    alice.updates_profile().username("ada").await.expect_error(409, "username_locked");
    alice.updates_profile().name("Ada").await.expect(200);
}

/// Sets or removes an attribute of a profile, as an operator does.
async fn edit_profile(app: &TestApp, user: u32, expression: &str) {
    let edit = app.client().update_item().table_name(&app.config.tables.users);
    let edit = edit.key("pk", AttributeValue::S(format!("user#{user}")));
    let edit = edit.key("sk", AttributeValue::S("profile".into())).update_expression(expression);
    edit.send().await.unwrap();
}

#[tokio::test]
async fn a_user_who_is_too_young_cannot_try_another_date() {
    let (app, alice) = alice().await;
    let sets = |date: &str| alice.updates_profile().name("Ada").date_of_birth(date);
    let response = sets("2013-11-16").await;
    response.expect_invalid(&["date_of_birth"]);
    assert_eq!(response.message(), "You must be at least 13 years old.");
    for _ in 0..2 {
        let response = sets("2000-01-01").await;
        response.expect_invalid(&["date_of_birth"]);
        assert_eq!(
            response.message(),
            "You must be at least 13 years old. If your first date was a mistake, contact support."
        );
    }
    let profile = alice.views_profile().await.expect_data(200);
    assert_eq!((&profile["date_of_birth"], &profile["name"]), (&json!(null), &json!(null)));
    // Other details can change.
    alice.updates_profile().name("Ada").await.expect(200);
    app.clock.advance(TimeDelta::days(800));
    let alice = app.sign_in(&alice.phone).await;
    alice.updates_profile().date_of_birth("2000-01-01").await.expect_invalid(&["date_of_birth"]);
    // An operator resets the refusal.
    edit_profile(&app, alice.id, "REMOVE age_refused_at").await;
    alice.updates_profile().date_of_birth("2000-01-01").await.expect(200);
}

/// They are typing errors, which tell nothing about the age.
#[tokio::test]
async fn dates_in_the_future_or_before_1900_are_not_remembered() {
    let (_app, alice) = alice().await;
    for date in ["2026-11-15", "2090-01-01", "1899-12-31"] {
        alice.updates_profile().date_of_birth(date).await.expect_invalid(&["date_of_birth"]);
    }
    alice.updates_profile().date_of_birth("2000-01-01").await.expect(200);
}

#[tokio::test]
async fn without_the_age_gate_another_date_can_be_entered() {
    let app = TestApp::serving(&[crate::router]).variable("AGE_GATE", "no").start().await;
    let alice = app.user("alice").await;
    alice.updates_profile().date_of_birth("2020-01-01").await.expect_invalid(&["date_of_birth"]);
    alice.updates_profile().date_of_birth("2000-01-01").await.expect(200);
}

/// All of them have read the same username, and only one can replace it.
#[tokio::test]
async fn concurrent_renames_of_one_user_are_409_except_one() {
    let (_app, alice) = alice().await;
    let responses = concurrently(30, |n| alice.updates_profile().username(&format!("ada.{n}"))).await;
    let (done, others): (Vec<_>, Vec<_>) = responses.into_iter().partition(|response| response.status == 200);
    assert!(!done.is_empty());
    for response in others {
        assert_eq!(response.status, 409, "{response:?}");
    }
}
