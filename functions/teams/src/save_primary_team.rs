use touchline::api::Message;
use touchline::api::matches::Named;
use touchline::api::teams::{SavePrimaryTeam, SavedTeam};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<SavePrimaryTeam>) -> Result<Reply<Message<SavedTeam>>, Error> {
    let catalog = app.catalog().await?;
    let team = Named::team(&catalog, call.input.team_id.0).ok_or(Error::TeamNotFound)?;
    app.store.save_primary_team(call.caller.user, team.id, app.clock.now()).await?;
    Ok(Message { message: format!("{} is your team.", team.name), data: SavedTeam { team } }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tests::app;

    const PATH: &str = "/api/auth/teams/primary";

    #[tokio::test]
    async fn a_team_is_saved_and_shown_in_the_profile() {
        let (app, token) = app().await;
        let body = app.post_as(&token, PATH, json!({ "team_id": 1 })).await.expect(200);
        let team = json!({ "id": 1, "name": "Northgate Rovers", "logo": "https://example.org/1.png" });
        assert_eq!(body["data"], json!({ "team": team }));
        assert!(body["message"].is_string());
        let me = app.get_as(&token, "/api/auth/me").await.expect(200);
        assert_eq!(me["data"]["primary_team"], team);
        let _ = app.post_as(&token, PATH, json!({ "team_id": 2 })).await.expect(200);
        let me = app.get_as(&token, "/api/auth/me").await.expect(200);
        assert_eq!(me["data"]["primary_team"]["id"], 2);
    }

    #[tokio::test]
    async fn unknown_is_404_and_no_integer_is_422() {
        let (app, token) = app().await;
        for id in [json!(99), json!(0), json!(4_000_000_000_u64), json!(99_999_999_999_u64)] {
            app.post_as(&token, PATH, json!({ "team_id": id })).await.expect_error(404, "team_not_found");
        }
        for id in [json!("1"), json!(1.5), json!(-1), json!(null), json!([1]), json!(true)] {
            let answer = app.post_as(&token, PATH, json!({ "team_id": id })).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"]["team_id"][0].is_string());
        }
        let me = app.get_as(&token, "/api/auth/me").await.expect(200);
        assert_eq!(me["data"]["primary_team"], json!(null));
    }
}
