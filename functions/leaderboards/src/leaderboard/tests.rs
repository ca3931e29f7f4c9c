use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline::domain::standings::table::Table;
use touchline::domain::standings::{Board, Row};
use touchline::domain::tally::UserStats;
use touchline_testing::{TestApp, User};

/// Starts an app with the sample league. Match 1 is on 15 November 2026 at 15:00 in tournament 1.
pub(super) async fn app() -> TestApp {
    let app = TestApp::serving(&[crate::router, predictions::router, chat::router]).start().await;
    import(&app, sample()).await;
    app
}

pub(super) fn sample() -> Value {
    serde_json::from_str(include_str!("../../../../events/feed/touchline.json")).unwrap()
}

pub(super) async fn import(app: &TestApp, document: Value) {
    app.invoke(feed::handle, document).await;
    app.clock.advance(TimeDelta::seconds(1));
}

/// Gives match 1 a result and builds the boards.
pub(super) async fn settle(app: &TestApp, (home, away): (u16, u16)) {
    let mut event = sample()["events"][0].clone();
    event["status"] = json!("finished");
    (event["home_score"], event["away_score"]) = (json!(home), json!(away));
    import(app, json!({ "format": "touchline", "events": [event] })).await;
    app.clock.advance(TimeDelta::minutes(1));
    app.invoke(points::handle, json!({ "event_id": 1 })).await;
    count(app).await;
}

pub(super) async fn count(app: &TestApp) {
    for _ in 0..2 {
        app.invoke(tally::handle, app.changes(&app.config.tables.predictions).await).await;
    }
    app.invoke(standings::handle, json!({})).await;
}

/// Registers users who predict match 1 with the score `n`:0, where `n` counts them from 1.
async fn fans(app: &TestApp, count: u32) -> Vec<User> {
    let mut fans = Vec::new();
    for n in 1..=count {
        let fan = app.user(&format!("fan{n}")).await;
        fan.predicts(1).home().score(n, 0).await.expect(201);
        fans.push(fan);
    }
    fans
}

pub(super) fn ranks(body: &Value) -> Vec<(u64, &str)> {
    body["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["rank"].as_u64().unwrap(), row["user"]["username"].as_str().unwrap()))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_leaderboard_has_ranks_counts_and_the_callers_own_row() {
    let app = app().await;
    let fans = fans(&app, 3).await;
    let alice = app.user("alice").await;
    settle(&app, (2, 0)).await;
    let body = fans[0].views_leaderboard().await.expect(200);
    assert_eq!(ranks(&body), [(1, "fan2"), (2, "fan1"), (2, "fan3")]);
    assert_eq!(
        body["data"][0],
        json!({
            "rank": 1,
            "user": { "id": fans[1].id, "username": "fan2", "name": null },
            "points": 4, "correct": 1, "exact": 1, "settled": 1, "accuracy": 1.0, "moved": null,
        })
    );
    assert_eq!(body["meta"]["me"], body["data"][1]);
    assert_eq!((&body["meta"]["total"], &body["meta"]["next_cursor"]), (&json!(3), &Value::Null));
    assert!(body["meta"]["as_of"].as_str().unwrap().starts_with("2026-11-15T12:01"), "{body}");

    settle(&app, (3, 0)).await;
    let body = fans[2].views_leaderboard().await.expect(200);
    assert_eq!((&body["meta"]["me"]["rank"], &body["meta"]["me"]["moved"]), (&json!(1), &json!(1)));
    // Somebody without settled predictions reads the same list.
    let other = alice.views_leaderboard().await.expect(200);
    assert_eq!((&other["data"], &other["meta"]["me"]), (&body["data"], &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn an_empty_page_around_the_caller_says_why() {
    let app = app().await;
    let fans = fans(&app, 1).await;
    let alice = app.user("alice").await;
    let around = async |user: &User| {
        let body = user.views_leaderboard().query("around", "me").await.expect(200);
        (body["data"].as_array().unwrap().len(), body["meta"]["empty_reason"].clone())
    };
    assert_eq!(around(&fans[0]).await, (0, json!("no_settled_predictions")));
    // The points are counted before the leaderboard is built.
    let mut event = sample()["events"][0].clone();
    event["status"] = json!("finished");
    (event["home_score"], event["away_score"]) = (json!(1), json!(0));
    import(&app, json!({ "format": "touchline", "events": [event] })).await;
    app.invoke(points::handle, json!({ "event_id": 1 })).await;
    for _ in 0..2 {
        app.invoke(tally::handle, app.changes(&app.config.tables.predictions).await).await;
    }
    assert_eq!(around(&fans[0]).await, (0, json!("not_calculated")));
    app.invoke(standings::handle, json!({})).await;
    assert_eq!(around(&fans[0]).await, (1, Value::Null));
    assert_eq!(around(&alice).await, (0, json!("no_settled_predictions")));
    // A page without `around` is not explained.
    let earlier = alice.views_leaderboard().query("period", "month").query("date", "2026-01-01");
    let body = earlier.await.expect(200);
    assert_eq!((&body["data"], &body["meta"]["empty_reason"]), (&json!([]), &Value::Null));
}

#[tokio::test(start_paused = true)]
async fn a_tournament_and_a_period_have_their_own_leaderboards() {
    let app = app().await;
    let fans = fans(&app, 1).await;
    settle(&app, (1, 0)).await;
    let total = async |query: &[(&str, &str)]| {
        let request = query
            .iter()
            .fold(fans[0].views_leaderboard(), |request, (name, value)| request.query(name, value));
        request.await.expect(200)["meta"]["total"].clone()
    };
    let tournament = [("scope", "tournament"), ("id", "1")];
    for (query, expected) in [
        (vec![], 1),
        (tournament.to_vec(), 1),
        (vec![("scope", "tournament"), ("id", "2")], 0),
        (vec![("period", "season")], 1),
        (vec![("period", "month")], 1),
        (vec![("period", "month"), ("date", "2026-11-01")], 1),
        (vec![("period", "month"), ("date", "2026-10-31")], 0),
        (vec![("period", "season"), ("date", "2027-06-30")], 1),
        (vec![("period", "season"), ("date", "2027-07-01")], 0),
        (vec![("period", "matchday"), ("date", "2026-11-15")], 1),
        (vec![("period", "matchday"), ("date", "2026-11-14")], 0),
        ([tournament.to_vec(), vec![("period", "matchday")]].concat(), 1),
    ] {
        assert_eq!(total(&query).await, expected, "{query:?}");
    }
    // Days later, the last matchday is still the one with results.
    app.clock.advance(TimeDelta::days(5));
    assert_eq!(total(&[("period", "matchday")]).await, 1);
    app.clock.advance(TimeDelta::days(20));
    assert_eq!(total(&[("period", "month")]).await, 0);
}

#[tokio::test(start_paused = true)]
async fn invalid_queries_are_422_and_the_response_names_the_field() {
    let app = app().await;
    let alice = app.user("alice").await;
    for (name, value, field) in [
        ("scope", "galaxy", "scope"),
        ("scope", "tournament", "id"),
        ("id", "x", "id"),
        ("period", "week", "period"),
        ("date", "yesterday", "date"),
        ("around", "you", "around"),
        ("per_page", "0", "per_page"),
        ("cursor", "x", "cursor"),
    ] {
        alice.views_leaderboard().query(name, value).await.expect_invalid(&[field]);
    }
}

/// Publishes a board of so many users, whose points are a tenth of their ids. The first of them exist.
async fn publish(app: &TestApp, users: u32) {
    let row = |user: u32| {
        let stats = UserStats { settled: 9, correct: 3, points: i64::from(user / 10), exact: 0 };
        Row::of(UserId(user), &stats, user).unwrap()
    };
    let build = app.store.begin_build(Board::GLOBAL, app.clock.now()).await.unwrap();
    let table = Table::new((1..=users).map(row).collect());
    app.store.publish_board(Board::GLOBAL, build, &table, app.clock.now()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pages_follow_each_other_and_a_cursor_is_valid_only_for_its_leaderboard() {
    let app = app().await;
    for n in 1..=25 {
        app.user(&format!("fan{n}")).await;
    }
    let alice = app.user("alice").await;
    publish(&app, 25).await;
    let (mut cursor, mut names) = (None, Vec::new());
    loop {
        let mut request = alice.views_leaderboard().query("per_page", 10);
        if let Some(cursor) = &cursor {
            request = request.query("cursor", cursor);
        }
        let body = request.await.expect(200);
        names.extend(ranks(&body).into_iter().map(|(rank, name)| (rank, name.to_owned())));
        cursor = body["meta"]["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
        alice
            .views_leaderboard()
            .query("period", "month")
            .query("cursor", cursor.as_ref().unwrap())
            .await
            .expect_invalid(&["cursor"]);
    }
    assert_eq!(names.len(), 25);
    assert_eq!(names[0], (1, "fan20".to_owned()));
    assert_eq!((names[5].0, names[6].0, names[16].0), (1, 7, 17));
}

#[tokio::test(start_paused = true)]
async fn a_rank_a_page_and_the_neighbours_cost_the_same_on_a_small_and_on_a_large_board() {
    let mut costs = Vec::new();
    for users in [1_000, 60_000] {
        let app = app().await;
        let fans = fans(&app, 1).await;
        settle(&app, (1, 0)).await;
        publish(&app, users).await;
        let cost = async |query: &[(&str, &str)]| {
            let request = query
                .iter()
                .fold(fans[0].views_leaderboard(), |request, (name, value)| request.query(name, value));
            let response = request.await;
            assert_eq!(response.status, 200);
            response.header("x-touchline-cost").unwrap().to_owned()
        };
        costs.push((cost(&[]).await, cost(&[("per_page", "100")]).await, cost(&[("around", "me")]).await));
    }
    assert_eq!(costs[0], costs[1]);
}

#[tokio::test(start_paused = true)]
async fn blocked_and_deleted_users_are_left_out_and_keep_their_ranks() {
    let app = app().await;
    let alice = app.user("alice").await;
    // Users 2 and 3 exist, users 4 to 12 do not.
    for name in ["bob", "carol"] {
        app.user(name).await;
    }
    publish(&app, 12).await;
    let body = alice.views_leaderboard().await.expect(200);
    assert_eq!(ranks(&body), [(4, "alice"), (4, "bob"), (4, "carol")]);
    app.store.block(UserId(alice.id), UserId(2), 10, app.clock.now()).await.unwrap();
    let body = alice.views_leaderboard().await.expect(200);
    assert_eq!(ranks(&body), [(4, "alice"), (4, "carol")]);
}

#[tokio::test(start_paused = true)]
async fn a_suspended_user_leaves_the_leaderboard_and_comes_back() {
    let app = app().await;
    let fans = fans(&app, 2).await;
    settle(&app, (1, 0)).await;
    let moderate = async |action: &str| {
        let order = json!({ "user_id": fans[1].id, "operator": "olivia", "reason": "spam" });
        app.invoke(moderation::handle, json!({ action: order })).await;
    };
    let names = async || {
        let body = fans[0].views_leaderboard().await.expect(200);
        ranks(&body).iter().map(|(_, name)| (*name).to_owned()).collect::<Vec<_>>()
    };
    let total = async || fans[0].views_leaderboard().await.expect(200)["meta"]["total"].clone();
    assert_eq!(names().await, ["fan1", "fan2"]);
    moderate("suspend").await;
    assert_eq!(names().await, ["fan1"], "the user is not shown, although the leaderboard is not built yet");
    count(&app).await;
    assert_eq!((names().await, total().await), (vec!["fan1".to_owned()], json!(1)));
    moderate("restore").await;
    count(&app).await;
    assert_eq!((names().await.len(), total().await), (2, json!(2)));
}
