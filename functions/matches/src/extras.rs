//! Describes matches together with what a request includes.

use std::collections::HashMap;

use futures_util::future::try_join;
use touchline::api::matches::{EventView, EventWithExtras, Include, Included};
use touchline::api::predictions::MyPrediction;
use touchline::domain::UserId;
use touchline::domain::catalog::{Catalog, Match};
use touchline::domain::pick_shares::PickShares;
use touchline::{App, Error};

/// Describes up to 100 matches, in the given order. Leaves out matches whose teams or tournament the catalog lacks.
pub async fn of(
    app: &App,
    caller: UserId,
    include: Include,
    catalog: &Catalog,
    events: &[&Match],
) -> Result<Vec<EventWithExtras>, Error> {
    let ids: Vec<u32> = events.iter().map(|event| event.id).collect();
    let own = async {
        if include.my_prediction {
            let events = events.iter().map(|event| (event.id, event.shards));
            app.store.predictions_for(caller, events).await
        } else {
            Ok(HashMap::new())
        }
    };
    let (totals, own) = try_join(app.store.totals_of_events(&ids), own).await?;
    let now = app.clock.now();
    let described = |event: &&Match| {
        let totals = totals.get(&event.id).copied().unwrap_or_default();
        let count = u64::try_from(totals.predictions).unwrap_or(0);
        let own = || own.get(&event.id).map(|row| MyPrediction::of(row, event));
        let picks = || {
            let are_hidden = app.config.picks_visible.hides(event, now);
            PickShares::of(&if are_hidden { totals.without_picks() } else { totals })
        };
        Some(EventWithExtras {
            event: EventView::of(event, catalog, count)?,
            my_prediction: Included::when(include.my_prediction, own),
            picks: Included::when(include.picks, picks),
        })
    };
    Ok(events.iter().filter_map(described).collect())
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::{Fault, TestApp, User};

    /// Starts an app with the sample league and the user alice (id 1). Match 1 kicks off in three hours.
    async fn app_with(variables: &[(&str, &str)]) -> (TestApp, User) {
        let mut builder = TestApp::serving(&[crate::router, predictions::router]);
        for (name, value) in variables {
            builder = builder.variable(name, value);
        }
        let app = builder.start().await;
        app.invoke(feed::handle, sample()).await;
        let alice = app.user("alice").await;
        (app, alice)
    }

    fn sample() -> Value {
        serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap()
    }

    /// Imports match 1 again, with changed fields.
    async fn change_match(app: &TestApp, changes: Value) {
        let mut event = sample()["events"][0].clone();
        for (field, value) in changes.as_object().unwrap() {
            event[field] = value.clone();
        }
        app.invoke(feed::handle, json!({ "format": "touchline", "events": [event] })).await;
        app.clock.advance(TimeDelta::seconds(1));
    }

    async fn count_predictions(app: &TestApp) {
        for _ in 0..2 {
            let changes = app.changes(&app.config.tables.predictions).await;
            app.invoke(tally::handle, changes).await;
        }
    }

    /// Lets a new user for each pick predict match 1, and counts the predictions.
    async fn fans_predict(app: &TestApp, picks: &[&str]) {
        for (n, pick) in picks.iter().enumerate() {
            let fan = app.user(&format!("fan.{n}.{}", app.store.draw_user_id().await.unwrap().0)).await;
            fan.predicts(1).pick(pick).await.expect(201);
        }
        count_predictions(app).await;
    }

    /// Returns a match of alice's list, and checks that the match alone has the same fields.
    async fn listed(alice: &User, event: u32, include: &str) -> Value {
        let rows = alice.lists_events().include(include).await.expect_data(200);
        let row = rows.as_array().unwrap().iter().find(|row| row["id"] == event).unwrap().clone();
        let one = alice.views_event(event).query("include", include).await.expect_data(200);
        assert_eq!(one, row);
        row
    }

    #[tokio::test]
    async fn matches_have_only_what_the_request_includes() {
        let (app, alice) = app_with(&[]).await;
        alice.predicts(1).home().score(2, 1).confidence(75).await.expect(201);
        count_predictions(&app).await;
        for (include, has_prediction, has_picks) in [
            ("my_prediction", true, false),
            ("picks", false, true),
            ("picks,my_prediction", true, true),
            ("my_prediction,picks", true, true),
        ] {
            for event in [1, 2] {
                let row = listed(&alice, event, include).await;
                let row = row.as_object().unwrap();
                assert_eq!(row.contains_key("my_prediction"), has_prediction, "{include}");
                assert_eq!(row.contains_key("picks"), has_picks, "{include}");
            }
        }
        let plain = alice.lists_events().await.expect_data(200);
        assert!(plain.as_array().unwrap().iter().all(|row| row.get("my_prediction").is_none()));
        assert!(plain.as_array().unwrap().iter().all(|row| row.get("picks").is_none()));
        for include in ["", "teams", "picks,teams", "picks,"] {
            alice.lists_events().include(include).await.expect_invalid(&["include"]);
            alice.views_event(1).query("include", include).await.expect_invalid(&["include"]);
        }
    }

    #[tokio::test]
    async fn my_prediction_is_the_callers_own_as_in_the_list_of_own_predictions() {
        let (app, alice) = app_with(&[]).await;
        let bob = app.user("bob").await;
        alice.predicts(1).home().score(2, 1).confidence(75).await.expect(201);
        bob.predicts(1).away().await.expect(201);
        bob.predicts(4).draw().await.expect(201);
        let own = async || {
            let mut own = alice.lists_own_predictions().await.expect_data(200)[0].clone();
            own.as_object_mut().unwrap().remove("event");
            own
        };
        let row = listed(&alice, 1, "my_prediction").await;
        assert_eq!(row["my_prediction"], own().await);
        assert_eq!(row["my_prediction"]["prediction"], "home");
        assert_eq!(row["my_prediction"]["score_prediction"], json!({ "home": 2, "away": 1 }));
        assert_eq!(listed(&alice, 4, "my_prediction").await["my_prediction"], Value::Null);
        assert_eq!(listed(&bob, 4, "my_prediction").await["my_prediction"]["prediction"], "draw");

        change_match(&app, json!({ "status": "finished", "home_score": 2, "away_score": 1 })).await;
        app.invoke(points::handle, json!({ "event_id": 1 })).await;
        let settled = listed(&alice, 1, "my_prediction").await["my_prediction"].clone();
        assert_eq!(settled, own().await);
        assert_eq!((&settled["points_earned"], &settled["reason"]), (&json!(4), &json!("exact")));
    }

    #[tokio::test]
    async fn picks_are_shares_of_all_predictions() {
        let (app, alice) = app_with(&[]).await;
        assert_eq!(listed(&alice, 1, "picks").await["picks"], Value::Null, "nobody has predicted the match");
        fans_predict(&app, &["home", "draw", "away"]).await;
        assert_eq!(listed(&alice, 1, "picks").await["picks"], json!({ "home": 34, "draw": 33, "away": 33 }));
        fans_predict(&app, &["away"]).await;
        let row = listed(&alice, 1, "picks").await;
        assert_eq!(row["picks"], json!({ "home": 25, "draw": 25, "away": 50 }));
        assert_eq!(row["predictions_count"], 4);
    }

    #[tokio::test]
    async fn picks_are_hidden_until_kick_off() {
        let (app, alice) = app_with(&[("PICKS_VISIBLE", "after_start")]).await;
        fans_predict(&app, &["home"; 6]).await;
        let row = listed(&alice, 1, "picks").await;
        assert_eq!((&row["picks"], &row["predictions_count"]), (&Value::Null, &json!(6)));
        app.clock.advance(TimeDelta::hours(3) - TimeDelta::milliseconds(1));
        assert_eq!(listed(&alice, 1, "picks").await["picks"], Value::Null);
        app.clock.advance(TimeDelta::milliseconds(1));
        assert_eq!(listed(&alice, 1, "picks").await["picks"], json!({ "home": 100, "draw": 0, "away": 0 }));
    }

    /// A stale catalog may not know that a match was postponed after its kick-off.
    #[tokio::test]
    async fn picks_are_503_while_the_head_of_the_catalog_cannot_be_read() {
        let (app, alice) = app_with(&[("PICKS_VISIBLE", "after_start")]).await;
        alice.lists_events().include("picks").await.expect(200);
        app.clock.advance(TimeDelta::seconds(2));
        let mut reads = 0;
        app.faults.set(move |attempt| {
            // The first read gets the session and succeeds. The second read, of the catalog's head, fails.
            reads += u32::from(attempt.operation == "GetItem" && attempt.number == 1);
            if attempt.operation == "GetItem" && reads > 1 { Fault::Throttle } else { Fault::None }
        });
        alice.lists_events().include("picks").await.expect_error(503, "busy");
    }

    #[tokio::test]
    async fn own_predictions_are_read_in_one_batch_beside_the_totals() {
        let (_app, alice) = app_with(&[]).await;
        alice.lists_events().await.expect(200);
        let response = alice.lists_events().include("my_prediction,picks").await;
        // The session, and then two batches at once: the totals of four matches and the predictions for them.
        assert_eq!(response.header("x-touchline-cost"), Some("calls=3 rounds=2 rcu=4.5 wcu=0"));
        let response = alice.lists_events().include("picks").await;
        assert_eq!(response.header("x-touchline-cost"), Some("calls=2 rounds=2 rcu=2.5 wcu=0"));
    }
}
