use serde_json::{Value, json};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::ports::random::{Random, SystemRandom};
use touchline_testing::User;

use crate::target::{HttpApi, eventually};

/// Imports a match that kicks off in an hour, in a league that no other test uses.
pub async fn new_match(app: &HttpApi) -> Value {
    let random: &dyn Random = &SystemRandom;
    let id = 2_000_000 + random.below(1_000_000_000);
    let start = SystemClock.now() + chrono::TimeDelta::hours(1);
    let event = json!({
        "id": id, "tournament_id": id, "home_team_id": id, "away_team_id": id + 1,
        "start_time": start.format("%Y-%m-%dT%H:%M:%SZ").to_string(), "status": "scheduled",
    });
    let league = json!({
        "format": "touchline",
        "sports": [{ "id": id, "name": format!("Sport {id}") }],
        "tournaments": [{ "id": id, "name": format!("League {id}") }],
        "teams": [
            { "id": id, "name": format!("Home {id}"), "sport_id": id },
            { "id": id + 1, "name": format!("Away {id}"), "sport_id": id },
        ],
        "events": [event],
    });
    let report = app.invoke("feed", &league).await;
    assert_eq!((&report["created"], &report["rejected"]), (&json!(5), &json!(0)), "{report}");
    event
}

/// Imports the result of a match.
pub async fn finish(app: &HttpApi, event: &Value, home: u32, away: u32) {
    let mut event = event.clone();
    event["status"] = json!("finished");
    event["home_score"] = json!(home);
    event["away_score"] = json!(away);
    let report = app.invoke("feed", &json!({ "format": "touchline", "events": [event] })).await;
    assert_eq!(report["updated"], 1, "{report}");
}

#[tokio::test]
async fn a_prediction_earns_points_and_a_corrected_result_changes_the_points() {
    let app = HttpApi::under_test();
    let (alice, bob) = (app.user("alice").await, app.user("bob").await);
    let event = new_match(&app).await;
    let id = u32::try_from(event["id"].as_u64().unwrap()).unwrap();
    alice.predicts(id).away().await.expect(201);
    let exact = alice.predicts(id).home().score(2, 1).confidence(90);
    let prediction = exact.clone().await.expect_data(200);
    bob.predicts(id).draw().await.expect(201);

    let list = async || bob.lists_event_predictions(id).await.expect(200);
    let list = eventually(list, |list| list["meta"]["total_predictions"] == 2).await;
    assert_eq!(list["meta"]["prediction_distribution"], json!({ "home": 1, "draw": 1, "away": 0 }));
    assert_eq!(list["meta"]["average_confidence"], 70.0);
    let row = list["data"].as_array().unwrap().iter().find(|row| row["id"] == prediction["id"]).unwrap();
    assert_eq!(row["user"]["username"], alice.username.as_str());
    let shown = alice.views_event(id).await.expect_data(200);
    assert_eq!(shown["predictions_count"], 2);
    let room = shown["chat_room_id"].as_str().unwrap();
    let in_room = alice.lists_room_predictions(room).await.expect(200);
    assert_eq!(in_room["meta"]["total_predictions"], 0, "the room has no members");
    alice.joins(room).await.expect(200);
    let in_room = async || alice.lists_room_predictions(room).await.expect(200);
    let in_room = eventually(in_room, |list| list["meta"]["total_predictions"] == 1).await;
    assert_eq!(in_room["data"][0]["id"], prediction["id"]);

    let own = async |user: &User<HttpApi>| user.lists_own_predictions().await.expect_data(200)[0].clone();
    assert_eq!(own(&alice).await["points_earned"], Value::Null);
    for ((home, away), revision, points) in [((2, 1), 1, [4, 0]), ((1, 1), 2, [0, 2])] {
        finish(&app, &event, home, away).await;
        exact.clone().await.expect_error(400, "event_started");
        let settled = app.invoke("points", &json!({ "event_id": id })).await;
        let expected = json!([{ "event_id": id, "revision": revision, "scored": 2, "finished": true }]);
        assert_eq!(settled["matches"], expected);
        assert_eq!(own(&alice).await["points_earned"], points[0]);
        assert_eq!(own(&bob).await["points_earned"], points[1]);
        assert_eq!(own(&alice).await["event"]["status"], "finished");
    }
}

#[tokio::test]
async fn unknown_events_and_rooms_are_404() {
    let alice = HttpApi::under_test().user("alice").await;
    alice.predicts(999_999_999).home().await.expect_error(404, "event_not_found");
    alice.lists_event_predictions(999_999_999).await.expect_error(404, "event_not_found");
    alice.lists_room_predictions("!nowhere:touchline.local").await.expect_error(404, "room_not_found");
}

#[tokio::test]
async fn a_score_that_contradicts_the_pick_is_422() {
    let alice = HttpApi::under_test().user("alice").await;
    let response = alice.predicts(1).home().score(0, 0).await;
    response.expect_invalid(&["score_prediction"]);
    assert_eq!(response.message(), "0–0 is a draw, but you picked the home team.");
}

#[tokio::test]
async fn a_cursor_of_another_list_is_422() {
    let alice = HttpApi::under_test().user("alice").await;
    alice.claims_daily_coins().await.expect(200);
    alice.deducts(1).await.expect(200);
    let page = alice.views_coins().per_page(1).await.expect(200);
    let cursor = page["meta"]["next_cursor"].as_str().unwrap();
    alice.views_coins().cursor(cursor).await.expect(200);
    alice.lists_own_predictions().cursor(cursor).await.expect_invalid(&["cursor"]);
}
