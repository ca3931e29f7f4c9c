use reqwest::Method;
use serde_json::json;

use crate::target::{Target, name, phone};

#[tokio::test]
async fn from_phone_number_to_logged_in_user_and_out_again() {
    let target = Target::get();
    let phone = phone();
    let sent = target.post("/api/code/request", &json!({ "phone": phone })).await.expect(200);
    assert_eq!(sent["data"]["expires_in"], 300);
    assert!(sent["message"].is_string());

    let code = target.code(&phone).await;
    let login = target.post("/api/code/verify", &json!({ "phone": phone, "code": code })).await.expect(200);
    let data = &login["data"];
    assert!(data["user"]["id"].is_u64() && data["user"]["created_at"].as_str().unwrap().ends_with('Z'));
    assert_eq!(data["user"]["phone"], phone.as_str());
    let chat_name = data["matrix_credentials"]["user_id"].as_str().unwrap();
    assert!(chat_name.starts_with(&format!("@{}:", data["user"]["username"].as_str().unwrap())));
    assert!(data["matrix_credentials"]["access_token"].is_string());
    assert!(data["matrix_credentials"]["device_id"].is_string());

    let token = data["token"].as_str().unwrap();
    let me = target.send(Method::GET, "/api/auth/me", Some(token), None).await.expect(200);
    assert_eq!(me["data"]["phone"], phone.as_str());
    target.post_as(token, "/api/auth/logout", &json!({})).await.expect(200);
    target.send(Method::GET, "/api/auth/me", Some(token), None).await.expect_error(401, "token_invalid");
}

#[tokio::test]
async fn a_wrong_code_and_a_used_one_are_refused() {
    let target = Target::get();
    let phone = phone();
    let code = target.request_code(&phone).await;
    let wrong = if code == "000000" { "000001" } else { "000000" };
    for path in ["/api/code/verify", "/api/auth/login"] {
        target.post(path, &json!({ "phone": phone, "code": wrong })).await.expect_error(401, "invalid_code");
    }
    target.post("/api/auth/login", &json!({ "phone": phone, "code": code })).await.expect(200);
    target
        .post("/api/auth/login", &json!({ "phone": phone, "code": code }))
        .await
        .expect_error(401, "invalid_code");
}

#[tokio::test]
async fn names_are_checked_suggested_and_taken() {
    let target = Target::get();
    let wanted = name();
    let free = target.post("/api/auth/username/check", &json!({ "username": wanted })).await.expect(200);
    assert_eq!(free["available"], true);
    assert!(free.get("suggestions").is_none());

    let phone = phone();
    let code = target.request_code(&phone).await;
    let body = json!({ "phone": phone, "code": code, "username": wanted });
    let login = target.post("/api/code/verify", &body).await.expect(200);
    assert_eq!(login["data"]["user"]["username"], wanted.as_str());

    let taken = target.post("/api/auth/username/check", &json!({ "username": wanted })).await.expect(200);
    assert_eq!(taken["available"], false);
    assert!(taken["message"].is_string() && !taken["suggestions"].as_array().unwrap().is_empty());

    let body = json!({ "base": wanted, "include_numbers": true });
    let generated = target.post("/api/auth/username/generate", &body).await.expect(200);
    for suggestion in generated["suggestions"].as_array().unwrap() {
        let suggestion = suggestion.as_str().unwrap();
        assert!(suggestion.starts_with(&wanted) && suggestion.ends_with(|c: char| c.is_ascii_digit()));
    }
}

#[tokio::test]
async fn the_sixth_code_in_ten_minutes_is_refused() {
    let target = Target::get();
    let phone = phone();
    for _ in 0..5 {
        target.post("/api/code/request", &json!({ "phone": phone })).await.expect(200);
    }
    let refused = target.post("/api/code/request", &json!({ "phone": phone })).await;
    refused.expect_error(429, "rate_limited");
    let wait: u32 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((500..=600).contains(&wait), "{wait}");
}

#[tokio::test]
async fn the_service_is_healthy_and_knows_what_it_does_not_serve() {
    let target = Target::get();
    let health = target.send(Method::GET, "/api/health", None, None).await.expect(200);
    assert_eq!(health["data"]["status"], "ok");
    for (method, path) in
        [(Method::GET, "/api/nothing"), (Method::GET, "/api/code/request"), (Method::POST, "/")]
    {
        let answer = target.send(method, path, None, None).await;
        assert_eq!(answer.status, 404);
        assert!(answer.body["message"].is_string());
    }
}
