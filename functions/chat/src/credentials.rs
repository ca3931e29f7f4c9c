use touchline::api::chat::ChatCredentials;
use touchline::api::{Data, SignedIn};
use touchline::domain::chat::Credentials;
use touchline::flows::sessions;
use touchline::{App, Call, Error, Reply};

use crate::lookup;

/// Logs the caller in to the homeserver, for clients that logged in to our API while the homeserver was down.
/// The credentials belong to the device of the session.
pub async fn handle(app: App, call: Call<ChatCredentials>) -> Result<Reply<Data<Credentials>>, Error> {
    let user = lookup::caller(&app, call.caller.user).await?;
    let SignedIn { token, device_id, .. } = &call.caller;
    let data = sessions::log_in_to_chat(&app, token, &user.username, device_id).await?;
    Ok(Data { data }.into())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;
    use touchline::domain::Token;
    use touchline_testing::HomeserverStandIn;

    use crate::testing::{app, builder};

    #[tokio::test]
    async fn credentials_are_for_the_device_of_the_session() {
        let (_app, [alice, ..]) = app().await;
        let body = alice.requests_chat_credentials().await.expect(200);
        let token = body["data"]["access_token"].as_str().unwrap();
        assert_eq!(
            body,
            json!({ "data": {
                "user_id": "@alice:touchline.local", "access_token": token, "device_id": "DEVICE1",
                "homeserver_url": null,
            } })
        );
    }

    #[tokio::test]
    async fn credentials_have_the_url_of_the_homeserver_here_and_in_a_login() {
        let homeserver = HomeserverStandIn::start().await;
        let app = builder()
            .variable("CHAT_HOMESERVER_URL", &format!("{}/", homeserver.url()))
            .variable("CHAT_AS_TOKEN", "the-token-of-the-tests")
            .start()
            .await;
        let alice = app.sign_in("+447700900123").await;
        let credentials = alice.requests_chat_credentials().await.expect_data(200);
        assert_eq!(credentials["homeserver_url"], homeserver.url());
        assert_eq!(alice.credentials, credentials);
    }

    /// The session ends while the homeserver logs the device in.
    #[tokio::test]
    async fn a_session_that_ends_during_the_request_gets_no_chat_device() {
        let homeserver = HomeserverStandIn::start().await;
        let app = builder()
            .variable("CHAT_HOMESERVER_URL", homeserver.url())
            .variable("CHAT_AS_TOKEN", "the-token-of-the-tests")
            .start()
            .await;
        let alice = app.sign_in("+447700900123").await;
        let _ = homeserver.take_requests();
        let (at_login, token) = (app.clone(), Token::parse(&alice.token).unwrap());
        let mut reads = 0;
        app.faults.interrupt(move |attempt| {
            reads += u32::from(attempt.operation == "GetItem");
            let (app, token) = (at_login.clone(), token.clone());
            let end = async move { app.store.end_session(&token, app.clock.now()).await.unwrap() };
            // After the session and the user, the third read is that after the login.
            (attempt.operation == "GetItem" && reads == 3).then(|| end.boxed())
        });
        alice.requests_chat_credentials().await.expect_error(401, "token_invalid");
        let device = format!("DELETE devices/{}", alice.credentials["device_id"].as_str().unwrap());
        assert_eq!(homeserver.take_requests(), ["POST login", &device]);
    }

    #[tokio::test]
    async fn requesting_credentials_while_the_homeserver_is_down_is_503() {
        let app = builder().with_chat_down().start().await;
        let alice = app.user("alice").await;
        alice.requests_chat_credentials().await.expect_error(503, "chat_unavailable");
    }
}
