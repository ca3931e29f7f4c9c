use touchline::api::MessageOnly;
use touchline::api::login::Logout;
use touchline::domain::MAX_CLOCK_DIFFERENCE;
use touchline::storage::users::Which;
use touchline::{App, Call, Error, Reply};

/// Ends the session of the caller, or all sessions of the user. The function `erasure` removes their chat devices.
pub async fn handle(app: App, call: Call<Logout>) -> Result<Reply<MessageOnly>, Error> {
    let (caller, now) = (call.caller, app.clock.now());
    if call.input.everywhere == Some(true) {
        let all = Which::All { until: now + MAX_CLOCK_DIFFERENCE, except: None };
        app.store.end_sessions(caller.user, all, now).await?;
        return Ok(MessageOnly { message: "You are logged out on all devices.".into() }.into());
    }
    app.store.end_session(&caller.token, now).await?;
    Ok(MessageOnly { message: "You are logged out.".into() }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use touchline::domain::Token;
    use touchline_testing::TestApp;

    const PHONE: &str = "+447700900123";

    /// The write of a login can reach the store again after the logout.
    #[tokio::test]
    async fn a_repeated_write_of_a_session_does_not_undo_its_logout() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let alice = app.user("alice").await;
        let token = Token::parse(&alice.token).unwrap();
        let session = app.store.session(&token).await.unwrap().unwrap();
        alice.logs_out().await.expect(200);
        app.store.save_session(&token, &session).await.unwrap();
        app.store.renew_session(&token, session.expires_at, app.clock.now()).await.unwrap();
        alice.logs_out().await.expect_error(401, "token_invalid");
    }

    #[tokio::test]
    async fn logout_ends_only_the_session_of_its_token() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let (first, second) = (app.sign_in(PHONE).await, app.sign_in(PHONE).await);
        let body = first.logs_out().await.expect(200);
        assert_eq!(body, json!({ "message": "You are logged out." }));
        let response = first.logs_out().await;
        response.expect_error(401, "token_invalid");
        assert_eq!(response.header("www-authenticate"), Some("Bearer"));
        second.logs_out().body(json!({})).await.expect(200);
    }

    #[tokio::test]
    async fn logout_everywhere_ends_all_sessions_of_the_user_and_no_others() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let (first, second) = (app.sign_in(PHONE).await, app.sign_in(PHONE).await);
        let other = app.sign_in("+447700900124").await;
        let body = first.logs_out().body(json!({ "everywhere": true })).await.expect(200);
        assert_eq!(body, json!({ "message": "You are logged out on all devices." }));
        for session in [first, second] {
            session.logs_out().await.expect_error(401, "token_invalid");
        }
        other.logs_out().await.expect(200);
    }

    #[tokio::test]
    async fn a_request_without_a_bearer_token_is_401_token_missing() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let logout = app.anonymous().logs_out();
        logout.clone().await.expect_error(401, "token_missing");
        logout.header("authorization", "Basic abc").await.expect_error(401, "token_missing");
    }

    #[tokio::test]
    async fn invalid_tokens_are_401_token_invalid() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let token = app.sign_in(PHONE).await.token;
        let other_user = token.replacen("tl_1_", "tl_2_", 1);
        let (start, last) = token.split_at(token.len() - 1);
        let other_secret = format!("{start}{}", if last == "0" { '1' } else { '0' });
        for invalid in ["", "x", "tl_1_", "tl_1_zz", "💥", &"a".repeat(5_000), &other_user, &other_secret] {
            app.with_token(invalid).logs_out().await.expect_error(401, "token_invalid");
        }
    }

    #[tokio::test]
    async fn the_authorization_scheme_ignores_case() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let token = app.sign_in(PHONE).await.token;
        app.anonymous().logs_out().header("authorization", &format!("bearer {token}")).await.expect(200);
    }
}
