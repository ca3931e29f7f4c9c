use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline_testing::TestApp;

async fn app() -> TestApp {
    let routers = [crate::router, chat::router, teams::router, predictions::router];
    let app = TestApp::serving(&routers).start().await;
    let league = serde_json::from_str(include_str!("../../../../events/feed/touchline.json")).unwrap();
    app.invoke(feed::handle, league).await;
    app
}

/// Returns a match, as a row for `feed`. Match `id` begins `id` hours after midnight.
fn row(id: u32, more: &Value) -> Value {
    let start = format!("2026-11-20T{:02}:00:00Z", id - 100);
    let mut row = json!({
        "id": id, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2, "start_time": start, "status": "scheduled",
    });
    for (field, value) in more.as_object().unwrap() {
        row[field] = value.clone();
    }
    row
}

async fn import(app: &TestApp, rows: Vec<Value>) {
    app.invoke(feed::handle, json!({ "format": "touchline", "events": rows })).await;
    app.clock.advance(TimeDelta::seconds(2));
}

#[tokio::test]
async fn a_profile_has_the_public_fields_by_id_and_by_username() {
    let app = app().await;
    let [alice, bob] = [app.user("alice").await, app.user("bob").await];
    let update = bob.updates_profile().name("Bob B").email("bob@example.org").date_of_birth("1990-05-17");
    update.await.expect(200);
    let expected = |team: Value| {
        json!({ "data": {
            "id": bob.id, "username": "bob", "name": "Bob B", "primary_team": team,
            "member_since": "2026-11-15T12:00:00Z",
            "record": { "settled": 0, "correct": 0, "points": 0, "accuracy": 0.0 }, "form": [],
            "ranks": { "all": null, "season": null, "month": null },
        }})
    };
    assert_eq!(alice.views_user(bob.id).await.expect(200), expected(Value::Null));
    bob.saves_primary_team(1).await.expect(200);
    let team = bob.views_profile().await.expect_data(200)["primary_team"].clone();
    assert!(team["name"].is_string());
    for user in [bob.id.to_string(), "bob".into(), "BOB".into()] {
        assert_eq!(alice.views_user(&user).await.expect(200), expected(team.clone()), "{user}");
        assert_eq!(bob.views_user(&user).await.expect(200), expected(team.clone()), "the own profile");
    }
}

#[tokio::test]
async fn the_form_has_the_last_five_finished_matches() {
    let app = app().await;
    let [alice, bob] = [app.user("alice").await, app.user("bob").await];
    import(&app, (101..=110).map(|id| row(id, &json!({}))).collect()).await;
    // Bob predicts the matches in another order than that of their kick-offs.
    for id in (101..=110).rev() {
        app.clock.advance(TimeDelta::milliseconds(1));
        bob.predicts(id).home().score(2, 1).await.expect(201);
    }
    // 101 to 105 are exact, difference, outcome, miss and exact; 106 is abandoned, 107 a miss, and the others are not finished.
    let result =
        |home: u32, away: u32| json!({ "status": "finished", "home_score": home, "away_score": away });
    let rows = vec![
        row(101, &result(2, 1)),
        row(102, &result(1, 0)),
        row(103, &result(3, 0)),
        row(104, &result(0, 0)),
        row(105, &result(2, 1)),
        row(106, &json!({ "status": "abandoned" })),
        row(107, &result(0, 3)),
    ];
    import(&app, rows).await;
    // The points are not calculated yet.
    assert_eq!(alice.views_user(bob.id).await.expect_data(200)["form"], json!([]));
    for id in 101..=107 {
        app.invoke(points::handle, json!({ "event_id": id })).await;
    }
    let predictions = &app.config.tables.predictions;
    app.invoke(tally::handle, app.changes(predictions).await).await;
    let profile = alice.views_user(bob.id).await.expect_data(200);
    assert_eq!(profile["form"], json!(["miss", "exact", "miss", "outcome", "difference"]));
    let record = json!({ "settled": 6, "correct": 4, "points": 13, "accuracy": 0.6667 });
    assert_eq!(profile["record"], record);
    // The leaderboards are built after the statistics.
    assert_eq!(profile["ranks"], json!({ "all": null, "season": null, "month": null }));
    app.invoke(tally::handle, app.changes(predictions).await).await;
    app.invoke(standings::handle, json!({})).await;
    let profile = alice.views_user(bob.id).await.expect_data(200);
    assert_eq!(profile["ranks"], json!({ "all": 1, "season": 1, "month": 1 }));
    app.clock.advance(TimeDelta::days(20));
    let profile = alice.views_user(bob.id).await.expect_data(200);
    assert_eq!(profile["ranks"], json!({ "all": 1, "season": 1, "month": null }));
}

#[tokio::test]
async fn the_form_follows_the_kick_offs_and_not_the_times_of_the_predictions() {
    let app = app().await;
    let [alice, bob] = [app.user("alice").await, app.user("bob").await];
    import(&app, (101..=121).map(|id| row(id, &json!({}))).collect()).await;
    // The last match is the one that bob predicts first.
    for id in [121].into_iter().chain(101..=120) {
        app.clock.advance(TimeDelta::milliseconds(1));
        bob.predicts(id).home().score(2, 1).await.expect(201);
    }
    let result =
        |id| json!({ "status": "finished", "home_score": u32::from(id == 121) * 2, "away_score": 1 });
    import(&app, (101..=121).map(|id| row(id, &result(id))).collect()).await;
    for id in 101..=121 {
        app.invoke(points::handle, json!({ "event_id": id })).await;
    }
    let profile = alice.views_user(bob.id).await.expect_data(200);
    assert_eq!(profile["form"], json!(["exact", "miss", "miss", "miss", "miss"]));
}

#[tokio::test]
async fn unknown_suspended_and_blocking_users_have_the_same_error() {
    let app = app().await;
    let [alice, bob, carol] = [app.user("alice").await, app.user("bob").await, app.user("carol").await];
    bob.blocks(alice.id).await.expect(200);
    app.store.suspend_user(UserId(carol.id), app.clock.now()).await.unwrap();
    let mut bodies = Vec::new();
    for user in ["999", "nobody", "a", "4294967296", "%00", "bob", "carol"] {
        let response = alice.views_user(user).await;
        response.expect_error(404, "user_not_found");
        bodies.push(response.body);
    }
    for user in [bob.id, carol.id] {
        alice.views_user(user).await.expect_error(404, "user_not_found");
    }
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    // The user who has blocked another still sees the profile.
    bob.views_user(alice.id).await.expect(200);
    bob.unblocks(alice.id).await.expect(200);
    alice.views_user("bob").await.expect(200);
}
