use touchline::api::matches::Named;
use touchline::api::teams::{SaveOtherTeams, SavedTeams};
use touchline::api::{Invalid, Message};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<SaveOtherTeams>) -> Result<Reply<Message<SavedTeams>>, Error> {
    let catalog = app.teams().await?;
    let ids = call.input.team_ids.0;
    let mut teams = Vec::with_capacity(ids.len());
    for id in &ids {
        let unknown = || Invalid::field("team_ids", format!("Team {id} does not exist."));
        teams.push(Named::team(&catalog, *id).ok_or_else(unknown)?);
    }
    app.store.save_other_teams(call.caller.user, &ids, app.clock.now()).await?;
    Ok(Message { message: "Your other teams are saved.".into(), data: SavedTeams { teams } }.into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use touchline_testing::User;

    use crate::testing::alice;

    async fn other_teams(user: &User) -> Value {
        user.views_profile().await.expect_data(200)["other_teams"].take()
    }

    #[tokio::test]
    async fn the_saved_teams_replace_the_previous_selection() {
        let (_app, alice) = alice().await;
        let body = alice.saves_other_teams(&[3, 1]).await.expect(200);
        assert_eq!(body["message"], "Your other teams are saved.");
        let teams = body["data"]["teams"].as_array().unwrap();
        let ids: Vec<_> = teams.iter().map(|team| team["id"].clone()).collect();
        assert_eq!(ids, [3, 1], "the teams are in the order of the request");
        assert_eq!(other_teams(&alice).await[1]["name"], "Northgate Rovers");
        alice.saves_other_teams(&[2]).await.expect(200);
        assert_eq!(other_teams(&alice).await.as_array().unwrap().len(), 1);
        alice.saves_other_teams(&[]).await.expect(200);
        assert_eq!(other_teams(&alice).await, json!([]));
    }

    #[tokio::test]
    async fn invalid_selections_are_422_and_change_nothing() {
        let (_app, alice) = alice().await;
        alice.saves_other_teams(&[1]).await.expect(200);
        let before = other_teams(&alice).await;
        for ids in [
            json!([1, 2, 3, 4, 5, 6]),
            json!([1, 1]),
            json!(["1"]),
            json!([1.5]),
            json!([1, null]),
            json!("1"),
            json!(1),
            json!(null),
            json!({}),
            json!([[1]]),
            json!([-1]),
        ] {
            alice.saves_other_teams(&[]).field("team_ids", ids).await.expect_invalid(&["team_ids"]);
        }
        let response = alice.saves_other_teams(&[1, 99]).await;
        response.expect_invalid(&["team_ids"]);
        assert_eq!(response.message(), "Team 99 does not exist.");
        assert_eq!(other_teams(&alice).await, before);
        assert_eq!(before.as_array().unwrap().len(), 1);
    }
}
