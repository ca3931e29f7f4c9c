//! Phones with a fixed code, for the reviewers of app stores.

use chrono::TimeDelta;
use touchline_testing::TestApp;

const TEST_PHONE: &str = "+447700900100";
/// A phone that is like the test phone, but has no fixed code.
const OTHER_PHONE: &str = "+447700900101";
const CODE: &str = "417302";
const HOME: &str = "203.0.113.9";

/// Starts an app as in production, in which codes are sent only to the United Kingdom.
async fn production() -> TestApp {
    TestApp::serving(&[crate::router])
        .variable("ENVIRONMENT", "production")
        .variable("PHONE_PREFIXES", "+44")
        .variable("TEST_PHONES", &format!(r#"{{"{TEST_PHONE}":"{CODE}","+15555550100":"{CODE}"}}"#))
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
        assert_eq!(body["message"], format!("We sent a code to {TEST_PHONE}."));
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
    // Otherwise reviews would open their country.
    assert!(!dump.contains("entered:"), "{dump}");
}

/// Two strangers request codes and enter wrong ones, as often as they like.
#[tokio::test]
async fn strangers_cannot_lock_out_a_reviewer_who_has_requested_a_code() {
    let app = production().await;
    let caller = app.anonymous();
    caller.requests_code(TEST_PHONE).from_address(HOME).await.expect(200);
    let strangers = ["198.51.100.0", "198.51.100.1"];
    for stranger in strangers {
        caller.requests_code(TEST_PHONE).from_address(stranger).await.expect(200);
    }
    for guess in 0..80 {
        let request = caller.verifies_code(TEST_PHONE, &format!("{guess:06}"));
        let response = request.from_address(strangers[guess % 2]).await;
        assert!([401, 429].contains(&response.status.as_u16()), "{response:?}");
    }
    caller.verifies_code(TEST_PHONE, CODE).from_address(HOME).await.expect(200);
    // Guesses are limited: these networks have no attempts left.
    for stranger in strangers {
        let response = caller.verifies_code(TEST_PHONE, CODE).from_address(stranger).await;
        assert_ne!(response.status, 200, "{response:?}");
    }
}

/// The responses to requests for codes and to wrong codes, from several networks.
async fn responses(phone: &str) -> Vec<(u16, String, Option<String>)> {
    let app = production().await;
    let mut responses = Vec::new();
    for step in 0..200 {
        // Two networks request codes, and three enter wrong ones.
        let network = format!("198.51.100.{}", step % 3);
        let response = if step % 25 == 0 {
            app.anonymous().requests_code(phone).from_address(&network).await
        } else {
            app.anonymous().verifies_code(phone, "000000").from_address(&network).await
        };
        let retry_after = response.header("retry-after").map(str::to_owned);
        responses.push((response.status.as_u16(), response.message().replace(phone, "it"), retry_after));
        app.clock.advance(TimeDelta::seconds(20));
    }
    responses
}

#[tokio::test]
async fn a_test_phone_cannot_be_told_from_others() {
    assert_eq!(responses(TEST_PHONE).await, responses(OTHER_PHONE).await);
    let app = production().await;
    for phone in ["+15555550100", "+15555550101"] {
        app.anonymous().requests_code(phone).await.expect_invalid(&["phone"]);
    }
    // The messages count for their network, although none is sent.
    let mut sent = Vec::new();
    for phone in [TEST_PHONE, OTHER_PHONE] {
        let app = production().await;
        let request = |phone: &str| app.anonymous().requests_code(phone).from_address(HOME);
        let mut statuses = Vec::new();
        for _ in 0..7 {
            statuses.push(request(phone).await.status);
        }
        statuses.push(request("+447700900999").await.status);
        sent.push(statuses);
    }
    assert_eq!(sent[0], sent[1]);
}
