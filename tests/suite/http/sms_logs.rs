use reqwest::Method;
use serde_json::json;

use crate::target::{Target, phone};

#[tokio::test]
async fn an_attempt_is_logged_with_its_code() {
    let target = Target::get();
    let phone = phone();
    target.post("/api/code/request", &json!({ "phone": phone })).await.expect(200);
    let path = format!("/api/logs/sms?status=sent&phone={}", phone.replace('+', "%2B"));
    let log = target.send(Method::GET, &path, None, None).await.expect(200);
    let entry = &log["data"][0];
    assert_eq!(entry["phone"], phone.as_str());
    assert_eq!(entry["status"], "sent");
    assert_eq!(entry["code"].as_str().unwrap().len(), 6);
    assert!(entry["id"].is_u64() && entry["attempts"].is_u64() && entry["provider"].is_string());
    assert!(entry["created_at"].as_str().unwrap() < entry["expires_at"].as_str().unwrap());
    assert!(entry.get("error").is_none());
}
