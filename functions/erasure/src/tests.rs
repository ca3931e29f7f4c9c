use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::cleanup::REQUESTS_END;
use touchline::domain::recovery::UNDO_FOR;
use touchline_testing::{Fault, HomeserverStandIn, TestApp, User};

mod deletion;
mod hashing;

const PHONE: &str = "+447700900123";
const NEW_PHONE: &str = "+447700900555";

/// Starts an app with a homeserver.
async fn app() -> (TestApp, HomeserverStandIn) {
    let homeserver = HomeserverStandIn::start().await;
    let app = TestApp::serving(&[login::router, profile::router, chat::router])
        .variable("CHAT_HOMESERVER_URL", homeserver.url())
        .variable("CHAT_AS_TOKEN", "as-token-of-the-tests")
        .start()
        .await;
    (app, homeserver)
}

/// Delivers all changes of the users table so far.
async fn deliver(app: &TestApp) -> Value {
    let changes = app.changes(&app.config.tables.users).await;
    app.invoke(crate::handle, changes).await
}

async fn sweep(app: &TestApp) -> Value {
    app.invoke(crate::handle, json!({})).await
}

fn deletions(homeserver: &HomeserverStandIn) -> Vec<String> {
    let mut requests = homeserver.take_requests();
    requests.retain(|request| request.starts_with("DELETE"));
    requests
}

fn device(user: &User) -> String {
    format!("DELETE devices/{}", user.credentials["device_id"].as_str().unwrap())
}

/// Gives alice another phone.
async fn change_phone(app: &TestApp, alice: &User) {
    alice.initiates_verification(NEW_PHONE).await.expect(200);
    alice.verifies_phone(NEW_PHONE, &app.sns.last_code(NEW_PHONE)).await.expect(200);
}

#[tokio::test]
async fn a_session_that_ends_loses_its_chat_device() {
    let (app, homeserver) = app().await;
    let (first, second) = (app.sign_in(PHONE).await, app.sign_in(PHONE).await);
    assert_eq!(deliver(&app).await, json!({ "batchItemFailures": [] }));
    assert_eq!(deletions(&homeserver), Vec::<String>::new());
    first.logs_out().await.expect(200);
    // The first batch stores the work, and the record of that begins with it.
    deliver(&app).await;
    deliver(&app).await;
    assert_eq!(deletions(&homeserver), [device(&first)]);
    second.lists_sessions().await.expect(200);
    // A login to chat that was under way during the logout can bring the device back.
    app.clock.advance(REQUESTS_END);
    assert_eq!(sweep(&app).await, json!({ "finished": 1, "waiting": 0 }));
    assert_eq!(deletions(&homeserver), [device(&first)]);
}

#[tokio::test]
async fn an_expired_session_loses_its_chat_device_when_dynamodb_deletes_it() {
    let (app, homeserver) = app().await;
    let alice = app.sign_in(PHONE).await;
    let users = &app.config.tables.users;
    let item = app.client().scan().table_name(users).send().await.unwrap();
    let session = item.items().iter().find(|item| item.contains_key("device_id")).unwrap();
    let key = session.iter().filter(|(name, _)| ["pk", "sk"].contains(&name.as_str()));
    let key = key.map(|(name, value)| (name.clone(), value.clone())).collect();
    app.client().delete_item().table_name(users).set_key(Some(key)).send().await.unwrap();
    deliver(&app).await;
    deliver(&app).await;
    assert_eq!(deletions(&homeserver), [device(&alice)]);
}

#[tokio::test]
async fn a_homeserver_that_is_down_is_asked_again_until_it_responds() {
    let (app, homeserver) = app().await;
    let alice = app.sign_in(PHONE).await;
    homeserver.set_down(true);
    alice.logs_out().await.expect(200);
    deliver(&app).await;
    assert_eq!(sweep(&app).await, json!({ "finished": 0, "waiting": 1 }));
    homeserver.set_down(false);
    let _ = homeserver.take_requests();
    assert_eq!(sweep(&app).await, json!({ "finished": 0, "waiting": 1 }));
    assert_eq!(deletions(&homeserver), [device(&alice)]);
    app.clock.advance(REQUESTS_END);
    assert_eq!(sweep(&app).await, json!({ "finished": 1, "waiting": 0 }));
    assert_eq!(sweep(&app).await, json!({ "finished": 0, "waiting": 0 }));
}

#[tokio::test]
async fn a_user_who_was_blocked_while_the_homeserver_was_down_is_ignored_later() {
    let (app, homeserver) = app().await;
    let (alice, bob) = (app.sign_in(PHONE).await, app.sign_in(NEW_PHONE).await);
    homeserver.set_down(true);
    alice.blocks(bob.id).await.expect(200);
    assert_eq!(sweep(&app).await, json!({ "finished": 0, "waiting": 1 }));
    homeserver.set_down(false);
    let ignored = || homeserver.account_data(alice.chat_id(), "m.ignored_user_list")["ignored_users"].clone();
    assert_eq!(sweep(&app).await, json!({ "finished": 0, "waiting": 1 }));
    assert_eq!(ignored(), json!({ bob.chat_id(): {} }));
    // A request from before, which the homeserver carries out late, is corrected.
    homeserver.set_account_data(alice.chat_id(), "m.ignored_user_list", json!({ "ignored_users": {} }));
    app.clock.advance(REQUESTS_END);
    assert_eq!(sweep(&app).await, json!({ "finished": 1, "waiting": 0 }));
    assert_eq!(ignored(), json!({ bob.chat_id(): {} }));
    homeserver.set_down(true);
    alice.unblocks(bob.id).await.expect(200);
    homeserver.set_down(false);
    deliver(&app).await;
    assert_eq!(ignored(), json!({}));
}

#[tokio::test]
async fn a_homeserver_that_is_down_gets_one_request_in_a_run() {
    let (app, homeserver) = app().await;
    for n in 0..30 {
        app.clock.advance(TimeDelta::hours(3));
        app.sign_in(&format!("+4477009001{n:02}")).await.logs_out().await.expect(200);
    }
    homeserver.set_down(true);
    let _ = homeserver.take_requests();
    deliver(&app).await;
    assert_eq!(sweep(&app).await, json!({ "finished": 0, "waiting": 30 }));
    let _ = homeserver.take_requests();
    sweep(&app).await;
    assert!(homeserver.take_requests().len() <= super::CONCURRENT);
}

#[tokio::test]
async fn a_new_phone_ends_all_other_sessions_and_is_told_to_the_old_phone() {
    let (app, homeserver) = app().await;
    let (alice, other) = (app.sign_in(PHONE).await, app.sign_in(PHONE).await);
    change_phone(&app, &alice).await;
    let sent = app.sns.messages().len();
    deliver(&app).await;
    other.lists_sessions().await.expect_error(401, "token_invalid");
    alice.lists_sessions().await.expect(200);
    let messages = app.sns.messages();
    assert_eq!(messages.len(), sent + 1);
    assert_eq!(messages[sent]["PhoneNumber"], PHONE);
    let text = messages[sent]["Message"].as_str();
    assert!(text.contains("undo it in the app for 72 hours"), "{text}");
    deliver(&app).await;
    deliver(&app).await;
    assert!(deletions(&homeserver).contains(&device(&other)));
}

/// Starts an app in which a code and a notice cost more than the budget of a day. Alice has changed her phone.
async fn app_with_small_budget() -> TestApp {
    let app = TestApp::serving(&[login::router, profile::router])
        .variable("ENVIRONMENT", "production")
        .variable("PHONE_PREFIXES", "+44")
        .variable("SMS_CREDIT", "1000")
        .variable("SMS_PRICE_USD", "0.60")
        .variable("DAILY_SMS_BUDGET_USD", "1")
        .start()
        .await;
    let alice = app.user("alice").await;
    change_phone(&app, &alice).await;
    app
}

fn notices(app: &TestApp) -> usize {
    app.sns.messages().iter().filter(|message| message["Message"].contains("undo")).count()
}

/// Otherwise one account could cause any number of messages.
#[tokio::test]
async fn a_notice_waits_until_the_budget_allows_it() {
    let app = app_with_small_budget().await;
    deliver(&app).await;
    assert_eq!(notices(&app), 0);
    app.clock.advance(TimeDelta::days(1));
    app.sns.reject();
    sweep(&app).await;
    app.sns.accept();
    sweep(&app).await;
    assert_eq!(notices(&app), 1, "a failed message does not use up the budget");
    assert_eq!(sweep(&app).await, json!({ "finished": 0, "waiting": 0 }));
}

#[tokio::test]
async fn a_notice_is_not_sent_after_the_change_can_no_longer_be_undone() {
    let app = app_with_small_budget().await;
    app.clock.advance(UNDO_FOR);
    sweep(&app).await;
    assert_eq!((notices(&app), sweep(&app).await), (0, json!({ "finished": 0, "waiting": 0 })));
}

/// A login that has read the owner of the phone stores its session after the phone has changed.
#[tokio::test]
async fn a_login_that_is_under_way_during_the_change_ends_too() {
    let (app, _homeserver) = app().await;
    let (alice, other) = (app.sign_in(PHONE).await, app.sign_in(PHONE).await);
    let token = touchline::domain::Token::new(touchline::domain::UserId(alice.id), [9; 32]);
    let session =
        touchline::storage::users::Session::starting("LATE".into(), TimeDelta::days(1), app.clock.now());
    change_phone(&app, &alice).await;
    deliver(&app).await;
    other.lists_sessions().await.expect_error(401, "token_invalid");
    app.store.save_session(&token, &session).await.unwrap();
    app.clock.advance(TimeDelta::seconds(15));
    let later = app.sign_in(NEW_PHONE).await;
    sweep(&app).await;
    app.with_token(token.as_str()).lists_sessions().await.expect_error(401, "token_invalid");
    alice.lists_sessions().await.expect(200);
    later.lists_sessions().await.expect(200);
    assert_eq!(sweep(&app).await, json!({ "finished": 0, "waiting": 0 }));
}

#[tokio::test]
async fn a_crash_at_any_store_call_leaves_work_that_the_next_run_finishes() {
    for calls_before_crash in 0..12 {
        let (app, _homeserver) = app().await;
        let (alice, other) = (app.sign_in(PHONE).await, app.sign_in(PHONE).await);
        change_phone(&app, &alice).await;
        let changes = app.changes(&app.config.tables.users).await;
        let mut calls = 0;
        app.faults.set(move |_| {
            calls += 1;
            if calls <= calls_before_crash { Fault::None } else { Fault::LoseRequest }
        });
        let _ = app.try_invoke(crate::handle, changes).await;
        app.faults.clear();
        app.clock.advance(TimeDelta::seconds(60));
        sweep(&app).await;
        other.lists_sessions().await.expect_error(401, "token_invalid");
        alice.lists_sessions().await.expect(200);
        assert!(app.sns.messages().iter().any(|message| {
            message["PhoneNumber"] == PHONE && message["Message"].as_str().contains("undo")
        }));
        assert_eq!(sweep(&app).await, json!({ "finished": 0, "waiting": 0 }));
    }
}
