use touchline::api::Message;
use touchline::api::matches::Named;
use touchline::api::teams::{SavePrimaryTeam, SavedTeam};
use touchline::domain::limit::DailyAction;
use touchline::flows::day_limit;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<SavePrimaryTeam>) -> Result<Reply<Message<SavedTeam>>, Error> {
    let catalog = app.teams().await?;
    let (user, team_id) = (call.caller.user, call.input.team_id.0);
    let wanted = Named::team(&catalog, team_id).ok_or(Error::TeamNotFound)?;
    day_limit::count_request(&app, user, DailyAction::ChoosePrimaryTeam).await?;
    let stored = app.store.save_primary_team(user, wanted.id, app.clock.now()).await?;
    // If the user has chosen another team since, the response has that one.
    let team = Named::team(&catalog, stored).unwrap_or(wanted);
    Ok(Message { message: format!("{} is your team.", team.name), data: SavedTeam { team } }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline::domain::UserId;

    use crate::testing::alice;

    /// The stored choice is so much later that the difference of the clocks does not explain it.
    #[tokio::test]
    async fn a_choice_that_is_not_stored_is_not_confirmed() {
        let (app, alice) = alice().await;
        alice.saves_primary_team(1).await.expect(200);
        app.clock.advance(TimeDelta::milliseconds(-1_500));
        let response = alice.saves_primary_team(2).await;
        app.clock.advance(TimeDelta::seconds(3));
        let profile = alice.views_profile().await.expect_data(200);
        assert_eq!(profile["primary_team"]["id"], 1);
        assert_eq!(response.expect_data(200)["team"], profile["primary_team"]);
    }

    #[tokio::test]
    async fn the_team_is_saved_and_shown_in_the_profile() {
        let (_app, alice) = alice().await;
        let body = alice.saves_primary_team(1).await.expect(200);
        let team = json!({ "id": 1, "name": "Northgate Rovers", "logo": "https://example.org/1.png" });
        assert_eq!(body, json!({ "message": "Northgate Rovers is your team.", "data": { "team": team } }));
        assert_eq!(alice.views_profile().await.expect_data(200)["primary_team"], team);
        alice.saves_primary_team(2).await.expect(200);
        assert_eq!(alice.views_profile().await.expect_data(200)["primary_team"]["id"], 2);
    }

    /// Two requests can reach two environments. The clock of the second one may be behind the clock of the first one.
    #[tokio::test]
    async fn a_later_choice_counts_even_if_its_clock_is_behind() {
        let (app, alice) = alice().await;
        alice.saves_primary_team(1).await.expect(200);
        let first = app.store.chosen_team(UserId(alice.id)).await.unwrap().unwrap();
        app.clock.advance(TimeDelta::milliseconds(-900));
        alice.saves_primary_team(2).await.expect(200);
        let second = app.store.chosen_team(UserId(alice.id)).await.unwrap().unwrap();
        assert_eq!(second.team, 2);
        assert!(second.at > first.at, "the copies in memberships are compared by this time");
    }

    /// Each choice is copied into all rooms of the user.
    #[tokio::test]
    async fn a_user_can_choose_fifty_times_a_day() {
        let (app, alice) = alice().await;
        alice.saves_primary_team(99).await.expect_error(404, "team_not_found");
        for n in 0..50 {
            alice.saves_primary_team(1 + n % 2).await.expect(200);
        }
        let response = alice.saves_primary_team(1).await;
        response.expect_error(429, "rate_limited");
        assert_eq!(
            response.message(),
            "You can change your team 50 times a day. Try again after midnight UTC."
        );
        assert_eq!(alice.views_profile().await.expect_data(200)["primary_team"]["id"], 2);
        app.clock.advance(TimeDelta::days(1));
        alice.saves_primary_team(1).await.expect(200);
    }

    #[tokio::test]
    async fn unknown_teams_are_404() {
        let (_app, alice) = alice().await;
        for id in [99, 0, 4_000_000_000_u64, 99_999_999_999] {
            alice.saves_primary_team(0).field("team_id", id).await.expect_error(404, "team_not_found");
        }
        assert_eq!(alice.views_profile().await.expect_data(200)["primary_team"], json!(null));
    }

    #[tokio::test]
    async fn malformed_team_ids_are_422() {
        let (_app, alice) = alice().await;
        for (id, sentence) in [
            (json!("1"), "The field team_id must be an integer."),
            (json!(1.5), "The field team_id must be an integer."),
            (json!([1]), "The field team_id must be an integer."),
            (json!(true), "The field team_id must be an integer."),
            (json!(-1), "The field team_id must not be negative."),
            (json!(null), "The field team_id is required."),
        ] {
            let response = alice.saves_primary_team(0).field("team_id", id).await;
            response.expect_invalid(&["team_id"]);
            assert_eq!(response.message(), sentence);
        }
        assert_eq!(alice.views_profile().await.expect_data(200)["primary_team"], json!(null));
    }
}
