use lambda_http::http::StatusCode;
use touchline::api::predictions::{Predict, PredictionView};
use touchline::api::{Invalid, Message};
use touchline::domain::prediction::{Forecast, PredictionsClosed, ScoreContradictsPick, Stamp};
use touchline::storage::predictions::{NewPrediction, Predicted};
use touchline::{App, Call, Error, Reply};

pub async fn handle(app: App, call: Call<Predict>) -> Result<Reply<Message<PredictionView>>, Error> {
    let input = call.input;
    let forecast = match Forecast::new(input.prediction, input.score_prediction) {
        Ok(forecast) => forecast,
        Err(contradiction) => return Err(explain(&app, input.event_id.0, contradiction).await.into()),
    };
    let catalog = app.catalog().await?;
    let event = catalog.event(input.event_id.0).ok_or(Error::EventNotFound)?;
    let now = app.clock.now();
    event.admits_predictions(now)?;

    let new = NewPrediction {
        event_id: event.id,
        shards: event.shards,
        user_id: call.caller.user,
        forecast,
        confidence: input.confidence,
        stamp: Stamp::new(now, app.random.number()),
    };
    let (status, message, row) = match app.store.predict(&new).await? {
        Predicted::Created(row) => (StatusCode::CREATED, "Prediction saved.", row),
        Predicted::Updated(row) => (StatusCode::OK, "Prediction updated.", row),
        Predicted::Settled => return Err(PredictionsClosed.into()),
    };
    let body = Message { message: message.into(), data: PredictionView::of(&row) };
    Ok(Reply::new(status, body))
}

/// The sentence for a score that contradicts the pick, with the names of the teams if they are known.
async fn explain(app: &App, event: u32, contradiction: ScoreContradictsPick) -> Invalid {
    let catalog = app.catalog().await.ok();
    let event = catalog.as_ref().and_then(|catalog| catalog.event(event));
    let name = |team: Option<u32>| catalog.as_ref()?.team(team?).map(|team| team.name.clone());
    let home = name(event.map(|event| event.home_team_id));
    let away = name(event.map(|event| event.away_team_id));
    let sentence = contradiction
        .sentence(home.as_deref().unwrap_or("the home team"), away.as_deref().unwrap_or("the away team"));
    Invalid::field("score_prediction", sentence)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::{Fault, TestApp, at_once};

    use crate::testing::{PATH, app, count, set_event};

    #[tokio::test]
    async fn first_it_is_made_then_it_is_changed() {
        let (app, token) = app().await;
        let body = json!({
            "event_id": 1, "prediction": "home", "score_prediction": { "home": 2, "away": 1 }, "confidence": 75,
        });
        let made = app.post_as(&token, PATH, body).await.expect(201);
        assert_eq!(
            made,
            json!({
                "message": "Prediction saved.",
                "data": {
                    "id": made["data"]["id"], "user_id": 1, "event_id": 1, "prediction": "home",
                    "score_prediction": { "home": 2, "away": 1 }, "confidence": 75,
                    "points_earned": null, "created_at": "2026-11-15T12:00:00Z",
                },
            })
        );
        app.clock.advance(TimeDelta::minutes(1));
        let changed =
            app.post_as(&token, PATH, json!({ "event_id": 1, "prediction": "draw" })).await.expect(200);
        assert_eq!(
            changed["data"],
            json!({
                "id": made["data"]["id"], "user_id": 1, "event_id": 1, "prediction": "draw",
                "score_prediction": null, "confidence": 50, "points_earned": null,
                "created_at": "2026-11-15T12:00:00Z",
            })
        );
        assert_eq!(count(&app, 1).await, 1);
    }

    #[tokio::test]
    async fn open_until_the_last_millisecond_before_kick_off() {
        let (app, token) = app().await;
        let predict =
            async || app.post_as(&token, PATH, json!({ "event_id": 1, "prediction": "away" })).await;
        // The sample's match starts at 15:00; it is noon.
        app.clock.advance(TimeDelta::hours(3) - TimeDelta::milliseconds(1));
        let _ = predict().await.expect(201);
        app.clock.advance(TimeDelta::milliseconds(1));
        predict().await.expect_error(400, "event_started");
    }

    #[tokio::test]
    async fn a_new_start_moves_the_window() {
        let (app, token) = app().await;
        let predict =
            async || app.post_as(&token, PATH, json!({ "event_id": 1, "prediction": "away" })).await;
        let _ = predict().await.expect(201);
        app.clock.advance(TimeDelta::hours(3));
        predict().await.expect_error(400, "event_started");
        set_event(&app, json!({ "status": "postponed", "start_time": "2026-11-20T15:00:00Z" })).await;
        let _ = predict().await.expect(200);
        app.clock.advance(TimeDelta::days(5));
        predict().await.expect_error(400, "event_started");
    }

    #[tokio::test]
    async fn what_has_begun_is_over_or_void_is_closed() {
        let (app, token) = app().await;
        let predict = async |event: u32| {
            app.post_as(&token, PATH, json!({ "event_id": event, "prediction": "home" })).await
        };
        for event in [2, 3] {
            predict(event).await.expect_error(400, "event_started");
        }
        for status in ["cancelled", "abandoned", "awarded", "live"] {
            set_event(&app, json!({ "status": status })).await;
            predict(1).await.expect_error(400, "event_started");
        }
        for event in [404, 0, u32::MAX] {
            predict(event).await.expect_error(404, "event_not_found");
        }
        assert_eq!(count(&app, 1).await, 0);
    }

    #[tokio::test]
    async fn nonsense_is_named() {
        let (app, token) = app().await;
        let fits = json!({
            "event_id": 1, "prediction": "home", "score_prediction": { "home": 2, "away": 1 }, "confidence": 75,
        });
        let score = |score: Value| ("score_prediction", score);
        for (field, value) in [
            ("event_id", json!("1")),
            ("event_id", json!(null)),
            ("event_id", json!(1.5)),
            ("prediction", json!("win")),
            ("prediction", json!("Home")),
            ("prediction", json!(null)),
            ("prediction", json!(1)),
            ("confidence", json!(101)),
            ("confidence", json!(-1)),
            ("confidence", json!(50.5)),
            ("confidence", json!("50")),
            score(json!({ "home": 2 })),
            score(json!({ "away": 2 })),
            score(json!({})),
            score(json!({ "home": -1, "away": 0 })),
            score(json!({ "home": 100, "away": 0 })),
            score(json!({ "home": "2", "away": "1" })),
            score(json!({ "home": 2.5, "away": 1 })),
            score(json!({ "home": 2, "away": null })),
            score(json!([2, 1])),
            score(json!("2-1")),
            // Contradicts the pick.
            score(json!({ "home": 1, "away": 1 })),
            score(json!({ "home": 1, "away": 2 })),
        ] {
            let mut body = fits.clone();
            body[field] = value;
            let answer = app.post_as(&token, PATH, body.clone()).await;
            answer.expect_error(422, "validation_error");
            let named: Vec<_> = answer.body["errors"].as_object().unwrap().keys().collect();
            assert_eq!(named, [field], "{body}");
        }
        let answer = app.post_as(&token, PATH, json!({})).await;
        assert_eq!(
            answer.expect(422)["errors"],
            json!({ "event_id": ["is required"], "prediction": ["is required"] })
        );
        assert_eq!(count(&app, 1).await, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn fifty_at_once_are_one_prediction() {
        let (app, token) = app().await;
        let app = Arc::new(app);
        let answers = at_once(50, |n| {
            let (app, token) = (Arc::clone(&app), token.clone());
            let pick = ["home", "draw", "away"][n % 3];
            async move { app.post_as(&token, PATH, json!({ "event_id": 1, "prediction": pick })).await }
        })
        .await;
        assert_eq!(answers.iter().filter(|answer| answer.status == 201).count(), 1);
        assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 49);
        assert_eq!(count(&app, 1).await, 1);
    }

    /// The SDK sends it again; it was made all the same, and once.
    #[tokio::test]
    async fn a_lost_answer_is_still_a_new_prediction() {
        for fault in [Fault::LoseReply, Fault::LoseRequest, Fault::Throttle, Fault::Conflict] {
            let (app, token) = app().await;
            app.faults.set(move |attempt| {
                if attempt.operation == "UpdateItem" && attempt.number == 1 { fault } else { Fault::None }
            });
            let body = json!({ "event_id": 1, "prediction": "home" });
            let _ = app.post_as(&token, PATH, body.clone()).await.expect(201);
            let _ = app.post_as(&token, PATH, body).await.expect(200);
            app.faults.clear();
            assert_eq!(count(&app, 1).await, 1, "{fault:?}");
        }
    }

    /// One call and one unit (and one of the index, when it is new), however many predicted before.
    #[tokio::test]
    async fn the_price_does_not_depend_on_the_crowd() {
        let (app, token) = app().await;
        let price = async |app: &TestApp, token: &str| {
            let answer = app.post_as(token, PATH, json!({ "event_id": 1, "prediction": "home" })).await;
            answer.headers["x-touchline-cost"].to_str().unwrap().to_owned()
        };
        let alone = (price(&app, &token).await, price(&app, &token).await);
        for n in 0..60 {
            let token = app.token(&format!("+4477009011{n:02}")).await;
            let _ = price(&app, &token).await;
        }
        let token = app.token("+447700900555").await;
        // The catalog is still fresh: the session and the row.
        assert_eq!(price(&app, &token).await, "calls=2 rounds=2 rcu=0.5 wcu=2");
        assert_eq!(price(&app, &token).await, "calls=2 rounds=2 rcu=0.5 wcu=1");
        assert!(alone.0.ends_with("wcu=2") && alone.1.ends_with("wcu=1"), "{alone:?}");
    }
}
