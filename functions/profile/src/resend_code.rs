use touchline::api::Message;
use touchline::api::login::CodeSent;
use touchline::api::profile::ResendCode;
use touchline::domain::CodeRequest;
use touchline::flows::codes;
use touchline::{App, Call, Error, Reply, lambda};

pub async fn handle(app: App, call: Call<ResendCode>) -> Result<Reply<Message<CodeSent>>, Error> {
    let phone = call.input.phone;
    let sending = CodeRequest::ResendVerification(call.caller.user);
    let expires_in = codes::send(&app, &phone, sending, call.address.as_ref())
        .await
        .inspect_err(|error| lambda::count_refusal(&app, error))?;
    let message = format!("We sent a new code to {}.", phone.as_str());
    Ok(Message { message, data: CodeSent { expires_in } }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline_testing::{Fault, TestApp, User};

    const PHONE: &str = "+447700900555";
    const LATER_PHONE: &str = "+447700900777";

    async fn alice() -> (TestApp, User) {
        let app = TestApp::serving(&[crate::router]).start().await;
        let alice = app.user("alice").await;
        (app, alice)
    }

    #[tokio::test]
    async fn a_new_code_is_sent_only_for_a_pending_verification_of_the_caller() {
        let (app, alice) = alice().await;
        let bob = app.user("bob").await;
        alice.requests_new_code(PHONE).await.expect_error(422, "no_pending_verification");
        alice.initiates_verification(PHONE).await.expect(200);
        let first = app.sns.last_code(PHONE);
        let response = bob.requests_new_code(PHONE).await;
        response.expect_error(422, "no_pending_verification");
        assert_eq!(response.message(), "No verification is pending for this phone number. Start one first.");

        // After 20 minutes the first code has expired, but the verification is still pending.
        app.clock.advance(TimeDelta::minutes(20));
        let body = alice.requests_new_code(PHONE).await.expect(200);
        let message = "We sent a new code to +447700900555.";
        assert_eq!(body, json!({ "message": message, "data": { "expires_in": 300 } }));
        let second = app.sns.last_code(PHONE);
        assert_ne!(first, second);
        alice.verifies_phone(PHONE, &first).await.expect_error(401, "invalid_code");
        alice.verifies_phone(PHONE, &second).await.expect(200);
        alice.requests_new_code(PHONE).await.expect_error(422, "no_pending_verification");
    }

    #[tokio::test]
    async fn no_code_is_resent_for_a_replaced_verification() {
        let (app, alice) = alice().await;
        for phone in [PHONE, LATER_PHONE] {
            alice.initiates_verification(phone).await.expect(200);
        }
        let sent = app.sns.messages().len();
        alice.requests_new_code(PHONE).await.expect_error(422, "no_pending_verification");
        assert_eq!(app.sns.messages().len(), sent);
    }

    #[tokio::test]
    async fn a_pending_verification_expires_after_one_day() {
        let (app, alice) = alice().await;
        alice.initiates_verification(PHONE).await.expect(200);
        app.clock.advance(TimeDelta::days(1));
        alice.requests_new_code(PHONE).await.expect_error(422, "no_pending_verification");
    }

    #[tokio::test]
    async fn the_verification_stays_pending_if_the_sms_cannot_be_sent() {
        let (app, alice) = alice().await;
        alice.initiates_verification(PHONE).await.expect(200);
        app.sns.reject();
        alice.requests_new_code(PHONE).await.expect_error(503, "sms_unavailable");
        app.sns.accept();
        alice.requests_new_code(PHONE).await.expect(200);
        alice.verifies_phone(PHONE, &app.sns.last_code(PHONE)).await.expect(200);
    }

    #[tokio::test]
    async fn a_replaced_verification_is_cancelled_even_if_store_responses_are_lost() {
        let (app, alice) = alice().await;
        app.faults.first_attempts(Fault::LoseResponse);
        for phone in [PHONE, LATER_PHONE] {
            alice.initiates_verification(phone).await.expect(200);
        }
        alice.requests_new_code(PHONE).await.expect_error(422, "no_pending_verification");
        alice.requests_new_code(LATER_PHONE).await.expect(200);
        alice.verifies_phone(LATER_PHONE, &app.sns.last_code(LATER_PHONE)).await.expect(200);
    }
}
