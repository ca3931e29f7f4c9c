use touchline::api::homeserver::{Empty, QueryUser};
use touchline::{App, Call, Error, Reply};

use crate::room_event;

/// Somebody looks for a user whom the homeserver has not seen yet. Of ours, it gets to know them now.
pub async fn handle(app: App, call: Call<QueryUser>) -> Result<Reply<Empty>, Error> {
    let name = room_event::local_username(&call.path.user_id.0, &app.config.chat.server);
    let name = name.ok_or(Error::UserNotFound)?;
    app.store.user_named(&name).await?.ok_or(Error::UserNotFound)?;
    app.chat.ensure_user(&name).await?;
    Ok(Empty {}.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use touchline_testing::HS_TOKEN;

    use crate::testing::app;

    #[tokio::test]
    async fn users_are_ours_and_aliases_are_made_with_their_rooms() {
        let (app, _) = app().await;
        let bearer = format!("Bearer {HS_TOKEN}");
        let get = async |path: &str| app.send("GET", path, &[("authorization", &bearer)], b"").await;
        for id in ["@fan.1:touchline.local", "%40fan.1%3Atouchline.local"] {
            assert_eq!(get(&format!("/_matrix/app/v1/users/{id}")).await.expect(200), json!({}));
        }
        for id in ["@nobody:touchline.local", "@fan.1:elsewhere", "nonsense"] {
            let answer = get(&format!("/_matrix/app/v1/users/{id}")).await;
            assert_eq!((answer.status.as_u16(), &answer.body["errcode"]), (404, &json!("M_NOT_FOUND")));
        }
        let answer = get("/_matrix/app/v1/rooms/%23touchline-x:touchline.local").await;
        assert_eq!((answer.status.as_u16(), &answer.body["errcode"]), (404, &json!("M_NOT_FOUND")));
        assert_eq!(app.get("/_matrix/app/v1/users/@fan.1:touchline.local").await.status, 401);
        let ping = app.send("POST", "/_matrix/app/v1/ping", &[("authorization", &bearer)], b"{}").await;
        assert_eq!(ping.expect(200), json!({}));
    }
}
