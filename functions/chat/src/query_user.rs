use touchline::api::homeserver::{Empty, QueryUser};
use touchline::{App, Call, Error, Reply};

use crate::room_event;

/// Registers one of our users on the homeserver. The homeserver calls this endpoint for a user that it does
/// not know yet.
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

    use crate::testing::app;

    #[tokio::test]
    async fn queries_for_our_users_succeed_and_queries_for_unknown_users_are_404() {
        let (app, _) = app().await;
        let homeserver = app.homeserver();
        for id in ["@alice:touchline.local", "%40alice%3Atouchline.local"] {
            assert_eq!(homeserver.queries_user(id).await.expect(200), json!({}));
        }
        for id in ["@nobody:touchline.local", "@alice:elsewhere", "malformed"] {
            homeserver.queries_user(id).await.expect_matrix_error(404, "M_NOT_FOUND");
        }
        let anonymous = app.anonymous().queries_user("@alice:touchline.local").await;
        anonymous.expect_matrix_error(401, "M_MISSING_TOKEN");
    }

    #[tokio::test]
    async fn queries_for_room_aliases_are_404() {
        let (app, _) = app().await;
        let response = app.homeserver().queries_room("%23touchline-x:touchline.local").await;
        response.expect_matrix_error(404, "M_NOT_FOUND");
    }

    #[tokio::test]
    async fn pings_succeed() {
        let (app, _) = app().await;
        assert_eq!(app.homeserver().pings().await.expect(200), json!({}));
    }
}
