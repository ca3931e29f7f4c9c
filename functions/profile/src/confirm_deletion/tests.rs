use chrono::TimeDelta;
use serde_json::json;
use touchline::domain::cleanup::Work;
use touchline::domain::{Phone, UserId};
use touchline::storage::Reads;
use touchline_testing::{Fault, TestApp, User, concurrently};

async fn alice() -> (TestApp, User) {
    let app = TestApp::serving(&[crate::router, login::router]).start().await;
    let alice = app.sign_in("+447700900123").await;
    app.clock.advance(TimeDelta::minutes(11));
    (app, alice)
}

/// Starts an app in which alice has requested the deletion. Also returns the code that was sent.
async fn alice_with_code() -> (TestApp, User, String) {
    let (app, alice) = alice().await;
    alice.requests_deletion().await.expect(200);
    let code = app.sns.last_code(&alice.phone);
    (app, alice, code)
}

fn wrong(code: &str) -> &'static str {
    if code == "000000" { "000001" } else { "000000" }
}

#[tokio::test]
async fn the_message_to_the_phone_says_what_the_code_does() {
    let (app, alice) = alice().await;
    let body = alice.requests_deletion().await.expect(200);
    assert_eq!(body["data"], json!({ "expires_in": 300 }));
    let message = app.sns.messages().pop().unwrap();
    assert_eq!(message["PhoneNumber"], alice.phone);
    let text = message["Message"].as_str();
    assert!(text.contains("deletes your Touchline account"), "{text}");
}

#[tokio::test]
async fn the_right_code_ends_all_sessions_and_frees_the_phone() {
    let (app, alice, code) = alice_with_code().await;
    let other = app.sign_in(&alice.phone).await;
    alice.confirms_deletion(wrong(&code)).await.expect_error(401, "invalid_code");
    alice.views_profile().await.expect(200);
    alice.confirms_deletion(&code).await.expect(200);
    for user in [&alice, &other] {
        user.views_profile().await.expect_error(401, "token_invalid");
    }
    alice.confirms_deletion(&code).await.expect_error(401, "token_invalid");
    let works: Vec<Work> =
        app.store.cleanups().await.unwrap().into_iter().map(|stored| stored.work).collect();
    assert!(matches!(works[..], [Work::EraseUser { .. }, Work::EraseChat { .. }]), "{works:?}");
    assert!(app.sign_in(&alice.phone).await.id > alice.id, "a new account");
}

#[tokio::test]
async fn only_a_code_for_the_deletion_deletes() {
    let (app, alice) = alice().await;
    let login_code = alice.receives_code(&alice.phone).await;
    alice.confirms_deletion(&login_code).await.expect_error(401, "invalid_code");
    alice.initiates_verification(&alice.phone).await.expect(200);
    let verification = app.sns.last_code(&alice.phone);
    alice.confirms_deletion(&verification).await.expect_error(401, "invalid_code");
    alice.requests_deletion().await.expect(200);
    let code = app.sns.last_code(&alice.phone);
    alice.verifies_phone(&alice.phone, &code).await.expect_error(401, "invalid_code");
    alice.verifies_code(&alice.phone, &code).await.expect_error(401, "invalid_code");
    alice.confirms_deletion(&code).await.expect(200);
}

#[tokio::test]
async fn a_code_has_five_attempts_and_expires() {
    let (app, alice, code) = alice_with_code().await;
    for _ in 0..5 {
        alice.confirms_deletion(wrong(&code)).await.expect_error(401, "invalid_code");
    }
    alice.confirms_deletion(&code).await.expect_error(401, "invalid_code");
    alice.requests_deletion().await.expect(200);
    let code = app.sns.last_code(&alice.phone);
    app.clock.advance(TimeDelta::minutes(5));
    alice.confirms_deletion(&code).await.expect_error(401, "invalid_code");
}

/// Otherwise a thief with a token could give the account another phone and delete it.
#[tokio::test]
async fn an_account_whose_phone_change_can_be_undone_cannot_be_deleted() {
    let (app, alice, code) = alice_with_code().await;
    let new = "+447700900555";
    alice.initiates_verification(new).await.expect(200);
    alice.verifies_phone(new, &app.sns.last_code(new)).await.expect(200);
    let response = alice.requests_deletion().await;
    response.expect_error(409, "phone_changed_recently");
    assert!(response.message().contains("You can delete the account from"), "{}", response.message());
    alice.confirms_deletion(&code).await.expect_error(409, "phone_changed_recently");
    let code = alice.receives_code(new).await;
    alice.deletes_account_of(new, &code).await.expect_error(409, "phone_changed_recently");
    app.clock.advance(TimeDelta::hours(72));
    alice.requests_deletion().await.expect(200);
    alice.confirms_deletion(&app.sns.last_code(new)).await.expect(200);
}

/// A deletion also deletes the register of the phone's codes, so it must not be possible any number of times.
#[tokio::test]
async fn a_phone_can_be_used_for_three_deletions_a_day() {
    let (app, mut alice) = alice().await;
    for n in 0..4 {
        alice.requests_deletion().await.expect(200);
        let response = alice.confirms_deletion(&app.sns.last_code(&alice.phone)).await;
        if n == 3 {
            response.expect_error(429, "rate_limited");
            break;
        }
        response.expect(200);
        alice = app.sign_in(&alice.phone).await;
    }
    app.clock.advance(TimeDelta::days(1));
    alice.requests_deletion().await.expect(200);
    alice.confirms_deletion(&app.sns.last_code(&alice.phone)).await.expect(200);
}

#[tokio::test]
async fn a_refused_age_is_remembered_for_the_next_account_of_the_phone() {
    let app = TestApp::serving(&[crate::router, login::router]).start().await;
    let child = app.sign_in("+447700900123").await;
    child.updates_profile().date_of_birth("2020-01-01").await.expect_invalid(&["date_of_birth"]);
    child.requests_deletion().await.expect(200);
    child.confirms_deletion(&app.sns.last_code(&child.phone)).await.expect(200);
    let again = app.sign_in(&child.phone).await;
    let response = again.updates_profile().date_of_birth("1990-01-01").await;
    response.expect_invalid(&["date_of_birth"]);
}

#[tokio::test]
async fn a_test_phone_gets_its_fixed_code_without_a_message() {
    let app = TestApp::serving(&[crate::router, login::router])
        .variable("TEST_PHONES", r#"{"+447700900001":"246810"}"#)
        .start()
        .await;
    let reviewer = app.anonymous();
    reviewer.requests_code("+447700900001").await.expect(200);
    let login = reviewer.verifies_code("+447700900001", "246810").await.expect_data(200);
    let reviewer = app.with_token(login["token"].as_str().unwrap());
    reviewer.requests_deletion().await.expect(200);
    assert!(app.sns.messages().is_empty());
    reviewer.confirms_deletion("246810").await.expect(200);
    reviewer.views_profile().await.expect_error(401, "token_invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_one_of_five_concurrent_confirmations_succeeds() {
    let (app, alice, code) = alice_with_code().await;
    let responses = concurrently(5, |_| alice.confirms_deletion(&code)).await;
    let succeeded = responses.iter().filter(|response| response.status == 200).count();
    assert_eq!(succeeded, 1, "{responses:?}");
    assert_eq!(app.store.cleanups().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_crash_between_any_two_store_calls_deletes_all_or_nothing() {
    let mut deleted = 0;
    for calls_before_crash in 0..8 {
        let (app, alice, code) = alice_with_code().await;
        let mut calls = 0;
        app.faults.set(move |_| {
            calls += 1;
            if calls <= calls_before_crash { Fault::None } else { Fault::LoseRequest }
        });
        let _ = alice.confirms_deletion(&code).await;
        app.faults.clear();
        let profile = app.store.user(UserId(alice.id), Reads::Consistent).await.unwrap();
        let has_profile = profile.is_some();
        let phone = Phone::parse(&alice.phone).unwrap();
        assert_eq!(app.store.phone_owner(&phone).await.unwrap().is_some(), has_profile);
        assert_eq!(app.store.cleanups().await.unwrap().is_empty(), has_profile);
        deleted += usize::from(!has_profile);
    }
    assert!((1..8).contains(&deleted), "{deleted}");
}
