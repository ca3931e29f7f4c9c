use touchline::api::MessageOnly;
use touchline::api::login::RevokeSession;
use touchline::storage::users::Which;
use touchline::{App, Call, Error, Reply};

/// Ends one of the caller's sessions. A retry gets the same response as for an unknown session, because ended sessions are not
/// listed either.
pub async fn handle(app: App, call: Call<RevokeSession>) -> Result<Reply<MessageOnly>, Error> {
    let one = Which::One(&call.path.session);
    match app.store.end_sessions(call.caller.user, one, app.clock.now()).await? {
        0 => Err(Error::SessionNotFound),
        _ => Ok(MessageOnly { message: "The session has ended.".into() }.into()),
    }
}

#[cfg(test)]
mod tests {
    use touchline_testing::TestApp;

    const PHONE: &str = "+447700900123";

    #[tokio::test]
    async fn a_revoked_session_ends_and_the_others_stay() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let (lost, kept) = (app.sign_in(PHONE).await, app.sign_in(PHONE).await);
        let id = lost.credentials["device_id"].as_str().unwrap();
        kept.revokes_session(id).await.expect(200);
        lost.lists_sessions().await.expect_error(401, "token_invalid");
        kept.lists_sessions().await.expect(200);
        kept.revokes_session(id).await.expect_error(404, "session_not_found");
    }

    #[tokio::test]
    async fn sessions_of_other_users_cannot_be_revoked() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let (alice, bob) = (app.sign_in(PHONE).await, app.sign_in("+447700900124").await);
        let id = alice.credentials["device_id"].as_str().unwrap();
        bob.revokes_session(id).await.expect_error(404, "session_not_found");
        bob.revokes_session("a-b").await.expect_error(404, "session_not_found");
        alice.lists_sessions().await.expect(200);
    }
}
