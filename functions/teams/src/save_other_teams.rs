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

    #[tokio::test]
    async fn a_selection_replaces_the_one_before() {
        let (_app, alice) = app().await;
        let saved = alice.saves_other_teams(&[3, 1]).await.expect_data(200);
        let ids: Vec<_> = saved["teams"].as_array().unwrap().iter().map(|team| team["id"].clone()).collect();
        assert_eq!(ids, [3, 1], "in the order of the request");
        let others = async || alice.views_profile().await.expect_data(200)["other_teams"].clone();
        assert_eq!(others().await[1]["name"], "Northgate Rovers");
        alice.saves_other_teams(&[2]).await.expect(200);
        assert_eq!(others().await.as_array().unwrap().len(), 1);
        alice.saves_other_teams(&[]).await.expect(200);
        assert_eq!(others().await, json!([]));
    }

    #[tokio::test]
    async fn an_invalid_selection_is_422_and_the_saved_one_stays() {
        let (_app, alice) = app().await;
        alice.saves_other_teams(&[1]).await.expect(200);
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
            alice.saves_other_teams(&[]).field("team_ids", ids).await.expect_invalid(&["team_ids"]);
        }
        let me = alice.views_profile().await.expect_data(200);
        assert_eq!(me["other_teams"].as_array().unwrap().len(), 1);
    }
}
