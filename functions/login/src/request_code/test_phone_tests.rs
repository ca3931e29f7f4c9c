//! Phones with a fixed code, for the reviewers of app stores.

use chrono::TimeDelta;
use touchline_testing::TestApp;

const TEST_PHONE: &str = "+15555550100";
const CODE: &str = "417302";
const HOME: &str = "203.0.113.9";

/// Starts an app as in production, in which codes are sent only to the United Kingdom.
async fn production() -> TestApp {
    TestApp::serving(&[crate::router])
        .variable("ENVIRONMENT", "production")
        .variable("PHONE_PREFIXES", "+44")
        .variable("TEST_PHONES", &format!(r#"{{"{TEST_PHONE}":"{CODE}"}}"#))
        .start()
        .await
}

#[tokio::test]
async fn a_reviewer_logs_in_with_the_fixed_code_and_no_message_is_sent() {
    let app = production().await;
    let caller = app.anonymous();
    caller.verifies_code(TEST_PHONE, CODE).await.expect_error(401, "invalid_code");
    let mut users = Vec::new();
    for _ in 0..2 {
        let body = caller.requests_code(TEST_PHONE).await.expect(200);
        assert_eq!(body["message"], "We sent a code to +15555550100.");
        users.push(caller.verifies_code(TEST_PHONE, CODE).await.expect_data(200)["user"]["id"].clone());
        caller.verifies_code(TEST_PHONE, CODE).await.expect_error(401, "invalid_code");
    }
    caller.requests_code(TEST_PHONE).await.expect(200);
    users.push(caller.logs_in(TEST_PHONE, CODE).await.expect_data(200)["user"]["id"].clone());
    assert!(users.iter().all(|id| *id == users[0]), "{users:?}");
    assert!(app.sns.messages().is_empty());
    let dump = app.dump().await;
    assert_eq!(dump.matches("\"provider\": S(\"test\")").count(), 3);
    assert!(!dump.contains(CODE), "the code is stored only as an HMAC");
    // Other phones of the country still get no codes.
    caller.requests_code("+15555550101").await.expect_invalid(&["phone"]);
}

#[tokio::test]
async fn the_fixed_code_cannot_be_guessed_or_requested_without_limit() {
    let app = production().await;
    let caller = app.anonymous();
    caller.requests_code(TEST_PHONE).from_address(HOME).await.expect(200);
    for n in 0..5 {
        let guess = caller.verifies_code(TEST_PHONE, &format!("00000{n}")).from_address(HOME);
        guess.await.expect_error(401, "invalid_code");
    }
    caller.verifies_code(TEST_PHONE, CODE).from_address(HOME).await.expect_error(401, "invalid_code");
    for _ in 1..10 {
        caller.requests_code(TEST_PHONE).await.expect(200);
    }
    caller.requests_code(TEST_PHONE).await.expect_error(429, "rate_limited");
    app.clock.advance(TimeDelta::minutes(10));
    for _ in 0..10 {
        caller.requests_code(TEST_PHONE).await.expect(200);
    }
    app.clock.advance(TimeDelta::minutes(10));
    caller.requests_code(TEST_PHONE).await.expect_error(429, "rate_limited");
}

/// Otherwise reviews would give credit to their country.
#[tokio::test]
async fn logins_with_test_phones_are_not_counted() {
    let app = production().await;
    app.anonymous().requests_code(TEST_PHONE).await.expect(200);
    app.anonymous().verifies_code(TEST_PHONE, CODE).await.expect(200);
    for table in [&app.config.tables.users, &app.config.tables.sms_logs] {
        app.invoke(tally::handle, app.changes(table).await).await;
    }
    let dump = app.dump().await;
    assert!(!dump.contains("prefix#") && !dump.contains("\"spent\""), "{dump}");
}
