use crate::target::{HttpApi, unique_phone};

#[tokio::test]
async fn a_sent_code_is_in_the_sms_log() {
    let anonymous = HttpApi::under_test().anonymous();
    let phone = unique_phone();
    anonymous.requests_code(&phone).await.expect(200);
    let log = anonymous.lists_sms_logs().status("sent").phone(&phone).await.expect_data(200);
    let entry = &log[0];
    assert_eq!(entry["phone"], phone.as_str());
    assert_eq!(entry["status"], "sent");
    assert_eq!(entry["code"].as_str().unwrap().len(), 6);
    assert!(entry["id"].is_u64() && entry["attempts"].is_u64() && entry["provider"].is_string());
    assert!(entry["created_at"].as_str().unwrap() < entry["expires_at"].as_str().unwrap());
    assert!(entry.get("error").is_none());
}
