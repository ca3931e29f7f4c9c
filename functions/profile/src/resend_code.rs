use touchline::api::Message;
use touchline::api::login::CodeSent;
use touchline::api::profile::ResendCode;
use touchline::domain::Sending;
use touchline::flows::codes;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<ResendCode>) -> Result<Reply<Message<CodeSent>>, Error> {
    let sending = Sending::Resend(call.caller.user);
    let expires_in = codes::send(&app, &call.input.phone, sending, call.address.as_ref()).await?;
    Ok(Message { message: "A new code is on its way.".into(), data: CodeSent { expires_in } }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline_testing::{Fault, TestApp};

    const PATH: &str = "/api/auth/resend-code";
    const INITIATE: &str = "/api/auth/verify-phone/initiate";
    const VERIFY: &str = "/api/auth/verify-phone";
    const PHONE: &str = "+447700900123";
    const NEW: &str = "+447700900555";

    #[tokio::test]
    async fn only_what_is_pending_for_the_caller_is_sent_again() {
        let app = TestApp::serving(&[login::router, crate::router]).start().await;
        let token = app.token(PHONE).await;
        let other = app.token("+447700900124").await;
        let resend = |token: &str, phone: &'static str| {
            let (app, token) = (&app, token.to_owned());
            async move { app.post_as(&token, PATH, json!({ "phone": phone })).await }
        };
        resend(&token, NEW).await.expect_error(422, "no_pending_verification");
        let _ = app.post_as(&token, INITIATE, json!({ "phone": NEW })).await.expect(200);
        let first = app.sns.last_code(NEW);
        resend(&other, NEW).await.expect_error(422, "no_pending_verification");

        // The code may be dead by now; the verification is not.
        app.clock.advance(TimeDelta::minutes(20));
        let body = resend(&token, NEW).await.expect(200);
        assert_eq!(body, json!({ "message": "A new code is on its way.", "data": { "expires_in": 300 } }));
        let second = app.sns.last_code(NEW);
        assert_ne!(first, second);
        app.post_as(&token, VERIFY, json!({ "phone": NEW, "code": first }))
            .await
            .expect_error(401, "invalid_code");
        let _ = app.post_as(&token, VERIFY, json!({ "phone": NEW, "code": second })).await.expect(200);
        resend(&token, NEW).await.expect_error(422, "no_pending_verification");
    }

    #[tokio::test]
    async fn a_phone_whose_place_another_took_is_not_pending() {
        let app = TestApp::serving(&[login::router, crate::router]).start().await;
        let token = app.token(PHONE).await;
        for phone in [NEW, "+447700900777"] {
            let _ = app.post_as(&token, INITIATE, json!({ "phone": phone })).await.expect(200);
        }
        let sent = app.sns.messages().len();
        app.post_as(&token, PATH, json!({ "phone": NEW })).await.expect_error(422, "no_pending_verification");
        assert_eq!(app.sns.messages().len(), sent);
    }

    #[tokio::test]
    async fn a_day_later_nothing_is_pending() {
        let app = TestApp::serving(&[login::router, crate::router]).start().await;
        let token = app.token(PHONE).await;
        let _ = app.post_as(&token, INITIATE, json!({ "phone": NEW })).await.expect(200);
        app.clock.advance(TimeDelta::days(1));
        app.post_as(&token, PATH, json!({ "phone": NEW })).await.expect_error(422, "no_pending_verification");
    }

    #[tokio::test]
    async fn a_resend_that_could_not_be_sent_can_be_tried_again() {
        let app = TestApp::serving(&[login::router, crate::router]).start().await;
        let token = app.token(PHONE).await;
        let _ = app.post_as(&token, INITIATE, json!({ "phone": NEW })).await.expect(200);
        app.sns.refuse();
        app.post_as(&token, PATH, json!({ "phone": NEW })).await.expect_error(503, "sms_unavailable");
        app.sns.accept();
        let _ = app.post_as(&token, PATH, json!({ "phone": NEW })).await.expect(200);
        let body = json!({ "phone": NEW, "code": app.sns.last_code(NEW) });
        let _ = app.post_as(&token, VERIFY, body).await.expect(200);
    }

    /// Lost answers leave the same behind as heard ones: the earlier phone is cancelled.
    #[tokio::test]
    async fn a_replaced_phone_is_cancelled_even_if_answers_get_lost() {
        let app = TestApp::serving(&[login::router, crate::router]).start().await;
        let token = app.token(PHONE).await;
        app.faults.first_attempts(Fault::LoseReply);
        for phone in [NEW, "+447700900777"] {
            let _ = app.post_as(&token, INITIATE, json!({ "phone": phone })).await.expect(200);
        }
        app.post_as(&token, PATH, json!({ "phone": NEW })).await.expect_error(422, "no_pending_verification");
        let _ = app.post_as(&token, PATH, json!({ "phone": "+447700900777" })).await.expect(200);
        let body = json!({ "phone": "+447700900777", "code": app.sns.last_code("+447700900777") });
        let _ = app.post_as(&token, VERIFY, body).await.expect(200);
    }
}
