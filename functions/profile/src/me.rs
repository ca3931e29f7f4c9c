use futures_util::future::try_join3;
use touchline::api::Data;
use touchline::api::profile::{Me, WholeUser};
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply};

use crate::no_profile::NO_PROFILE;

pub async fn handle(app: App, call: Call<Me>) -> Result<Reply<Data<WholeUser>>, Error> {
    let caller = call.caller.user;
    let (user, stats, wallet) = try_join3(
        app.store.user(caller, Reads::Consistent),
        app.store.user_stats(caller),
        app.store.wallet(caller),
    )
    .await?;
    let user = user.ok_or(NO_PROFILE)?;
    // Without teams there is nothing to look up in the catalog.
    let catalog = if user.primary_team.is_some() || !user.other_teams.is_empty() {
        Some(app.teams().await?)
    } else {
        None
    };
    Ok(Data { data: WholeUser::of(user, catalog.as_deref(), &stats, wallet.balance) }.into())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::{Fault, Response, TestApp, User};

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
                "is_username_locked": false,
                "created_at": "2026-11-15T12:00:00Z",
                "name": "Ada",
                "email": "ada@example.org",
                "date_of_birth": "2000-02-29",
                "primary_team": null,
                "other_teams": [],
                "stats": { "settled": 0, "correct": 0, "points": 0, "accuracy": 0.0 },
                "balance": 0,
            }})
        );
    }

    #[tokio::test]
    async fn the_response_has_the_statistics_and_the_balance() {
        let routers = [crate::router, predictions::router, coins::router];
        let app = TestApp::serving(&routers).start().await;
        let mut league: Value =
            serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
        app.invoke(feed::handle, league.clone()).await;
        let (alice, bob) = (app.user("alice").await, app.user("bob").await);
        alice.claims_daily_coins().await.expect(200);
        alice.predicts(1).home().score(2, 1).await.expect(201);
        alice.predicts(4).draw().await.expect(201);
        bob.predicts(1).away().await.expect(201);
        league["as_of"] = json!("2026-11-15T12:00:00Z");
        for event in [0, 3] {
            league["events"][event]["status"] = json!("finished");
            league["events"][event]["home_score"] = json!(2);
            league["events"][event]["away_score"] = json!(1);
        }
        app.invoke(feed::handle, league).await;
        for event in [1, 4] {
            app.invoke(points::handle, json!({ "event_id": event })).await;
        }
        app.invoke(tally::handle, app.changes(&app.config.tables.predictions).await).await;
        let stats_and_balance = async |user: &User| {
            let profile = user.views_profile().await.expect_data(200);
            (profile["stats"].clone(), profile["balance"].clone())
        };
        assert_eq!(
            stats_and_balance(&alice).await,
            (json!({ "settled": 2, "correct": 1, "points": 4, "accuracy": 0.5 }), json!(10))
        );
        assert_eq!(
            stats_and_balance(&bob).await,
            (json!({ "settled": 1, "correct": 0, "points": 0, "accuracy": 0.0 }), json!(0))
        );
        // The session, and then the user, the statistics and the wallet at once.
        let cost = alice.views_profile().await.header("x-touchline-cost").map(str::to_owned);
        assert_eq!(cost.as_deref(), Some("calls=4 rounds=2 rcu=3 wcu=0"));
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
