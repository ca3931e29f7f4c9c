use std::sync::mpsc;
use std::time::Duration;

use chrono::TimeDelta;
use serde_json::json;
use touchline::App;
use touchline::domain::{CodeRequest, Phone};
use touchline::flows::codes;
use touchline::storage::Store;
use touchline_testing::{Fault, Persona, TestApp, concurrently};

const PHONE: &str = "+447700900123";
const OTHER_PHONE: &str = "+447700900999";
const ADDRESS: &str = "203.0.113.9";

async fn anonymous() -> (TestApp, Persona) {
    let app = TestApp::serving(&[crate::router]).start().await;
    let caller = app.anonymous();
    (app, caller)
}

#[tokio::test]
async fn a_code_is_sent_and_the_response_says_how_long_the_code_is_valid() {
    let (app, caller) = anonymous().await;
    let body = caller.requests_code("+44 7700 900-123").await.expect(200);
    assert_eq!(body, json!({ "message": "We sent a code to +447700900123.", "data": { "expires_in": 300 } }));
    let messages = app.sns.messages();
    let [message] = messages.as_slice() else { panic!("not one message: {messages:?}") };
    assert_eq!(message["PhoneNumber"], PHONE);
    let mut attributes = message.iter().filter(|(name, _)| name.ends_with(".Name")).map(|(_, value)| value);
    assert!(attributes.any(|name| name == "AWS.SNS.SMS.MaxPrice"), "{message:?}");
    assert!(message.values().any(|value| value == "Transactional"));
}

#[tokio::test]
async fn malformed_phones_are_rejected() {
    let (app, caller) = anonymous().await;
    for (phone, sentence) in [
        (json!("12345"), "Include the country code, for example +44 7700 900123."),
        (json!(447_700), "The field phone must be a string."),
        (json!(null), "The field phone is required."),
    ] {
        let response = caller.requests_code("").field("phone", phone).await;
        response.expect_invalid(&["phone"]);
        assert_eq!(response.message(), sentence);
        assert_eq!(response.body["errors"]["phone"], json!([sentence]));
    }
    caller.requests_code("").without("phone").await.expect_invalid(&["phone"]);
    assert!(app.sns.messages().is_empty());
}

#[tokio::test]
async fn a_phone_gets_at_most_five_codes_in_ten_minutes_and_ten_in_a_day() {
    let (app, caller) = anonymous().await;
    for _ in 0..5 {
        caller.requests_code(PHONE).await.expect(200);
        app.clock.advance(TimeDelta::minutes(1));
    }
    let response = caller.requests_code(PHONE).await;
    response.expect_error(429, "rate_limited");
    assert_eq!(response.header("retry-after"), Some("300"));
    // The limit is per phone, so another phone still gets a code.
    caller.requests_code(OTHER_PHONE).await.expect(200);

    app.clock.advance(TimeDelta::minutes(5) - TimeDelta::milliseconds(1));
    caller.requests_code(PHONE).await.expect_error(429, "rate_limited");
    app.clock.advance(TimeDelta::milliseconds(1));
    for _ in 0..5 {
        caller.requests_code(PHONE).await.expect(200);
        app.clock.advance(TimeDelta::minutes(2));
    }
    app.clock.advance(TimeDelta::minutes(30));
    let response = caller.requests_code(PHONE).await;
    response.expect_error(429, "rate_limited");
    let until_tomorrow = (24 * 3_600 - 50 * 60).to_string();
    assert_eq!(response.header("retry-after"), Some(until_tomorrow.as_str()));
    assert_eq!(app.sns.messages().len(), 11);
}

#[tokio::test]
async fn code_requests_are_limited_per_ip_address_except_from_loopback() {
    let app = TestApp::serving(&[crate::router]).variable("CODES_PER_ADDRESS_PER_HOUR", "3").start().await;
    let request_from = |address: &str, n: u32| {
        app.anonymous().requests_code(&format!("+4477009{n:05}")).from_address(address)
    };
    for n in 0..3 {
        request_from(ADDRESS, n).await.expect(200);
    }
    let response = request_from(ADDRESS, 3).await;
    response.expect_error(429, "rate_limited");
    assert_eq!(response.header("retry-after"), Some("3600"));
    request_from("203.0.113.10", 3).await.expect(200);
    for n in 10..20 {
        request_from("127.0.0.1", n).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_twenty_concurrent_requests_five_send_a_code() {
    let (app, caller) = anonymous().await;
    let responses = concurrently(20, |_| caller.requests_code(PHONE)).await;
    let with = |status: u16| responses.iter().filter(|response| response.status == status).count();
    assert_eq!((with(200), with(429)), (5, 15));
    assert_eq!(app.sns.messages().len(), 5);
}

#[tokio::test]
async fn a_message_that_the_provider_rejects_is_503_and_does_not_count_towards_the_limit() {
    let (app, caller) = anonymous().await;
    app.sns.reject();
    for _ in 0..7 {
        let response = caller.requests_code(PHONE).await;
        response.expect_error(503, "sms_unavailable");
        assert_eq!(response.header("retry-after"), Some("1"));
    }
    app.sns.accept();
    for _ in 0..5 {
        caller.requests_code(PHONE).await.expect(200);
    }
    caller.requests_code(PHONE).await.expect_error(429, "rate_limited");
}

#[tokio::test]
async fn a_throttled_message_is_retried() {
    let (app, caller) = anonymous().await;
    app.sns.throttle(2);
    caller.requests_code(PHONE).await.expect(200);
    assert_eq!(app.sns.messages().len(), 1);
}

#[tokio::test]
async fn countries_outside_the_allow_list_are_rejected() {
    let app = TestApp::serving(&[crate::router]).variable("PHONE_PREFIXES", "+1, +49").start().await;
    let response = app.anonymous().requests_code(PHONE).await;
    response.expect_invalid(&["phone"]);
    assert_eq!(response.message(), "Codes cannot be sent to this country yet.");
    app.anonymous().requests_code("+4915112345678").await.expect(200);
}

/// A write can reach the store late, after the write of a newer request.
#[tokio::test]
async fn a_late_request_does_not_replace_a_newer_code() {
    let (app, caller) = anonymous().await;
    caller.requests_code(PHONE).await.expect(200);
    app.clock.advance(-TimeDelta::seconds(5));
    caller.requests_code(PHONE).await.expect_error(429, "rate_limited");
    app.clock.advance(TimeDelta::seconds(5));
    caller.verifies_code(PHONE, &app.sns.last_code(PHONE)).await.expect(200);
}

/// In each call to the store, the response to the first attempt is lost, so the SDK retries the call. Each
/// request still counts once and sends one code.
#[tokio::test]
async fn a_request_whose_store_responses_are_lost_counts_once() {
    let (app, caller) = anonymous().await;
    for _ in 0..5 {
        app.faults.first_attempts(Fault::LoseResponse);
        caller.requests_code(PHONE).await.expect(200);
    }
    app.faults.clear();
    assert_eq!(app.sns.messages().len(), 5);
    caller.requests_code(PHONE).await.expect_error(429, "rate_limited");
    caller.verifies_code(PHONE, &app.sns.last_code(PHONE)).await.expect(200);
}

#[tokio::test]
async fn a_lasting_store_fault_is_503_and_sends_nothing() {
    let (app, caller) = anonymous().await;
    for fault in [Fault::Throttle, Fault::Conflict, Fault::LoseRequest] {
        app.faults.set(move |_| fault);
        let response = caller.requests_code(PHONE).await;
        response.expect_error(503, "busy");
        assert_eq!(response.header("retry-after"), Some("1"));
    }
    assert!(app.sns.messages().is_empty());
}

#[tokio::test]
async fn a_limit_of_one_allows_one_code() {
    let app = TestApp::serving(&[crate::router])
        .variable("CODES_PER_10_MINUTES", "1")
        .variable("CODES_PER_DAY", "1")
        .variable("CODES_PER_ADDRESS_PER_HOUR", "1")
        .start()
        .await;
    let request = |phone: &str| app.anonymous().requests_code(phone);
    app.sns.reject();
    request(PHONE).from_address(ADDRESS).await.expect_error(503, "sms_unavailable");
    app.sns.accept();
    request(PHONE).from_address(ADDRESS).await.expect(200);
    request(OTHER_PHONE).from_address(ADDRESS).await.expect_error(429, "rate_limited");
    request(PHONE).await.expect_error(429, "rate_limited");
}

#[tokio::test]
async fn requests_for_which_no_code_is_sent_do_not_count_towards_the_limit_of_the_ip_address() {
    let app = TestApp::serving(&[crate::router]).variable("CODES_PER_ADDRESS_PER_HOUR", "6").start().await;
    let request = |phone: &str| app.anonymous().requests_code(phone).from_address(ADDRESS);
    app.sns.reject();
    for _ in 0..8 {
        request(PHONE).await.expect_error(503, "sms_unavailable");
    }
    app.sns.accept();
    for _ in 0..5 {
        request(PHONE).await.expect(200);
    }
    // These requests exceed the limit of the phone.
    for _ in 0..8 {
        request(PHONE).await.expect_error(429, "rate_limited");
    }
    request(OTHER_PHONE).await.expect(200);
    request("+447700900998").await.expect_error(429, "rate_limited");
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_requests_for_which_no_code_is_sent_do_not_count_towards_the_limit() {
    let (app, caller) = anonymous().await;
    app.sns.reject();
    let responses = concurrently(20, |_| caller.requests_code(PHONE)).await;
    assert!(responses.iter().all(|response| response.status == 503 || response.status == 429));
    app.sns.accept();
    for _ in 0..5 {
        caller.requests_code(PHONE).await.expect(200);
    }
    caller.requests_code(PHONE).await.expect_error(429, "rate_limited");
}

/// A request stores its code, but the store's response is lost. Before the SDK retries the write, a newer
/// request stores another code. The retry must not count again and must not restore the older code.
#[tokio::test(flavor = "multi_thread")]
async fn a_retried_write_does_not_overwrite_a_newer_code() {
    let (app, caller) = anonymous().await;
    let (release_retry, released) = mpsc::channel::<()>();
    let mut updates = 0;
    app.faults.set(move |attempt| match (attempt.operation, attempt.number) {
        ("UpdateItem", 1) => {
            updates += 1;
            // Two writes count the message before the third one stores the code.
            if updates == 3 { Fault::LoseResponse } else { Fault::None }
        }
        ("UpdateItem", 2) => {
            // The retry waits until the newer request is done, without blocking the runtime's other tasks.
            let _ = tokio::task::block_in_place(|| released.recv_timeout(Duration::from_secs(5)));
            Fault::None
        }
        _ => Fault::None,
    });
    let older = tokio::spawn(caller.requests_code(PHONE).into_future());
    while !app.dump().await.contains("\"m0\"") {
        tokio::task::yield_now().await;
    }
    // The newer request uses a store without faults, because the fault closure blocks until this request is
    // done.
    let mut without_faults = App::clone(&app);
    without_faults.store = Store::new(app.client(), app.config.tables.clone());
    codes::send(&without_faults, &Phone::parse(PHONE).unwrap(), CodeRequest::Login, None).await.unwrap();
    let newer_code = app.sns.last_code(PHONE);
    release_retry.send(()).unwrap();
    older.await.unwrap().expect(200);
    app.faults.clear();
    caller.verifies_code(PHONE, &newer_code).await.expect(200);
    for _ in 0..3 {
        caller.requests_code(PHONE).await.expect(200);
    }
    caller.requests_code(PHONE).await.expect_error(429, "rate_limited");
}

/// Otherwise a stranger could keep the owner of a phone from logging in, with ten requests a day.
#[tokio::test]
async fn a_stranger_cannot_use_up_the_codes_of_a_user_who_logs_in_from_a_known_network() {
    let (app, caller) = anonymous().await;
    caller.requests_code(PHONE).from_address(ADDRESS).await.expect(200);
    caller.verifies_code(PHONE, &app.sns.last_code(PHONE)).from_address(ADDRESS).await.expect(200);
    app.clock.advance(TimeDelta::days(30));
    let stranger = |n: u32| caller.requests_code(PHONE).from_address(&format!("198.51.100.{n}"));
    for n in 0..10 {
        stranger(n).await.expect(200);
        app.clock.advance(TimeDelta::minutes(3));
    }
    for n in 10..20 {
        stranger(n).await.expect_error(429, "rate_limited");
    }
    for _ in 0..3 {
        caller.requests_code(PHONE).from_address(ADDRESS).await.expect(200);
        stranger(20).await.expect_error(429, "rate_limited");
    }
    caller.verifies_code(PHONE, &app.sns.last_code(PHONE)).from_address(ADDRESS).await.expect(200);
    caller.requests_code(PHONE).from_address(ADDRESS).await.expect_error(429, "rate_limited");
}

#[tokio::test]
async fn only_the_last_eight_networks_of_a_user_are_known() {
    let app = TestApp::serving(&[crate::router]).variable("CODES_PER_10_MINUTES", "1").start().await;
    let caller = app.anonymous();
    let network = |n: u32| format!("203.0.113.{n}");
    for n in 0..9 {
        caller.requests_code(PHONE).from_address(&network(n)).await.expect(200);
        caller.verifies_code(PHONE, &app.sns.last_code(PHONE)).from_address(&network(n)).await.expect(200);
        app.clock.advance(TimeDelta::hours(3));
    }
    app.clock.advance(TimeDelta::days(1));
    caller.requests_code(PHONE).from_address(&network(50)).await.expect(200);
    caller.requests_code(PHONE).from_address(&network(0)).await.expect_error(429, "rate_limited");
    caller.requests_code(PHONE).from_address(&network(1)).await.expect(200);
}

#[tokio::test]
async fn all_networks_of_an_ipv6_48_share_a_higher_limit() {
    let app = TestApp::serving(&[crate::router]).variable("CODES_PER_IPV6_48_PER_HOUR", "3").start().await;
    let request_from = |address: &str, n: u32| {
        app.anonymous().requests_code(&format!("+4477009{n:05}")).from_address(address)
    };
    for n in 0..3 {
        request_from(&format!("2001:db8:1:{n}::1"), n).await.expect(200);
    }
    let response = request_from("2001:db8:1:9::1", 3).await;
    response.expect_error(429, "rate_limited");
    assert_eq!(response.header("retry-after"), Some("3600"), "from noon until one o'clock");
    request_from("2001:db8:2:9::1", 3).await.expect(200);
    app.sns.reject();
    app.clock.advance(TimeDelta::hours(1));
    // Requests without a message do not count.
    for n in 10..15 {
        request_from("2001:db8:1:9::1", n).await.expect_error(503, "sms_unavailable");
    }
    app.sns.accept();
    for n in 20..23 {
        request_from("2001:db8:1:9::1", n).await.expect(200);
    }
}
