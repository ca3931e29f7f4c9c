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

    #[tokio::test]
    async fn a_team_is_saved_and_shown_in_the_profile() {
        let (_app, alice) = app().await;
        let body = alice.saves_primary_team(1).await.expect(200);
        let team = json!({ "id": 1, "name": "Northgate Rovers", "logo": "https://example.org/1.png" });
        assert_eq!(body["data"], json!({ "team": team }));
        assert!(body["message"].is_string());
        assert_eq!(alice.views_profile().await.expect_data(200)["primary_team"], team);
        alice.saves_primary_team(2).await.expect(200);
        assert_eq!(alice.views_profile().await.expect_data(200)["primary_team"]["id"], 2);
    }

    #[tokio::test]
    async fn unknown_team_ids_are_404_and_other_values_are_422() {
        let (_app, alice) = app().await;
        for id in [json!(99), json!(0), json!(4_000_000_000_u64), json!(99_999_999_999_u64)] {
            let response = alice.saves_primary_team(1).field("team_id", id).await;
            response.expect_error(404, "team_not_found");
        }
        for id in [json!("1"), json!(1.5), json!(-1), json!(null), json!([1]), json!(true)] {
            alice.saves_primary_team(1).field("team_id", id).await.expect_invalid(&["team_id"]);
        }
        assert_eq!(alice.views_profile().await.expect_data(200)["primary_team"], json!(null));
    }
}
