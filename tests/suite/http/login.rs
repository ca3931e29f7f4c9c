use reqwest::Method;
use serde_json::json;
use touchline_testing::Api as _;

use crate::target::{HttpApi, unique_name, unique_phone};

#[tokio::test]
async fn a_user_logs_in_with_a_phone_and_logs_out() {
    let app = HttpApi::under_test();
    let phone = unique_phone();
    let sent = app.anonymous().requests_code(&phone).await.expect(200);
    assert_eq!(sent["data"]["expires_in"], 300);
    assert!(sent["message"].is_string());

    let code = app.last_code(&phone).await;
    let data = app.anonymous().verifies_code(&phone, &code).await.expect_data(200);
    assert!(data["user"]["id"].is_u64() && data["user"]["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(data["user"]["phone"], phone.as_str());
    let chat_id = data["matrix_credentials"]["user_id"].as_str().unwrap();
    assert!(chat_id.starts_with(&format!("@{}:", data["user"]["username"].as_str().unwrap())));
    assert!(data["matrix_credentials"]["access_token"].is_string());
    assert!(data["matrix_credentials"]["device_id"].is_string());
    let homeserver = data["matrix_credentials"].get("homeserver_url");
    assert_eq!(homeserver, Some(&json!(HttpApi::homeserver_url())));

    let alice = app.with_token(data["token"].as_str().unwrap());
    assert_eq!(alice.views_profile().await.expect_data(200)["phone"], phone.as_str());
    alice.logs_out().await.expect(200);
    alice.views_profile().await.expect_error(401, "token_invalid");
}

#[tokio::test]
async fn wrong_and_used_codes_are_401() {
    let anonymous = HttpApi::under_test().anonymous();
    let phone = unique_phone();
    let code = anonymous.receives_code(&phone).await;
    let wrong = if code == "000000" { "000001" } else { "000000" };
    anonymous.verifies_code(&phone, wrong).await.expect_error(401, "invalid_code");
    anonymous.logs_in(&phone, wrong).await.expect_error(401, "invalid_code");
    anonymous.logs_in(&phone, &code).await.expect(200);
    anonymous.logs_in(&phone, &code).await.expect_error(401, "invalid_code");
}

#[tokio::test]
async fn a_taken_username_is_unavailable_and_others_are_suggested() {
    let app = HttpApi::under_test();
    let wanted = unique_name();
    let free = app.anonymous().checks_username(&wanted).await.expect(200);
    assert_eq!(free["available"], true);
    assert!(free.get("suggestions").is_none());

    assert_eq!(app.sign_in(&unique_phone()).username(&wanted).await.username, wanted);

    let taken = app.anonymous().checks_username(&wanted).await.expect(200);
    assert_eq!(taken["available"], false);
    assert!(taken["message"].is_string() && !taken["suggestions"].as_array().unwrap().is_empty());

    let generated = app.anonymous().generates_usernames(&wanted).include_numbers(true).await.expect(200);
    for suggestion in generated["suggestions"].as_array().unwrap() {
        let suggestion = suggestion.as_str().unwrap();
        assert!(suggestion.starts_with(&wanted) && suggestion.ends_with(|c: char| c.is_ascii_digit()));
    }
}

#[tokio::test]
async fn the_sixth_code_within_ten_minutes_is_429() {
    let anonymous = HttpApi::under_test().anonymous();
    let phone = unique_phone();
    for _ in 0..5 {
        anonymous.requests_code(&phone).await.expect(200);
    }
    let limited = anonymous.requests_code(&phone).await;
    limited.expect_error(429, "rate_limited");
    let wait: u32 = limited.header("retry-after").unwrap().parse().unwrap();
    assert!((500..=600).contains(&wait), "{wait}");
}

#[tokio::test]
async fn the_service_is_healthy() {
    let health = HttpApi::under_test().anonymous().get("/api/health").await.expect_data(200);
    assert_eq!(health["status"], "ok");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_404() {
    let anonymous = HttpApi::under_test().anonymous();
    for (method, path) in
        [(Method::GET, "/api/nothing"), (Method::GET, "/api/code/request"), (Method::POST, "/")]
    {
        let body = anonymous.request(method, path).await.expect(404);
        assert!(body["message"].is_string());
    }
}
