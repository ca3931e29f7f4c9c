//! The helpers that the endpoint tests share.

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::{Token, UserId};
use touchline_testing::{TestApp, User};

/// Starts an app with the sample league and the user alice (id 1). Match 1 kicks off in three hours.
pub async fn app() -> (TestApp, User) {
    app_with(&[]).await
}

/// Starts the same app as [`app`], with the given environment variables.
pub async fn app_with(variables: &[(&str, &str)]) -> (TestApp, User) {
    let mut builder = TestApp::serving(&[login::router, profile::router, crate::router]);
    for (name, value) in variables {
        builder = builder.variable(name, value);
    }
    let app = builder.start().await;
    import(&app, sample()).await;
    app.clock.advance(-TimeDelta::seconds(1));
    let alice = app.user("alice").await;
    (app, alice)
}

fn sample() -> Value {
    serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap()
}

pub async fn import(app: &TestApp, document: Value) {
    let report = app.invoke(feed::handle, document).await;
    assert_eq!(report["rejected"], 0, "{report}");
    app.clock.advance(TimeDelta::seconds(1));
}

/// Imports match 1 again, with changed fields.
pub async fn change_match(app: &TestApp, changes: Value) {
    let mut event = sample()["events"][0].clone();
    for (field, value) in changes.as_object().unwrap() {
        event[field] = value.clone();
    }
    import(app, json!({ "format": "touchline", "events": [event] })).await;
}

/// Returns the user `fan.<id>`, who has this id. The first call creates the user.
pub async fn fan(app: &TestApp, id: u32) -> User {
    let token = Token::new(UserId(id), [0; 32]);
    if app.store.session(&token).await.unwrap().is_none() {
        return app.user(&format!("fan.{id}")).id(id).await;
    }
    let user = json!({ "id": id, "username": format!("fan.{id}"), "phone": format!("+4477009{id:05}") });
    User::from_login(app, &json!({ "user": user, "token": token.as_str() }))
}

/// Delivers every change of the tables to `tally`, including changes that an earlier call delivered. `tally`
/// must not count these again.
pub async fn tally_all(app: &TestApp) {
    let tables = &app.config.tables;
    // The first delivery of `predictions` counts, and the second one adds up what was counted. For `rooms`, a delivery before
    // these two copies picks into memberships.
    for table in [&tables.predictions, &tables.predictions, &tables.rooms, &tables.rooms, &tables.rooms] {
        let report = app.invoke(tally::handle, app.changes(table).await).await;
        assert_eq!(report["batchItemFailures"], json!([]));
    }
}

/// Runs [`tally_all`], then returns the number of predictions that `tally` has counted for a match.
pub async fn counted(app: &TestApp, event: u32) -> i64 {
    tally_all(app).await;
    app.store.event_counts(event).await.unwrap().predictions
}

/// Returns the ids of the users in a list of predictions, in the order of the list.
pub fn user_ids(list: &Value) -> Vec<u64> {
    list["data"].as_array().unwrap().iter().map(|row| row["user"]["id"].as_u64().unwrap()).collect()
}
