use futures_util::try_join;
use touchline::api::MessageOnly;
use touchline::api::login::Logout;
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

/// The session ends first: whatever the chat network does, the token is dead.
pub async fn handle(app: App, call: Call<Logout>) -> Result<Reply<MessageOnly>, Error> {
    let caller = call.caller;
    let ((), user) = try_join!(
        app.store.end_session(caller.user, &caller.token),
        app.store.user(caller.user, Reads::Eventual),
    )?;
    if let Some(user) = user
        && let Err(error) = app.chat.log_out(&user.username, &caller.device_id).await
    {
        tracing::warn!(%error, "a chat device outlives its session");
    }
    Ok(MessageOnly { message: "You are logged out.".into() }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use touchline_testing::TestApp;

    const PATH: &str = "/api/auth/logout";
    const PHONE: &str = "+447700900123";

    #[tokio::test]
    async fn the_token_is_dead_afterwards_and_others_live() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let (first, second) = (app.token(PHONE).await, app.token(PHONE).await);
        let body = app.post_as(&first, PATH, json!({})).await.expect(200);
        assert_eq!(body, json!({ "message": "You are logged out." }));
        let refused = app.post_as(&first, PATH, json!({})).await;
        refused.expect_error(401, "token_invalid");
        assert_eq!(refused.headers["www-authenticate"], "Bearer");
        let _ = app.post_as(&second, PATH, json!({})).await.expect(200);
    }

    #[tokio::test]
    async fn tokens_that_are_none_are_refused() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let token = app.token(PHONE).await;
        app.send("POST", PATH, &[], b"").await.expect_error(401, "token_missing");
        app.send("POST", PATH, &[("authorization", "Basic abc")], b"")
            .await
            .expect_error(401, "token_missing");
        // Another user's id in front of the same secret is somebody else's token, which does not exist.
        let stolen = token.replacen("tl_1_", "tl_2_", 1);
        let flipped =
            format!("{}{}", &token[..token.len() - 1], if token.ends_with('0') { '1' } else { '0' });
        for nonsense in ["", "x", "tl_1_", "tl_1_zz", "💥", &"a".repeat(5_000), &stolen, &flipped] {
            app.post_as(nonsense, PATH, json!({})).await.expect_error(401, "token_invalid");
        }
        let lower = format!("bearer {token}");
        let _ = app.send("POST", PATH, &[("authorization", &lower)], b"").await.expect(200);
    }
}
