use touchline::api::matches::Named;
use touchline::api::teams::{SaveOtherTeams, SavedTeams};
use touchline::api::{Invalid, Message};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<SaveOtherTeams>) -> Result<Reply<Message<SavedTeams>>, Error> {
    let catalog = app.catalog().await?;
    let ids = call.input.team_ids.0;
    let mut teams = Vec::with_capacity(ids.len());
    for id in &ids {
        let unknown = || Invalid::field("team_ids", format!("Team {id} does not exist."));
        teams.push(Named::team(&catalog, *id).ok_or_else(unknown)?);
    }
    app.store.save_other_teams(call.caller.user, &ids).await?;
    Ok(Message { message: "Your other teams are saved.".into(), data: SavedTeams { teams } }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::tests::app;

    const PATH: &str = "/api/auth/teams/other";

    #[tokio::test]
    async fn a_selection_replaces_the_one_before() {
        let (app, token) = app().await;
        let body = app.post_as(&token, PATH, json!({ "team_ids": [3, 1] })).await.expect(200);
        let names: Vec<_> =
            body["data"]["teams"].as_array().unwrap().iter().map(|team| team["id"].clone()).collect();
        assert_eq!(names, [3, 1], "in the order given");
        let others =
            async || app.get_as(&token, "/api/auth/me").await.expect(200)["data"]["other_teams"].clone();
        assert_eq!(others().await[1]["name"], "Northgate Rovers");
        let _ = app.post_as(&token, PATH, json!({ "team_ids": [2] })).await.expect(200);
        assert_eq!(others().await.as_array().unwrap().len(), 1);
        let _ = app.post_as(&token, PATH, json!({ "team_ids": [] })).await.expect(200);
        assert_eq!(others().await, json!([]));
    }

    #[tokio::test]
    async fn bad_selections_are_refused_and_the_old_one_stays() {
        let (app, token) = app().await;
        let _ = app.post_as(&token, PATH, json!({ "team_ids": [1] })).await.expect(200);
        for ids in [
            json!([1, 2, 3, 4, 5, 6]),
            json!([1, 1]),
            json!(["1"]),
            json!([1.5]),
            json!([99]),
            json!([1, null]),
            json!("1"),
            json!(1),
            json!(null),
            json!({}),
            json!([[1]]),
            json!([-1]),
        ] {
            let answer = app.post_as(&token, PATH, json!({ "team_ids": ids })).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"]["team_ids"][0].is_string(), "{}", answer.body);
        }
        let me = app.get_as(&token, "/api/auth/me").await.expect(200);
        assert_eq!(me["data"]["other_teams"].as_array().unwrap().len(), 1);
    }
}
