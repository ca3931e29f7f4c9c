//! The limits against SMS pumping.

use chrono::TimeDelta;
use touchline_testing::{Fault, TestApp, concurrently};

const PHONE: &str = "+447700900123";
const HOME: &str = "203.0.113.9";

/// Starts an app as in production, with all countries allowed.
async fn production(variables: &[(&str, &str)]) -> TestApp {
    let app = TestApp::serving(&[crate::router]);
    let app = app.variable("ENVIRONMENT", "production").variable("PHONE_PREFIXES", "*");
    variables.iter().fold(app, |app, (name, value)| app.variable(name, value)).start().await
}

/// Logs in with a number and an address.
async fn log_in(app: &TestApp, phone: &str, address: &str) {
    let caller = app.anonymous();
    caller.requests_code(phone).from_address(address).await.expect(200);
    caller.verifies_code(phone, &app.sns.last_code(phone)).from_address(address).await.expect(200);
}

/// Requests codes for different numbers from seven addresses. Advances the clock by `pause` after each request.
async fn attack(app: &TestApp, requests: usize, pause: TimeDelta) {
    for n in 0..requests {
        let country = if n % 3 == 0 { "+2348000" } else { "+44770" };
        let phone = format!("{country}{:07}", app.sns.messages().len() * 10_000 + n);
        let response =
            app.anonymous().requests_code(&phone).from_address(&format!("198.51.100.{}", n % 7)).await;
        if response.status != 200 {
            response.expect_error(429, "rate_limited");
        }
        app.clock.advance(pause);
    }
}

#[tokio::test]
async fn in_production_nothing_is_sent_until_an_operator_chooses_the_countries() {
    let app = TestApp::serving(&[crate::router]).variable("ENVIRONMENT", "production").start().await;
    let response = app.anonymous().requests_code(PHONE).await;
    response.expect_invalid(&["phone"]);
    assert_eq!(response.message(), "Codes cannot be sent to this country yet.");
    assert!(app.sns.messages().is_empty());
}

#[tokio::test]
async fn an_attack_from_seven_addresses_costs_at_most_a_dollar_and_locks_out_nobody() {
    let app = production(&[]).await;
    log_in(&app, PHONE, HOME).await;
    for day in 0..5 {
        attack(&app, 400, TimeDelta::minutes(2)).await;
        log_in(&app, PHONE, HOME).await;
        log_in(&app, &format!("+4477019{day:05}"), &format!("192.0.2.{day}")).await;
        app.clock.advance(TimeDelta::hours(10));
    }
    let attacks = app.sns.messages().len() - 11;
    assert!(attacks <= 10, "at $0.10 each, {attacks} messages of 2,000 requests cost more than a dollar");
}

#[tokio::test]
async fn an_attack_from_seven_addresses_does_not_close_a_country() {
    let app = production(&[("SMS_CREDIT", "+44=500")]).await;
    attack(&app, 300, TimeDelta::milliseconds(60)).await;
    for n in 0..5 {
        log_in(&app, &format!("+44770190000{n}"), &format!("192.0.2.{n}")).await;
    }
    // The networks of the attack get no more codes for other numbers either, until their users enter some.
    let response = app.anonymous().requests_code(PHONE).from_address("198.51.100.1").await;
    response.expect_error(429, "rate_limited");
    assert_eq!(response.header("retry-after"), Some("3582"));
    assert_eq!(response.message(), "No code can be sent to this phone number now. Try again in 60 minutes.");
}

#[tokio::test]
async fn an_attack_from_many_addresses_leaves_a_third_of_the_budget_to_known_networks() {
    let app = production(&[("SMS_CREDIT", "1000"), ("DAILY_SMS_BUDGET_USD", "3")]).await;
    log_in(&app, PHONE, HOME).await;
    for n in 0..40 {
        let caller = app.anonymous();
        let request =
            caller.requests_code(&format!("+4477001{n:05}")).from_address(&format!("198.51.100.{n}"));
        if n < 19 {
            request.await.expect(200);
        } else {
            request.await.expect_error(503, "sms_unavailable");
        }
    }
    log_in(&app, PHONE, HOME).await;
    assert_eq!(app.sns.messages().len(), 21);
    let stranger = app.anonymous().requests_code(PHONE).from_address("192.0.2.1").await;
    stranger.expect_error(503, "sms_unavailable");
    assert_eq!(stranger.header("retry-after"), Some("3600"));
    app.clock.advance(TimeDelta::days(1));
    app.anonymous().requests_code(PHONE).from_address("192.0.2.1").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_do_not_exceed_the_trials() {
    let app = production(&[]).await;
    let request = |n: usize| app.anonymous().requests_code(&format!("+234{:07}", 1_000_000 + n));
    let responses = concurrently(30, request).await;
    assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 3);
    assert_eq!(app.sns.messages().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_do_not_exceed_the_limit_of_their_network() {
    let app = production(&[("SMS_CREDIT", "1000")]).await;
    let request = |n: usize| app.anonymous().requests_code(&format!("+4477001{n:05}")).from_address(HOME);
    concurrently(30, request).await;
    assert!((1..=5).contains(&app.sns.messages().len()), "{}", app.sns.messages().len());
}

#[tokio::test]
async fn messages_that_are_not_sent_use_up_nothing() {
    let app = production(&[]).await;
    app.sns.reject();
    for n in 0..9 {
        let request = app.anonymous().requests_code(&format!("+4477001{n:05}")).from_address(HOME);
        request.await.expect_error(503, "sms_unavailable");
    }
    app.sns.accept();
    for n in 10..13 {
        let request = app.anonymous().requests_code(&format!("+4477001{n:05}"));
        request.from_address(&format!("192.0.2.{n}")).await.expect(200);
    }
    app.anonymous().requests_code(PHONE).from_address(HOME).await.expect_error(429, "rate_limited");
}

/// A lost response must neither fail the login nor count the code twice.
#[tokio::test]
async fn a_code_is_counted_at_most_once_and_never_fails_a_login() {
    for fault in [Fault::LoseResponse, Fault::LoseRequest, Fault::FailBefore, Fault::FailAfter] {
        let app = production(&[]).await;
        let caller = app.anonymous();
        caller.requests_code(PHONE).from_address(HOME).await.expect(200);
        // The writes after the transaction that creates the user.
        let mut has_registered = false;
        app.faults.set(move |attempt| {
            let is_count = has_registered && attempt.operation == "UpdateItem";
            has_registered |= attempt.operation == "TransactWriteItems";
            if is_count { fault } else { Fault::None }
        });
        let code = app.sns.last_code(PHONE);
        caller.verifies_code(PHONE, &code).from_address(HOME).await.expect(200);
        app.faults.clear();
        caller.verifies_code(PHONE, &code).from_address(HOME).await.expect_error(401, "invalid_code");
        let counted = app.dump().await.matches("\"entered:2026-11-15\": N(\"1\")").count();
        let was_written = matches!(fault, Fault::LoseResponse | Fault::FailAfter);
        assert_eq!(counted, if was_written { 2 } else { 0 }, "{fault:?}");
        assert!(!app.dump().await.contains("\"open:2026-11-15\": N(\"-"), "{fault:?}");
    }
}
