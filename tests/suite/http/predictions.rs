use serde_json::{Value, json};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::ports::random::{Random, SystemRandom};

use crate::target::{Fan, Target, eventually};

const PATH: &str = "/api/auth/predictions";

/// A match of a league of its own, an hour from now: tests share the API.
async fn new_match(fan: &Fan) -> Value {
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
    let report = fan.target().invoke("feed", &league).await;
    assert_eq!((&report["created"], &report["rejected"]), (&json!(5), &json!(0)), "{report}");
    event
}

async fn result(fan: &Fan, event: &Value, home: u32, away: u32) {
    let mut event = event.clone();
    event["status"] = json!("finished");
    event["home_score"] = json!(home);
    event["away_score"] = json!(away);
    let report = fan.target().invoke("feed", &json!({ "format": "touchline", "events": [event] })).await;
    assert_eq!(report["updated"], 1, "{report}");
}

#[tokio::test]
async fn a_match_from_prediction_to_points_and_their_correction() {
    let (fan, rival) = (Target::fan().await, Target::fan().await);
    let event = new_match(&fan).await;
    let id = event["id"].as_u64().unwrap();
    let exact = json!({
        "event_id": id, "prediction": "home", "score_prediction": { "home": 2, "away": 1 }, "confidence": 90,
    });
    fan.post(PATH, &json!({ "event_id": id, "prediction": "away" })).await.expect(201);
    let made = fan.post(PATH, &exact).await.expect(200);
    rival.post(PATH, &json!({ "event_id": id, "prediction": "draw" })).await.expect(201);

    let predicted = async || rival.get(&format!("/api/auth/events/{id}/predictions")).await.expect(200);
    let list = eventually(predicted, |list| list["meta"]["total_predictions"] == 2).await;
    assert_eq!(list["meta"]["prediction_distribution"], json!({ "home": 1, "draw": 1, "away": 0 }));
    assert_eq!(list["meta"]["average_confidence"], 70.0);
    let theirs = list["data"].as_array().unwrap().iter().find(|row| row["id"] == made["data"]["id"]).unwrap();
    assert_eq!(theirs["user"]["username"], fan.login["user"]["username"]);
    let shown = fan.get(&format!("/api/auth/events/{id}")).await.expect(200);
    assert_eq!(shown["data"]["predictions_count"], 2);
    let room = shown["data"]["chat_room_id"].as_str().unwrap();
    let in_room = fan.get(&format!("/api/auth/chat-rooms/{room}/predictions")).await.expect(200);
    assert_eq!(in_room["meta"]["total_predictions"], 0, "nobody has joined");

    let own = async |fan: &Fan| fan.get(PATH).await.expect(200)["data"][0].clone();
    assert_eq!(own(&fan).await["points_earned"], Value::Null);
    for ((home, away), revision, points) in [((2, 1), 1, [4, 0]), ((1, 1), 2, [0, 2])] {
        result(&fan, &event, home, away).await;
        fan.post(PATH, &exact).await.expect_error(400, "event_started");
        let settled = fan.target().invoke("points", &json!({ "event_id": id })).await;
        let expected = json!([{ "event_id": id, "revision": revision, "scored": 2, "finished": true }]);
        assert_eq!(settled["matches"], expected);
        assert_eq!(own(&fan).await["points_earned"], points[0]);
        assert_eq!(own(&rival).await["points_earned"], points[1]);
        assert_eq!(own(&fan).await["event"]["status"], "finished");
    }
}

#[tokio::test]
async fn unknown_matches_and_nonsense_are_refused() {
    let fan = Target::fan().await;
    fan.post(PATH, &json!({ "event_id": 999_999_999, "prediction": "home" }))
        .await
        .expect_error(404, "event_not_found");
    fan.get("/api/auth/events/999999999/predictions").await.expect_error(404, "event_not_found");
    fan.get("/api/auth/chat-rooms/!nowhere:touchline.local/predictions")
        .await
        .expect_error(404, "room_not_found");
    fan.get("/api/auth/predictions?cursor=e1.1").await.expect_error(422, "validation_error");
    let body = json!({ "event_id": 1, "prediction": "home", "score_prediction": { "home": 0, "away": 0 } });
    let answer = fan.post(PATH, &body).await;
    answer.expect_error(422, "validation_error");
    assert!(answer.body["errors"]["score_prediction"][0].as_str().unwrap().contains("contradicts"));
}
