use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::TimeDelta;
use futures_util::FutureExt as _;
use serde_json::json;
use touchline::domain::{OneTimeCode, Phone, UserId, Username};
use touchline::flows::codes;
use touchline::storage::users::{Session, Which};
use touchline_testing::{Fault, HomeserverStandIn, Persona, TestApp, concurrently};

const PHONE: &str = "+447700900123";
const OTHER_PHONE: &str = "+447700900124";

async fn anonymous() -> (TestApp, Persona) {
    let app = TestApp::serving(&[crate::router]).start().await;
    let caller = app.anonymous();
    (app, caller)
}

fn wrong(code: &str) -> String {
    format!("{:06}", (code.parse::<u32>().unwrap() + 1) % 1_000_000)
}

async fn stored_users(app: &TestApp) -> usize {
    app.dump().await.matches("S(\"profile\")").count()
}

#[tokio::test]
async fn the_first_login_of_a_phone_creates_a_user_and_later_logins_find_that_user() {
    let (app, caller) = anonymous().await;
    let code = caller.receives_code(PHONE).await;
    let first = caller.verifies_code(PHONE, &code).await.expect_data(200);
    assert_eq!(first["user"]["id"], 1);
    assert_eq!(first["user"]["phone"], PHONE);
    assert_eq!(first["user"]["created_at"], "2026-11-15T12:00:00Z");
    let username = first["user"]["username"].as_str().unwrap();
    assert_eq!(first["matrix_credentials"]["user_id"], format!("@{username}:touchline.local"));
    for field in ["access_token", "device_id"] {
        assert!(first["matrix_credentials"][field].as_str().is_some_and(|text| text.len() >= 10));
    }
    app.clock.advance(TimeDelta::hours(1));
    let code = caller.receives_code(PHONE).await;
    let second = caller.verifies_code(PHONE, &code).await.expect_data(200);
    assert_eq!(second["user"], first["user"]);
    assert_ne!(second["token"], first["token"]);
    assert_ne!(second["matrix_credentials"]["device_id"], first["matrix_credentials"]["device_id"]);
}

#[tokio::test]
async fn the_login_endpoint_logs_in_and_spends_the_code() {
    let (_app, caller) = anonymous().await;
    let code = caller.receives_code(PHONE).await;
    let data = caller.logs_in(PHONE, &code).await.expect_data(200);
    assert_eq!(data["user"]["id"], 1);
    caller.logs_in(PHONE, &code).await.expect_error(401, "invalid_code");
    caller.verifies_code(PHONE, &code).await.expect_error(401, "invalid_code");
}

/// Otherwise, a device that is logged in after the session has ended would stay for good.
#[tokio::test]
async fn a_login_whose_session_ends_meanwhile_keeps_no_chat_device() {
    let homeserver = HomeserverStandIn::start().await;
    let app = TestApp::serving(&[crate::router])
        .variable("CHAT_HOMESERVER_URL", homeserver.url())
        .variable("CHAT_AS_TOKEN", "the-token-of-the-tests")
        .start()
        .await;
    let caller = app.anonymous();
    let code = caller.receives_code(PHONE).await;
    caller.verifies_code(PHONE, &code).await.expect(200);
    app.clock.advance(TimeDelta::hours(1));
    let code = caller.receives_code(PHONE).await;
    let _ = homeserver.take_requests();
    let (at_login, store) = (homeserver.clone(), app.clone());
    app.faults.interrupt(move |attempt| {
        // The first read after the homeserver's login. To look at the requests takes them.
        let is_logged_in = attempt.operation == "GetItem" && at_login.take_requests() == ["POST login"];
        let app = store.clone();
        let end = async move {
            let all = Which::All { until: app.clock.now() + TimeDelta::minutes(1), except: None };
            app.store.end_sessions(UserId(1), all, app.clock.now()).await.unwrap();
        };
        is_logged_in.then(|| end.boxed())
    });
    caller.verifies_code(PHONE, &code).await.expect_error(401, "invalid_code");
    let requests = homeserver.take_requests();
    assert!(requests.len() == 1 && requests[0].starts_with("DELETE devices/"), "{requests:?}");
}

#[tokio::test]
async fn codes_that_are_wrong_used_expired_replaced_or_unsent_are_rejected() {
    let (app, caller) = anonymous().await;
    let verify = |code: &str| caller.verifies_code(PHONE, code);
    verify("123456").await.expect_error(401, "invalid_code");

    let code = caller.receives_code(PHONE).await;
    verify(&wrong(&code)).await.expect_error(401, "invalid_code");
    verify(&code).await.expect(200);
    verify(&code).await.expect_error(401, "invalid_code");

    let replaced = caller.receives_code(PHONE).await;
    let newest = caller.receives_code(PHONE).await;
    assert_ne!(replaced, newest);
    verify(&replaced).await.expect_error(401, "invalid_code");
    verify(&newest).await.expect(200);

    let expiring = caller.receives_code(PHONE).await;
    app.clock.advance(TimeDelta::minutes(5) - TimeDelta::milliseconds(1));
    verify(&wrong(&expiring)).await.expect_error(401, "invalid_code");
    app.clock.advance(TimeDelta::milliseconds(1));
    verify(&expiring).await.expect_error(401, "invalid_code");
}

#[tokio::test]
async fn a_code_works_until_the_last_millisecond_of_its_five_minutes() {
    let (app, caller) = anonymous().await;
    let code = caller.receives_code(PHONE).await;
    app.clock.advance(TimeDelta::minutes(5) - TimeDelta::milliseconds(1));
    caller.verifies_code(PHONE, &code).await.expect(200);
}

#[tokio::test]
async fn five_wrong_attempts_invalidate_the_code() {
    let (app, caller) = anonymous().await;
    let code = caller.receives_code(PHONE).await;
    for _ in 0..5 {
        caller.verifies_code(PHONE, &wrong(&code)).await.expect_error(401, "invalid_code");
    }
    caller.verifies_code(PHONE, &code).await.expect_error(401, "invalid_code");
    app.sign_in(PHONE).await;
}

#[tokio::test]
async fn invalid_fields_are_422_and_do_not_use_up_an_attempt() {
    let (_app, caller) = anonymous().await;
    let code = caller.receives_code(PHONE).await;
    let valid = caller.verifies_code(PHONE, "123456");
    for (field, value, sentence) in [
        ("code", json!(null), "The field code is required."),
        ("code", json!("12345"), "Enter the 6 digits of the code."),
        ("code", json!(123_456), "The field code must be a string."),
        ("phone", json!("x"), "Include the country code, for example +44 7700 900123."),
        ("username", json!("a b"), "Use only the letters a to z, digits, _ and . in a username."),
        ("username", json!("admin"), "This username is reserved. Choose another one."),
        ("username", json!("a.dm1n"), "This username is reserved. Choose another one."),
        ("username", json!("fuck"), "This username has a word that is not allowed. Choose another one."),
    ] {
        for _ in 0..2 {
            let response = valid.clone().field(field, value.clone()).await;
            response.expect_invalid(&[field]);
            assert_eq!(response.message(), sentence);
        }
    }
    valid.clone().without("code").await.expect_invalid(&["code"]);
    let response = valid.field("username", "a b").field("phone", "x").field("code", "x").await;
    response.expect_invalid(&["code", "phone", "username"]);
    assert_eq!(response.message(), "Include the country code, for example +44 7700 900123.");
    caller.verifies_code(PHONE, &code).await.expect(200);
}

#[tokio::test]
async fn a_new_user_gets_the_wanted_username_or_a_similar_one() {
    let (_app, caller) = anonymous().await;
    let log_in = async |phone: &str, username: &str| {
        let code = caller.receives_code(phone).await;
        caller.verifies_code(phone, &code).username(username).await.expect(200)
    };
    let first = log_in(PHONE, "Alice").await;
    assert_eq!(first["data"]["user"]["username"], "alice");
    assert_eq!(first.get("message"), None);

    let second = log_in(OTHER_PHONE, "alice").await;
    let similar = second["data"]["user"]["username"].as_str().unwrap();
    assert!(similar.starts_with("alice") && similar != "alice", "{similar}");
    assert_eq!(
        second["message"],
        format!(
            "alice is taken, so your username is {similar} for now. You can change it until you join a chat room."
        )
    );

    // A user who already exists keeps their username.
    let third = log_in(PHONE, "bob").await;
    assert_eq!(third["data"]["user"]["username"], "alice");
    assert_eq!(third.get("message"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_twenty_concurrent_logins_with_the_same_code_succeeds() {
    for is_known in [false, true] {
        let (app, caller) = anonymous().await;
        if is_known {
            app.sign_in(PHONE).await;
        }
        let code = caller.receives_code(PHONE).await;
        let responses = concurrently(20, |_| caller.verifies_code(PHONE, &code)).await;
        let with = |status: u16| responses.iter().filter(|response| response.status == status).count();
        assert_eq!((with(200), with(401)), (1, 19), "{responses:?}");
    }
}

/// Calls the store directly, because the limit on attempts would reject most requests to the endpoint.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_concurrent_requests_spend_a_code_once() {
    let (app, caller) = anonymous().await;
    let code = OneTimeCode::parse(&caller.receives_code(PHONE).await).unwrap();
    let phone = Phone::parse(PHONE).unwrap();
    let stored = codes::check_login(&app, &phone, &code, None, None).await.unwrap();
    let spent = concurrently(20, |n| {
        let (app, phone, stored) = (app.clone(), phone.clone(), stored.clone());
        async move { app.store.spend_code(&phone, &stored, &format!("request {n}")).await.is_ok() }
    })
    .await;
    assert_eq!(spent.iter().filter(|is_spent| **is_spent).count(), 1);
}

/// A request reserves one of the code's five attempts before it compares its guess with the code.
#[tokio::test(flavor = "multi_thread")]
async fn only_five_of_a_hundred_concurrent_guesses_are_compared_with_the_code() {
    let (app, caller) = anonymous().await;
    let code = caller.receives_code(PHONE).await;
    let right: usize = code.parse().unwrap();
    let guess = |n| caller.verifies_code(PHONE, &format!("{:06}", (right + 1 + n) % 1_000_000));
    for response in concurrently(100, guess).await {
        response.expect_error(401, "invalid_code");
    }
    assert!(app.dump().await.contains("\"attempts\": N(\"5\")"));
    caller.verifies_code(PHONE, &code).await.expect_error(401, "invalid_code");
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_concurrent_first_logins_of_a_phone_create_one_user() {
    let (app, _) = anonymous().await;
    let users = concurrently(20, |_| {
        let app = app.clone();
        async move {
            let phone = Phone::parse(PHONE).unwrap();
            let session = Session::starting("DEVICE".into(), TimeDelta::days(30), app.clock.now());
            let details = super::Details { username: None, date_of_birth: None };
            let login = super::register(&app, &phone, details, &session, None).await.unwrap();
            assert!(app.store.session(&login.token).await.unwrap().is_some());
            assert_eq!(login.token.user(), login.user.user_id);
            login.user.user_id
        }
    })
    .await;
    assert!(users.iter().all(|id| *id == users[0]), "{users:?}");
    assert_eq!(stored_users(&app).await, 1);
    assert_eq!(app.dump().await.matches("session#").count(), 20);
}

#[tokio::test]
async fn a_username_that_looks_like_that_of_another_user_is_taken() {
    let (app, _) = anonymous().await;
    let mut users = 0;
    let mut log_in = async |username: &str| {
        users += 1;
        app.sign_in(&format!("+4477009{users:05}")).username(username).await.username
    };
    for (first, others) in [
        ("marcel", ["rnarcel", "marce1", "mar_cel"]),
        ("john_smith", ["johnsmith", "john.smith", "j0hnsmith"]),
        ("l0rna", ["loma", "lorna", "1orna"]),
    ] {
        assert_eq!(log_in(first).await, first);
        for other in others {
            let body = app.anonymous().checks_username(other).await.expect(200);
            assert_eq!(body["available"], false, "{other}");
            assert_ne!(log_in(other).await, other);
        }
    }
    // The item that keeps others from taking the username does not make it that of a user.
    let id = app.store.user_named(&Username::parse("johnsmith").unwrap()).await.unwrap();
    assert_eq!(id, None);
    assert!(app.store.user_named(&Username::parse("john_smith").unwrap()).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_concurrent_new_users_gets_a_username_that_looks_like_all_others() {
    let (app, _) = anonymous().await;
    let names =
        ["striker", "s.triker", "st_riker", "str.iker", "stri_ker", "strike.r", "s_t.riker", "striker_"];
    let users = concurrently(8, |n| app.sign_in(&format!("+4477009{n:05}")).username(names[n])).await;
    let wanted = users.iter().filter(|user| names.contains(&user.username.as_str()));
    assert_eq!(wanted.count(), 1, "{users:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_fifty_concurrent_new_users_gets_the_username_that_all_want() {
    let (app, _) = anonymous().await;
    let users = concurrently(50, |n| app.sign_in(&format!("+4477009{n:05}")).username("striker")).await;
    assert_eq!(users.iter().filter(|user| user.username == "striker").count(), 1);
    let distinct: HashSet<_> = users.iter().map(|user| &user.username).collect();
    assert_eq!(distinct.len(), 50);
}

#[tokio::test]
async fn a_login_whose_store_responses_are_lost_succeeds_and_creates_one_user() {
    let (app, caller) = anonymous().await;
    let mut users = Vec::new();
    for _ in 0..2 {
        let code = caller.receives_code(PHONE).await;
        app.faults.first_attempts(Fault::LoseResponse);
        let data = caller.verifies_code(PHONE, &code).await.expect_data(200);
        app.faults.clear();
        assert!(data["user"]["id"].is_number());
        users.push(data["user"].clone());
    }
    assert_eq!(users[0], users[1], "the first login creates the user, the second finds it");
    assert_eq!(stored_users(&app).await, 1);
}

/// After 0 to 7 calls, every request to the store is lost, as in a crash. The next login works, and there is one
/// user.
#[tokio::test]
async fn a_crash_between_any_two_calls_does_not_prevent_the_next_login() {
    for is_known in [false, true] {
        for calls_before_crash in 0..8 {
            let (app, caller) = anonymous().await;
            if is_known {
                app.sign_in(PHONE).await;
            }
            let code = caller.receives_code(PHONE).await;
            let calls = AtomicU32::new(0);
            app.faults.set(move |_| {
                if calls.fetch_add(1, Ordering::Relaxed) < calls_before_crash {
                    Fault::None
                } else {
                    Fault::LoseRequest
                }
            });
            let crashed = caller.verifies_code(PHONE, &code).await.status == 503;
            app.faults.clear();
            assert!(crashed || calls_before_crash > 3, "a login takes more than {calls_before_crash} calls");
            let user = app.sign_in(PHONE).await;
            assert_eq!(stored_users(&app).await, 1, "after {calls_before_crash} calls");
            user.logs_out().await.expect(200);
        }
    }
}

#[tokio::test]
async fn a_store_conflict_is_retried_and_a_lasting_conflict_is_503() {
    let (app, caller) = anonymous().await;
    let (code, other_code) = (caller.receives_code(PHONE).await, caller.receives_code(OTHER_PHONE).await);
    app.faults.first_attempts(Fault::Conflict);
    caller.verifies_code(PHONE, &code).await.expect(200);

    app.faults.set(
        |attempt| {
            if attempt.operation == "TransactWriteItems" { Fault::Conflict } else { Fault::None }
        },
    );
    let response = caller.verifies_code(OTHER_PHONE, &other_code).await;
    response.expect_error(503, "busy");
    assert_eq!(response.header("retry-after"), Some("1"));
    app.faults.clear();
    assert_eq!(stored_users(&app).await, 1);
    assert_eq!(app.dump().await.matches("name#").count(), 1, "the failed login leaves no username behind");
}

/// The 503 says "Try again", so the same code must still work.
#[tokio::test]
async fn the_code_of_a_failed_login_can_be_used_again() {
    for (is_known, failing) in [(false, "TransactWriteItems"), (true, "PutItem"), (true, "GetItem")] {
        let (app, caller) = anonymous().await;
        if is_known {
            app.sign_in(PHONE).await;
        }
        let code = caller.receives_code(PHONE).await;
        app.faults.set(
            move |attempt| {
                if attempt.operation == failing { Fault::Throttle } else { Fault::None }
            },
        );
        caller.verifies_code(PHONE, &code).await.expect_error(503, "busy");
        app.faults.clear();
        caller.verifies_code(PHONE, &code).await.expect(200);
        caller.verifies_code(PHONE, &code).await.expect_error(401, "invalid_code");
    }
}

#[tokio::test]
async fn a_guess_whose_store_responses_are_lost_uses_one_attempt() {
    let (app, caller) = anonymous().await;
    let code = caller.receives_code(PHONE).await;
    app.faults.first_attempts(Fault::LoseResponse);
    for _ in 0..4 {
        caller.verifies_code(PHONE, &wrong(&code)).await.expect_error(401, "invalid_code");
    }
    caller.verifies_code(PHONE, &code).await.expect(200);
}

#[tokio::test]
async fn login_and_logout_work_while_the_homeserver_is_down() {
    let app = TestApp::serving(&[crate::router]).with_chat_down().start().await;
    let code = app.anonymous().receives_code(PHONE).await;
    let login = app.anonymous().verifies_code(PHONE, &code).await.expect(200);
    assert_eq!(login["data"]["matrix_credentials"], json!(null));
    assert_eq!(
        login["message"],
        "Chat is not available at the moment, but you are logged in. Try chat again later."
    );
    let user = app.with_token(login["data"]["token"].as_str().unwrap());
    user.logs_out().await.expect(200);
    user.logs_out().await.expect_error(401, "token_invalid");
}

const HOME: &str = "203.0.113.9";
const ELSEWHERE: &str = "198.51.100.7";

#[tokio::test]
async fn a_stranger_cannot_use_up_the_attempts_of_the_user() {
    let (app, caller) = anonymous().await;
    caller.requests_code(PHONE).from_address(HOME).await.expect(200);
    let code = app.sns.last_code(PHONE);
    let stranger = |n: u32| format!("198.51.100.{n}");
    for n in 0..20 {
        let attempt = caller.verifies_code(PHONE, &wrong(&code)).from_address(&stranger(n));
        attempt.await.expect_error(401, "invalid_code");
    }
    // Five attempts of strangers were compared. No more are, not even right ones.
    let attempt = caller.verifies_code(PHONE, &code).from_address(ELSEWHERE);
    attempt.await.expect_error(401, "invalid_code");
    for _ in 0..4 {
        let attempt = caller.verifies_code(PHONE, &wrong(&code)).from_address(HOME);
        attempt.await.expect_error(401, "invalid_code");
    }
    caller.verifies_code(PHONE, &code).from_address(HOME).await.expect(200);
}

#[tokio::test]
async fn a_code_has_five_attempts_from_its_network() {
    let (app, caller) = anonymous().await;
    caller.requests_code(PHONE).from_address(HOME).await.expect(200);
    let code = app.sns.last_code(PHONE);
    for _ in 0..5 {
        let attempt = caller.verifies_code(PHONE, &wrong(&code)).from_address(HOME);
        attempt.await.expect_error(401, "invalid_code");
    }
    caller.verifies_code(PHONE, &code).from_address(HOME).await.expect_error(401, "invalid_code");
}

#[tokio::test]
async fn a_user_can_request_a_code_at_home_and_enter_it_elsewhere() {
    let (app, caller) = anonymous().await;
    caller.requests_code(PHONE).from_address(HOME).await.expect(200);
    let code = app.sns.last_code(PHONE);
    caller.verifies_code(PHONE, &code).from_address(ELSEWHERE).await.expect(200);
}

#[tokio::test]
async fn a_network_can_enter_only_so_many_wrong_codes_of_others_in_an_hour() {
    let app = TestApp::serving(&[crate::router])
        .variable("WRONG_CODES_PER_ADDRESS_PER_HOUR", "3")
        .variable("CODES_PER_ADDRESS_PER_HOUR", "40")
        .start()
        .await;
    let caller = app.anonymous();
    let phone = |n: usize| format!("+44770090{n:04}");
    for n in 0..9 {
        caller.requests_code(&phone(n)).from_address(HOME).await.expect(200);
    }
    // Right codes do not count.
    for n in 0..4 {
        let code = app.sns.last_code(&phone(n));
        caller.verifies_code(&phone(n), &code).from_address(ELSEWHERE).await.expect(200);
    }
    for n in 4..7 {
        let guess = wrong(&app.sns.last_code(&phone(n)));
        let attempt = caller.verifies_code(&phone(n), &guess).from_address(ELSEWHERE);
        attempt.await.expect_error(401, "invalid_code");
    }
    let code = app.sns.last_code(&phone(7));
    let response = caller.verifies_code(&phone(7), &code).from_address(ELSEWHERE).await;
    response.expect_error(429, "rate_limited");
    assert_eq!(response.header("retry-after"), Some("3600"));
    caller.verifies_code(&phone(7), &code).from_address(HOME).await.expect(200);
    app.clock.advance(TimeDelta::hours(1));
    caller.requests_code(&phone(8)).from_address(HOME).await.expect(200);
    let code = app.sns.last_code(&phone(8));
    caller.verifies_code(&phone(8), &code).from_address(ELSEWHERE).await.expect(200);
}

/// Otherwise a stranger could find out for which phones a code was requested.
#[tokio::test]
async fn a_network_over_the_limit_gets_the_same_response_for_every_phone() {
    let app =
        TestApp::serving(&[crate::router]).variable("WRONG_CODES_PER_ADDRESS_PER_HOUR", "2").start().await;
    let caller = app.anonymous();
    caller.requests_code(PHONE).from_address(HOME).await.expect(200);
    let code = app.sns.last_code(PHONE);
    for phone in [PHONE, OTHER_PHONE] {
        let attempt = caller.verifies_code(phone, &wrong(&code)).from_address(ELSEWHERE);
        attempt.await.expect_error(401, "invalid_code");
    }
    for phone in [PHONE, OTHER_PHONE] {
        let attempt = caller.verifies_code(phone, &wrong(&code)).from_address(ELSEWHERE);
        attempt.await.expect_error(429, "rate_limited");
    }
}

/// As the version before this one stored it.
#[tokio::test]
async fn a_code_that_was_stored_without_a_network_can_be_entered_from_every_network() {
    let (app, caller) = anonymous().await;
    caller.requests_code(PHONE).await.expect(200);
    let code = app.sns.last_code(PHONE);
    for _ in 0..4 {
        let attempt = caller.verifies_code(PHONE, &wrong(&code)).from_address(HOME);
        attempt.await.expect_error(401, "invalid_code");
    }
    caller.verifies_code(PHONE, &code).from_address(HOME).await.expect(200);
}

#[tokio::test]
async fn all_networks_of_an_ipv6_48_share_a_limit_of_wrong_codes() {
    let app = TestApp::serving(&[crate::router]).variable("CODES_PER_IPV6_48_PER_HOUR", "3").start().await;
    let caller = app.anonymous();
    caller.requests_code(PHONE).from_address(HOME).await.expect(200);
    let code = app.sns.last_code(PHONE);
    let attempt =
        |n: u32, code: &str| caller.verifies_code(PHONE, code).from_address(&format!("2001:db8:1:{n}::1"));
    for n in 0..3 {
        attempt(n, &wrong(&code)).await.expect_error(401, "invalid_code");
    }
    attempt(3, &code).await.expect_error(429, "rate_limited");
    app.clock.advance(TimeDelta::hours(1));
    caller.requests_code(PHONE).from_address(HOME).await.expect(200);
    attempt(3, &app.sns.last_code(PHONE)).await.expect(200);
}

/// Starts an app that asks for the date of birth at the first login.
async fn asking() -> TestApp {
    TestApp::serving(&[crate::router]).variable("ASK_BIRTH_DATE_AT_LOGIN", "yes").start().await
}

#[tokio::test]
async fn a_new_user_enters_the_date_of_birth_at_the_first_login() {
    for address in [HOME, ELSEWHERE] {
        let app = asking().await;
        let caller = app.anonymous();
        caller.requests_code(PHONE).from_address(HOME).await.expect(200);
        let code = app.sns.last_code(PHONE);
        // A request without the date uses up no attempt, so more than five are possible.
        for _ in 0..7 {
            let response = caller.verifies_code(PHONE, &code).from_address(address).await;
            response.expect_invalid(&["date_of_birth"]);
            assert_eq!(response.message(), "Enter your date of birth.");
        }
        let login = caller.verifies_code(PHONE, &code).date_of_birth("2000-02-29");
        login.from_address(address).await.expect(200);
        assert!(app.dump().await.contains("\"date_of_birth\": S(\"2000-02-29\")"));
        // An existing user needs no date.
        let code = caller.receives_code(PHONE).await;
        caller.logs_in(PHONE, &code).await.expect(200);
    }
}

/// Otherwise a stranger could find out whose phone has no user.
#[tokio::test]
async fn wrong_codes_get_the_same_response_for_new_and_existing_users() {
    let app = asking().await;
    let caller = app.anonymous();
    let code = caller.receives_code(PHONE).await;
    for _ in 0..5 {
        caller.verifies_code(PHONE, &wrong(&code)).await.expect_error(401, "invalid_code");
    }
    caller.verifies_code(PHONE, &code).date_of_birth("2000-01-01").await.expect_error(401, "invalid_code");
}

#[tokio::test]
async fn a_child_is_not_registered_and_cannot_try_another_date_for_a_year() {
    let app = asking().await;
    let caller = app.anonymous();
    let log_in = async |date: &str| {
        let code = caller.receives_code(PHONE).await;
        caller.verifies_code(PHONE, &code).date_of_birth(date).await
    };
    let response = log_in("2013-11-16").await;
    response.expect_invalid(&["date_of_birth"]);
    assert_eq!(response.message(), "You must be at least 13 years old.");
    let response = log_in("2000-01-01").await;
    response.expect_invalid(&["date_of_birth"]);
    assert_eq!(
        response.message(),
        "You must be at least 13 years old. If your first date was a mistake, contact support."
    );
    assert_eq!(stored_users(&app).await, 0);
    let dump = app.dump().await;
    let refusal = dump.lines().find(|line| line.contains("age#")).unwrap();
    assert!(!refusal.contains("7700900123") && !refusal.contains("2013"), "{refusal}");
    app.clock.advance(TimeDelta::days(365) - TimeDelta::hours(1));
    log_in("2000-01-01").await.expect_invalid(&["date_of_birth"]);
    app.clock.advance(TimeDelta::hours(1));
    log_in("2000-01-01").await.expect(200);
}

#[tokio::test]
async fn a_date_that_is_given_without_being_asked_for_is_checked_and_stored() {
    let (app, caller) = anonymous().await;
    let code = caller.receives_code(PHONE).await;
    let login = |date: &str| caller.verifies_code(PHONE, &code).date_of_birth(date);
    login("2020-01-01").await.expect_invalid(&["date_of_birth"]);
    login("2000-01-01").await.expect_invalid(&["date_of_birth"]);
    let code = caller.receives_code(OTHER_PHONE).await;
    caller.verifies_code(OTHER_PHONE, &code).date_of_birth("2000-01-01").await.expect(200);
    assert!(app.dump().await.contains("\"date_of_birth\": S(\"2000-01-01\")"));
}
