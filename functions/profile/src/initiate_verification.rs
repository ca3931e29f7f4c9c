use touchline::api::Message;
use touchline::api::profile::{InitiateVerification, VerificationStarted};
use touchline::domain::CodeRequest;
use touchline::flows::codes;
use touchline::{App, Call, Error, Reply, lambda};

/// Starts the verification of a phone. A user has at most one pending verification: a new one replaces the
/// previous one.
///
/// The phone can belong to another user. Only the right code tells the caller that: otherwise anybody could find out
/// who has an account.
pub async fn handle(
    app: App,
    call: Call<InitiateVerification>,
) -> Result<Reply<Message<VerificationStarted>>, Error> {
    let phone = call.input.phone;
    let sending = CodeRequest::StartVerification(call.caller.user);
    let expires_in = codes::send(&app, &phone, sending, call.address.as_ref())
        .await
        .inspect_err(|error| lambda::count_refusal(&app, error))?;
    let message = format!("We sent a code to {}.", phone.as_str());
    Ok(Message { message, data: VerificationStarted { expires_in, phone } }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
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

    /// Otherwise anybody could find out which phones have an account.
    #[tokio::test]
    async fn a_phone_of_another_user_gets_the_same_responses_as_a_phone_without_a_user() {
        let (app, alice) = alice().await;
        let bob = app.user("bob").await;
        for phone in [&bob.phone, NEW_PHONE] {
            let body = alice.initiates_verification(phone).await.expect(200);
            assert_eq!(body["data"], json!({ "expires_in": 300, "phone": phone }));
            for _ in 0..4 {
                alice.initiates_verification(phone).await.expect(200);
            }
            alice.initiates_verification(phone).await.expect_error(429, "rate_limited");
        }
    }

    #[tokio::test]
    async fn rejected_requests_store_nothing() {
        let app =
            TestApp::serving(&[crate::router]).variable("CODES_PER_ADDRESS_PER_HOUR", "1").start().await;
        let alice = app.user("alice").await;
        let initiate =
            |n: u32| alice.initiates_verification(&format!("+4477009{n:05}")).from_address("203.0.113.9");
        initiate(555).await.expect(200);
        let stored = app.dump().await.len();
        for n in 600..620 {
            initiate(n).await.expect_error(429, "rate_limited");
        }
        assert_eq!(app.dump().await.len(), stored);
    }

    #[tokio::test]
    async fn a_request_over_the_limit_of_the_phone_leaves_the_pending_verification() {
        let (app, alice) = alice().await;
        for _ in 0..5 {
            alice.initiates_verification(NEW_PHONE).await.expect(200);
        }
        let code = app.sns.last_code(NEW_PHONE);
        alice.initiates_verification(NEW_PHONE).await.expect_error(429, "rate_limited");
        alice.requests_new_code(NEW_PHONE).await.expect_error(429, "rate_limited");
        alice.verifies_phone(NEW_PHONE, &code).await.expect(200);
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

    /// A write can reach the store late, after the write of a newer request.
    #[tokio::test]
    async fn a_late_request_does_not_replace_a_newer_verification() {
        let (app, alice) = alice().await;
        alice.initiates_verification(NEW_PHONE).await.expect(200);
        app.clock.advance(-TimeDelta::seconds(5));
        alice.initiates_verification("+447700900556").await.expect_error(429, "rate_limited");
        app.clock.advance(TimeDelta::seconds(5));
        alice.requests_new_code(NEW_PHONE).await.expect(200);
    }

    #[tokio::test]
    async fn no_verification_starts_if_the_sms_cannot_be_sent() {
        let (app, alice) = alice().await;
        app.sns.reject();
        alice.initiates_verification(NEW_PHONE).await.expect_error(503, "sms_unavailable");
        app.sns.accept();
        alice.requests_new_code(NEW_PHONE).await.expect_error(422, "no_pending_verification");
    }

    #[tokio::test]
    async fn the_previous_verification_stays_pending_if_the_sms_cannot_be_sent() {
        let (app, alice) = alice().await;
        alice.initiates_verification(NEW_PHONE).await.expect(200);
        let code = app.sns.last_code(NEW_PHONE);
        app.sns.reject();
        alice.initiates_verification("+447700900556").await.expect_error(503, "sms_unavailable");
        alice.verifies_phone(NEW_PHONE, &code).await.expect(200);
    }
}
