use futures_util::try_join;
use touchline::api::Message;
use touchline::api::profile::{InitiateVerification, VerificationStarted};
use touchline::domain::code::VerificationError;
use touchline::domain::{Phone, Sending};
use touchline::flows::codes;
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

use crate::NO_RECORD;

/// One verification is pending at a time: a new phone takes the place of the one before, once its code
/// is on the way.
pub async fn handle(
    app: App,
    call: Call<InitiateVerification>,
) -> Result<Reply<Message<VerificationStarted>>, Error> {
    let (phone, id) = (call.input.phone, call.caller.user);
    let (owner, user) = try_join!(app.store.phone_owner(&phone), app.store.user(id, Reads::Consistent))?;
    if owner.is_some_and(|owner| owner.user_id != id) {
        return Err(VerificationError::PhoneTaken.into());
    }
    let user = user.ok_or(NO_RECORD)?;
    // Noted before the sending: whatever dies in between, the next verification finds this one to cancel.
    if !user.pending_phones.contains(&phone) {
        app.store.add_pending_phone(id, &phone).await?;
    }
    let expires_in = codes::send(&app, &phone, Sending::Initiate(id), call.address.as_ref()).await?;
    let replaced: Vec<&Phone> = user.pending_phones.iter().filter(|pending| **pending != phone).collect();
    app.store.cancel_verifications(id, &replaced).await?;
    let message = "The code is on its way.".into();
    Ok(Message { message, data: VerificationStarted { expires_in, phone } }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use touchline_testing::TestApp;

    const PATH: &str = "/api/auth/verify-phone/initiate";
    const OLD: &str = "+447700900123";
    const NEW: &str = "+447700900555";

    async fn app() -> TestApp {
        TestApp::serving(&[login::router, crate::router]).start().await
    }

    #[tokio::test]
    async fn a_code_goes_to_the_new_phone() {
        let app = app().await;
        let token = app.token(OLD).await;
        let body = app.post_as(&token, PATH, json!({ "phone": NEW })).await.expect(200);
        let data = json!({ "expires_in": 300, "phone": NEW });
        assert_eq!(body, json!({ "message": "The code is on its way.", "data": data }));
        assert_eq!(app.sns.messages().last().unwrap()["PhoneNumber"], NEW);
    }

    #[tokio::test]
    async fn a_phone_of_another_user_is_refused() {
        let app = app().await;
        let token = app.token(OLD).await;
        let _ = app.token(NEW).await;
        let sent = app.sns.messages().len();
        let answer = app.post_as(&token, PATH, json!({ "phone": NEW })).await;
        answer.expect_error(422, "phone_taken");
        assert!(answer.body["errors"]["phone"][0].is_string());
        assert_eq!(app.sns.messages().len(), sent);
        // One's own can be verified again.
        let _ = app.post_as(&token, PATH, json!({ "phone": OLD })).await.expect(200);
    }

    #[tokio::test]
    async fn login_initiate_and_resend_share_the_limit_of_a_phone() {
        let app = app().await;
        let token = app.token(OLD).await;
        let _ = app.post_as(&token, PATH, json!({ "phone": NEW })).await.expect(200);
        for _ in 0..2 {
            let _ = app.post_as(&token, "/api/auth/resend-code", json!({ "phone": NEW })).await.expect(200);
            let _ = app.post("/api/code/request", json!({ "phone": NEW })).await.expect(200);
        }
        for (path, token) in
            [(PATH, &token), ("/api/auth/resend-code", &token), ("/api/code/request", &token)]
        {
            app.post_as(token, path, json!({ "phone": NEW })).await.expect_error(429, "rate_limited");
        }
    }

    #[tokio::test]
    async fn a_failed_message_leaves_no_verification() {
        let app = app().await;
        let token = app.token(OLD).await;
        app.sns.refuse();
        app.post_as(&token, PATH, json!({ "phone": NEW })).await.expect_error(503, "sms_unavailable");
        app.sns.accept();
        app.post_as(&token, "/api/auth/resend-code", json!({ "phone": NEW }))
            .await
            .expect_error(422, "no_pending_verification");
    }
}
