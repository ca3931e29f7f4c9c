use futures_util::try_join;
use touchline::api::Message;
use touchline::api::profile::{InitiateVerification, VerificationStarted};
use touchline::domain::code::VerificationError;
use touchline::domain::{CodeRequest, Phone};
use touchline::flows::codes;
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

use crate::no_profile::NO_PROFILE;

/// Starts the verification of a phone. A user has at most one pending verification: a new one replaces the
/// previous one as soon as the new code is sent.
pub async fn handle(
    app: App,
    call: Call<InitiateVerification>,
) -> Result<Reply<Message<VerificationStarted>>, Error> {
    let (phone, id, now) = (call.input.phone, call.caller.user, app.clock.now());
    let (owner, user) = try_join!(app.store.phone_owner(&phone), app.store.user(id, Reads::Consistent))?;
    if owner.is_some_and(|owner| owner.user_id != id) {
        return Err(VerificationError::PhoneTaken.into());
    }
    let user = user.ok_or(NO_PROFILE)?;
    // The phone is stored before the code is sent. If the process crashes after sending the code, the next
    // verification still finds this phone and cancels its verification.
    if !user.pending_phones.contains(&phone) {
        app.store.add_pending_phone(id, &phone).await?;
    }
    let expires_in =
        codes::send(&app, &phone, CodeRequest::StartVerification(id), call.address.as_ref()).await?;
    let replaced: Vec<&Phone> = user.pending_phones.iter().filter(|pending| **pending != phone).collect();
    app.store.cancel_verifications(id, &replaced, now).await?;
    let message = format!("We sent a code to {}.", phone.as_str());
    Ok(Message { message, data: VerificationStarted { expires_in, phone } }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline::domain::{Phone, UserId};
    use touchline_testing::{TestApp, User};

    const NEW_PHONE: &str = "+447700900555";

    async fn alice() -> (TestApp, User) {
        let app = TestApp::serving(&[crate::router, login::router]).start().await;
        let alice = app.user("alice").await;
        (app, alice)
    }

    #[tokio::test]
    async fn a_code_is_sent_to_the_new_phone() {
        let (app, alice) = alice().await;
        let body = alice.initiates_verification(NEW_PHONE).await.expect(200);
        let data = json!({ "expires_in": 300, "phone": NEW_PHONE });
        assert_eq!(body, json!({ "message": "We sent a code to +447700900555.", "data": data }));
        let messages = app.sns.messages();
        assert_eq!(messages.len(), 1);
        assert_eq!(messages[0]["PhoneNumber"], NEW_PHONE);
    }

    #[tokio::test]
    async fn malformed_phones_are_rejected() {
        let (app, alice) = alice().await;
        let response = alice.initiates_verification("07700 900555").await;
        response.expect_invalid(&["phone"]);
        assert_eq!(response.message(), "Include the country code, for example +44 7700 900123.");
        assert!(app.sns.messages().is_empty());
    }

    #[tokio::test]
    async fn a_phone_of_another_user_is_rejected() {
        let (app, alice) = alice().await;
        let bob = app.user("bob").await;
        let response = alice.initiates_verification(&bob.phone).await;
        response.expect_error(422, "phone_taken");
        assert_eq!(response.message(), "This phone number belongs to another user.");
        assert_eq!(response.body["errors"], json!({ "phone": [response.message()] }));
        assert!(app.sns.messages().is_empty());
        // The caller's own phone can be verified again.
        alice.initiates_verification(&alice.phone).await.expect(200);
    }

    #[tokio::test]
    async fn all_codes_for_a_phone_share_one_rate_limit() {
        let (_app, alice) = alice().await;
        alice.initiates_verification(NEW_PHONE).await.expect(200);
        for _ in 0..2 {
            alice.requests_new_code(NEW_PHONE).await.expect(200);
            alice.requests_code(NEW_PHONE).await.expect(200);
        }
        alice.initiates_verification(NEW_PHONE).await.expect_error(429, "rate_limited");
        alice.requests_new_code(NEW_PHONE).await.expect_error(429, "rate_limited");
        alice.requests_code(NEW_PHONE).await.expect_error(429, "rate_limited");
    }

    /// A write can reach the store late. Alice verifies another phone and then this phone again.
    #[tokio::test]
    async fn a_late_cancellation_does_not_cancel_a_newer_verification() {
        let (app, alice) = alice().await;
        let (phone, earlier) = (Phone::parse(NEW_PHONE).unwrap(), app.clock.now());
        app.clock.advance(TimeDelta::seconds(5));
        alice.initiates_verification(NEW_PHONE).await.expect(200);
        app.store.cancel_verifications(UserId(alice.id), &[&phone], earlier).await.unwrap();
        alice.requests_new_code(NEW_PHONE).await.expect(200);
        // The next verification still cancels it.
        alice.initiates_verification("+447700900556").await.expect(200);
        alice.requests_new_code(NEW_PHONE).await.expect_error(422, "no_pending_verification");
    }

    #[tokio::test]
    async fn no_verification_starts_if_the_sms_cannot_be_sent() {
        let (app, alice) = alice().await;
        app.sns.reject();
        alice.initiates_verification(NEW_PHONE).await.expect_error(503, "sms_unavailable");
        app.sns.accept();
        alice.requests_new_code(NEW_PHONE).await.expect_error(422, "no_pending_verification");
    }
}
