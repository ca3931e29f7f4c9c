//! Predictions: making one, a match's, a room's, one's own.

mod event_predictions;
mod own_predictions;
mod predict;
mod room_predictions;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app)
        .on(predict::handle)
        .on(own_predictions::handle)
        .on(event_predictions::handle)
        .on(room_predictions::handle)
}

/// What the tests of the endpoints share.
#[cfg(test)]
mod testing {
    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline::domain::Pick;
    use touchline::domain::UserId;
    use touchline::domain::prediction::{Confidence, Forecast, Stamp};
    use touchline::storage::Reads;
    use touchline::storage::predictions::NewPrediction;
    use touchline_testing::TestApp;

    pub const PATH: &str = "/api/auth/predictions";

    /// The sample league, imported, and user 1 logged in.
    pub async fn app() -> (TestApp, String) {
        app_with(&[]).await
    }

    pub async fn app_with(variables: &[(&str, &str)]) -> (TestApp, String) {
        let mut builder = TestApp::serving(&[login::router, profile::router, crate::router]);
        for (name, value) in variables {
            builder = builder.variable(name, value);
        }
        let app = builder.start().await;
        import(&app, sample()).await;
        app.clock.advance(-TimeDelta::seconds(1));
        let token = app.token("+447700900123").await;
        (app, token)
    }

    fn sample() -> Value {
        serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap()
    }

    pub async fn import(app: &TestApp, document: Value) {
        let report = feed::handle(app.app.clone(), document).await.unwrap();
        assert_eq!(report["rejected"], 0, "{report}");
        app.clock.advance(TimeDelta::seconds(1));
    }

    /// Changes the sample's first match.
    pub async fn set_event(app: &TestApp, changes: Value) {
        let mut event = sample()["events"][0].clone();
        for (field, value) in changes.as_object().unwrap() {
            event[field] = value.clone();
        }
        import(app, json!({ "format": "touchline", "events": [event] })).await;
    }

    /// Somebody predicts, without the trouble of logging in.
    pub async fn predicted(app: &TestApp, user: u32, event: u32, pick: &str) {
        let (store, now) = (&app.app.store, app.app.clock.now());
        if store.user(UserId(user), Reads::Consistent).await.unwrap().is_none() {
            app.register(user).await;
        }
        let shards = app.app.catalog().await.unwrap().event(event).unwrap().shards;
        let new = NewPrediction {
            event_id: event,
            shards,
            user_id: UserId(user),
            forecast: Forecast::new(Pick::parse(pick).unwrap(), None).unwrap(),
            confidence: Confidence::default(),
            stamp: Stamp::new(now, user),
        };
        store.predict(&new).await.unwrap();
    }

    /// Lets `tally` see every change there ever was, once more.
    pub async fn tallied(app: &TestApp) {
        let tables = &app.app.config.tables;
        // Twice: what it notes with members is a change as well.
        for table in [&tables.predictions, &tables.rooms, &tables.rooms] {
            let answer = tally::handle(app.app.clone(), app.changes(table).await).await.unwrap();
            assert_eq!(answer["batchItemFailures"], json!([]));
        }
    }

    /// How many predictions a match has.
    pub async fn count(app: &TestApp, event: u32) -> i64 {
        tallied(app).await;
        app.app.store.event_counts(event).await.unwrap().predictions
    }
}
