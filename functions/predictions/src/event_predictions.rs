use futures_util::future::try_join;
use touchline::api::Cursor;
use touchline::api::predictions::{
    AfterPredictor, EventPredictionList, EventPredictionMeta, EventPredictions, ListedPrediction,
};
use touchline::config::PicksVisible;
use touchline::storage::Reads;
use touchline::storage::pages::Page;
use touchline::storage::predictions::PredictionQuery;
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<EventPredictions>) -> Result<Reply<EventPredictionList>, Error> {
    let id = call.path.event.0;
    let (input, caller) = (call.input, call.caller.user);
    let counts = async { app.store.event_counts(id).await.map_err(Error::from) };
    let (catalog, counts) = try_join(app.catalog(), counts).await?;
    let event = catalog.event(id).ok_or(Error::EventNotFound)?;
    let after = input.cursor.map(|cursor| cursor.position_in(id)).transpose()?.map(|after| after.0);

    let secret =
        app.config.picks_visible == PicksVisible::AfterStart && !event.has_kicked_off(app.clock.now());
    // One row at most, where somebody's own is asked for or nobody else's is shown.
    let only = match (secret, input.user_id) {
        (true, Some(user)) if user != caller => Only::Nobody,
        (true, _) => Only::User(caller),
        (false, Some(user)) => Only::User(user),
        (false, None) => Only::All,
    };
    let page = match only {
        Only::Nobody => Page::default(),
        Only::User(user) => {
            let row = app.store.prediction(id, event.shards, user, Reads::Eventual).await?;
            let wanted = |pick| input.prediction.is_none_or(|wanted| wanted == pick);
            let rows = row.into_iter().filter(|row| wanted(row.forecast.pick()));
            Page { rows: rows.filter(|_| after.is_none()).collect(), next: None }
        }
        Only::All => {
            let query = PredictionQuery {
                event_id: id,
                shards: event.shards,
                pick: input.prediction,
                after,
                limit: input.per_page.0,
                estimated_total: usize::try_from(counts.predictions).unwrap_or(0),
            };
            app.store.predictions_page(&query).await?
        }
    };
    let users: Vec<_> = page.rows.iter().map(|row| row.user_id).collect();
    let people = app.store.people(&users).await?;
    let data = ListedPrediction::all(&page.rows, &people);
    let next = page.next.map(|user| Cursor::new(id, AfterPredictor(user)));
    Ok(EventPredictionList { data, meta: EventPredictionMeta::of(&counts, next.as_ref()) }.into())
}

enum Only {
    All,
    User(touchline::domain::UserId),
    Nobody,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::TestApp;

    use crate::testing::{PATH, app, app_with, count, predicted, set_event};

    const LIST: &str = "/api/auth/events/1/predictions";

    async fn list(app: &TestApp, token: &str, query: &str) -> Value {
        app.get_as(token, &format!("{LIST}?{query}")).await.expect(200)
    }

    fn users(list: &Value) -> Vec<u64> {
        list["data"].as_array().unwrap().iter().map(|row| row["user"]["id"].as_u64().unwrap()).collect()
    }

    #[tokio::test]
    async fn everybody_with_names_and_totals() {
        let (app, token) = app().await;
        let answer = app
            .post_as(&token, "/api/auth/update-user-info", json!({ "name": "Ada", "username": "ada" }))
            .await;
        let _ = answer.expect(200);
        let body = json!({
            "event_id": 1, "prediction": "home", "score_prediction": { "home": 2, "away": 1 }, "confidence": 75,
        });
        let made = app.post_as(&token, PATH, body).await.expect(201);
        predicted(&app, 2, 1, "draw").await;
        count(&app, 1).await;
        let list = list(&app, &token, "").await;
        assert_eq!(
            list["meta"],
            json!({
                "total_predictions": 2, "prediction_distribution": { "home": 1, "draw": 1, "away": 0 },
                "average_confidence": 62.5, "next_cursor": null,
            })
        );
        let own = list["data"].as_array().unwrap().iter().find(|row| row["user"]["id"] == 1).unwrap();
        assert_eq!(
            own,
            &json!({
                "id": made["data"]["id"], "user": { "id": 1, "username": "ada", "name": "Ada" },
                "prediction": "home", "score_prediction": { "home": 2, "away": 1 }, "confidence": 75,
                "points_earned": null, "created_at": "2026-11-15T12:00:00Z",
            })
        );
    }

    #[tokio::test]
    async fn filters_narrow_the_rows_and_not_the_totals() {
        let (app, token) = app().await;
        for (user, pick) in [(2, "home"), (3, "draw"), (4, "home"), (5, "away")] {
            predicted(&app, user, 1, pick).await;
        }
        count(&app, 1).await;
        let total = json!({ "home": 2, "draw": 1, "away": 1 });
        for (query, expected) in [
            ("prediction=home", vec![2, 4]),
            ("prediction=away", vec![5]),
            ("user_id=3", vec![3]),
            ("user_id=3&prediction=home", vec![]),
            ("user_id=4&prediction=home", vec![4]),
            ("user_id=99", vec![]),
            ("user_id=4000000000", vec![]),
        ] {
            let list = list(&app, &token, query).await;
            let found: BTreeSet<_> = users(&list).into_iter().collect();
            assert_eq!(found, expected.into_iter().collect(), "{query}");
            assert_eq!(list["meta"]["prediction_distribution"], total);
            assert_eq!(list["meta"]["total_predictions"], 4);
        }
    }

    /// Pages of every size hold every row once, on many shards and on few, filtered or not.
    #[tokio::test]
    async fn pages_hold_every_row_once() {
        let (app, token) = app().await;
        for user in 2..=90 {
            predicted(&app, user, 1, ["home", "draw", "away"][user as usize % 3]).await;
        }
        count(&app, 1).await;
        for (query, expected) in [("", 89), ("prediction=draw", 29)] {
            for per_page in [1, 7, 50, 89, 100] {
                if per_page == 1 && query.is_empty() {
                    continue;
                }
                let mut seen = Vec::new();
                let mut cursor = String::new();
                loop {
                    let page = list(&app, &token, &format!("{query}&per_page={per_page}{cursor}")).await;
                    assert!(users(&page).len() <= per_page);
                    seen.extend(users(&page));
                    match page["meta"]["next_cursor"].as_str() {
                        Some(next) => cursor = format!("&cursor={next}"),
                        None => break,
                    }
                }
                let distinct: BTreeSet<_> = seen.iter().collect();
                assert_eq!((seen.len(), distinct.len()), (expected, expected), "{query} by {per_page}");
            }
        }
    }

    #[tokio::test]
    async fn before_kick_off_a_deployment_may_hide_what_others_predict() {
        let (app, token) = app_with(&[("PICKS_VISIBLE", "after_start")]).await;
        let _ = app.post_as(&token, PATH, json!({ "event_id": 1, "prediction": "home" })).await.expect(201);
        predicted(&app, 2, 1, "draw").await;
        count(&app, 1).await;
        for (query, expected) in
            [("", vec![1]), ("user_id=2", vec![]), ("user_id=1", vec![1]), ("prediction=draw", vec![])]
        {
            let list = list(&app, &token, query).await;
            assert_eq!(users(&list), expected, "{query}");
            assert_eq!(list["meta"]["total_predictions"], 2, "totals stay");
        }
        set_event(&app, json!({ "status": "postponed" })).await;
        app.clock.advance(TimeDelta::hours(3));
        assert_eq!(users(&list(&app, &token, "").await), [1], "a postponed match will open again");
        set_event(&app, json!({ "status": "scheduled" })).await;
        assert_eq!(users(&list(&app, &token, "").await).len(), 2);
        assert_eq!(users(&list(&app, &token, "user_id=2").await), [2]);
    }

    #[tokio::test]
    async fn nonsense_is_named() {
        let (app, token) = app().await;
        let own = format!("o1.{}", "1763208000000-00000000");
        for (query, field) in [
            ("user_id=x", "user_id"),
            ("user_id=1.5", "user_id"),
            ("user_id=-1", "user_id"),
            ("prediction=win", "prediction"),
            ("per_page=0", "per_page"),
            ("per_page=101", "per_page"),
            ("cursor=nonsense", "cursor"),
            ("cursor=", "cursor"),
            ("cursor=e2.7", "cursor"),
            (&format!("cursor={own}"), "cursor"),
        ] {
            let answer = app.get_as(&token, &format!("{LIST}?{query}")).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"][field][0].is_string(), "{query}: {}", answer.body);
        }
        for event in ["404", "x", "0", "-1"] {
            let path = format!("/api/auth/events/{event}/predictions");
            app.get_as(&token, &path).await.expect_error(404, "event_not_found");
        }
    }
}
