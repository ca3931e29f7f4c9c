use touchline::api::Data;
use touchline::api::chat::ChatCredentials;
use touchline::domain::chat::Credentials;
use touchline::{App, Call, Error, Reply};

use crate::lookup;

/// Logs the caller in to the homeserver, for clients that logged in to our API while the homeserver was down.
/// The credentials belong to the device of the session.
pub async fn handle(app: App, call: Call<ChatCredentials>) -> Result<Reply<Data<Credentials>>, Error> {
    let user = lookup::caller(&app, call.caller.user).await?;
    let data = app.chat.log_in(&user.username, &call.caller.device_id).await?;
    Ok(Data { data }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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

    #[tokio::test]
    async fn requesting_credentials_while_the_homeserver_is_down_is_503() {
        let app = builder().with_chat_down().start().await;
        let alice = app.user("alice").await;
        alice.requests_chat_credentials().await.expect_error(503, "chat_unavailable");
    }
}
