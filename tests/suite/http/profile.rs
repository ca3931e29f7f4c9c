use serde_json::json;

use crate::target::{Target, name, phone};

#[tokio::test]
async fn details_are_saved_and_shown() {
    let fan = Target::fan().await;
    let username = name();
    let info = json!({
        "name": "Ada Lovelace", "email": "ada@example.org", "date_of_birth": "1990-12-10", "username": username,
    });
    let saved = fan.post("/api/auth/update-user-info", &info).await.expect(200);
    assert_eq!(
        saved["data"],
        json!({ "id": fan.login["user"]["id"], "name": "Ada Lovelace", "email": "ada@example.org" })
    );
    let me = fan.get("/api/auth/me").await.expect(200);
    for (field, value) in info.as_object().unwrap() {
        assert_eq!(&me["data"][field], value);
    }
}

#[tokio::test]
async fn a_phone_is_verified_by_a_code_sent_to_it() {
    let fan = Target::fan().await;
    let new = phone();
    fan.post("/api/auth/resend-code", &json!({ "phone": new }))
        .await
        .expect_error(422, "no_pending_verification");
    let started = fan.post("/api/auth/verify-phone/initiate", &json!({ "phone": new })).await.expect(200);
    assert_eq!(started["data"], json!({ "expires_in": 300, "phone": new }));
    let first = fan.target().code(&new).await;
    fan.post("/api/auth/resend-code", &json!({ "phone": new })).await.expect(200);
    let second = fan.target().code(&new).await;

    let verify = async |phone: &str, code: &str| {
        fan.post("/api/auth/verify-phone", &json!({ "phone": phone, "code": code })).await
    };
    if first != second {
        verify(&new, &first).await.expect_error(401, "invalid_code");
    }
    verify(&fan.phone, &second).await.expect_error(422, "phone_mismatch");
    let done = verify(&new, &second).await.expect(200);
    assert_eq!(done["data"], json!({ "verified": true, "phone": new }));
    assert_eq!(fan.get("/api/auth/me").await.expect(200)["data"]["phone"], new.as_str());
}

#[tokio::test]
async fn a_phone_of_another_user_is_not_to_be_had() {
    let (fan, other) = (Target::fan().await, Target::fan().await);
    fan.post("/api/auth/verify-phone/initiate", &json!({ "phone": other.phone }))
        .await
        .expect_error(422, "phone_taken");
}
