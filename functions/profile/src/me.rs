use touchline::api::Data;
use touchline::api::profile::{Me, WholeUser};
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

use crate::no_profile::NO_PROFILE;

pub async fn handle(app: App, call: Call<Me>) -> Result<Reply<Data<WholeUser>>, Error> {
    let user = app.store.user(call.caller.user, Reads::Consistent).await?.ok_or(NO_PROFILE)?;
    // Without teams there is nothing to look up in the catalog.
    let catalog = if user.primary_team.is_some() || !user.other_teams.is_empty() {
        Some(app.teams().await?)
    } else {
        None
    };
    Ok(Data { data: WholeUser::of(user, catalog.as_deref()) }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::json;
    use touchline_testing::{Fault, Response, TestApp};

    #[tokio::test]
    async fn the_response_has_every_field_of_the_profile() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let ada = app.user("ada").await;
        let update = ada.updates_profile().name("Ada").email("ada@example.org").date_of_birth("2000-02-29");
        update.await.expect(200);
        assert_eq!(
            ada.views_profile().await.expect(200),
            json!({ "data": {
                "id": 1,
                "phone": ada.phone,
                "username": "ada",
                "created_at": "2026-11-15T12:00:00Z",
                "name": "Ada",
                "email": "ada@example.org",
                "date_of_birth": "2000-02-29",
                "primary_team": null,
                "other_teams": [],
            }})
        );
    }

    #[tokio::test]
    async fn a_session_expires_thirty_days_after_its_last_use() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let alice = app.user("alice").await;
        for _ in 0..3 {
            app.clock.advance(TimeDelta::days(29));
            alice.views_profile().await.expect(200);
        }
        app.clock.advance(TimeDelta::days(30) - TimeDelta::seconds(1));
        alice.views_profile().await.expect(200);
        app.clock.advance(TimeDelta::days(30));
        alice.views_profile().await.expect_error(401, "token_expired");
    }

    #[tokio::test]
    async fn a_session_that_cannot_be_renewed_is_still_valid() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let alice = app.user("alice").await;
        app.clock.advance(TimeDelta::days(2));
        app.faults.set(
            |attempt| {
                if attempt.operation == "UpdateItem" { Fault::FailBefore } else { Fault::None }
            },
        );
        alice.views_profile().await.expect(200);
    }

    #[tokio::test]
    async fn a_session_is_renewed_at_most_once_a_day() {
        let app = TestApp::serving(&[crate::router]).start().await;
        let alice = app.user("alice").await;
        let is_renewed = |response: Response| response.header("x-touchline-cost").unwrap().ends_with("wcu=1");
        assert!(!is_renewed(alice.views_profile().await));
        app.clock.advance(TimeDelta::days(1));
        assert!(is_renewed(alice.views_profile().await));
        assert!(!is_renewed(alice.views_profile().await));
    }
}
