use touchline::api::Data;
use touchline::api::chat::ChatCredentials;
use touchline::domain::chat::Credentials;
use touchline::{App, Call, Error, Reply};

/// For a login that went through while the chat network was away. The session keeps its device.
pub async fn handle(app: App, call: Call<ChatCredentials>) -> Result<Reply<Data<Credentials>>, Error> {
    let user = crate::caller(&app, call.caller.user).await?;
    let data = app.chat.log_in(&user.username, &call.caller.device_id).await?;
    Ok(Data { data }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{app, builder};

    const PATH: &str = "/api/auth/chat/credentials";

    #[tokio::test]
    async fn credentials_are_for_the_sessions_own_device() {
        let (app, [ada, ..]) = app().await;
        let body = app.post_as(&ada, PATH, json!({})).await.expect(200);
        let token = body["data"]["access_token"].as_str().unwrap();
        assert_eq!(
            body,
            json!({ "data": {
                "user_id": "@fan.1:touchline.local", "access_token": token, "device_id": "DEVICE1",
            } })
        );
    }

    #[tokio::test]
    async fn without_the_chat_network_there_are_none() {
        let app = builder().without_chat().start().await;
        let token = app.register(1).await;
        app.post_as(&token, PATH, json!({})).await.expect_error(503, "chat_unavailable");
    }
}
