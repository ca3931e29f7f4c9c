use serde_json::{Value, json};

use crate::target::{Fan, Target};

async fn list(fan: &Fan, query: &str) -> Vec<Value> {
    let body = fan.get(&format!("/api/auth/events?{query}")).await.expect(200);
    body["data"].as_array().unwrap().clone()
}

/// The local stack's demo league, or whatever the stack under test has imported.
#[tokio::test]
async fn there_are_matches_in_the_order_of_the_interface() {
    let fan = Target::fan().await;
    let events = list(&fan, "per_page=100").await;
    assert!(!events.is_empty());
    let rank = |event: &Value| match event["status"].as_str().unwrap() {
        "live" => 0,
        "scheduled" => 1,
        _ => 2,
    };
    assert!(events.is_sorted_by_key(rank));
    for event in &events {
        let finished = event["status"] == "finished";
        assert!(!(finished && event["home_score"].is_null()), "{event}");
        assert!(event["chat_room_id"].as_str().unwrap().starts_with('!'));
        for team in ["home_team", "away_team", "tournament"] {
            assert!(event[team]["id"].is_u64() && event[team]["name"].is_string(), "{event}");
        }
    }
    let scheduled: Vec<_> = events.iter().filter(|event| event["status"] == "scheduled").collect();
    assert!(scheduled.is_sorted_by_key(|event| event["start_time"].as_str()));
}

#[tokio::test]
async fn filters_and_pages_agree_with_the_whole() {
    let fan = Target::fan().await;
    let first = list(&fan, "status=scheduled&per_page=1").await.remove(0);
    let team = first["home_team"]["id"].as_u64().unwrap();
    let day = &first["start_time"].as_str().unwrap()[..10];
    let found = list(&fan, &format!("team_id={team}&status=scheduled&date={day}")).await;
    assert!(found.iter().any(|event| event["id"] == first["id"]));
    for event in found {
        assert!(event["home_team"]["id"] == team || event["away_team"]["id"] == team);
        assert!(event["start_time"].as_str().unwrap().starts_with(day));
    }
    // Page by page it is the same list as all at once.
    let whole = list(&fan, "status=finished&per_page=20").await;
    let mut pages = Vec::new();
    for page in 1..=4 {
        pages.extend(list(&fan, &format!("status=finished&per_page=5&page={page}")).await);
    }
    assert_eq!(pages, whole);
    let one = fan.get(&format!("/api/auth/events/{}", first["id"])).await.expect(200);
    assert_eq!(one["data"]["id"], first["id"]);
    fan.get("/api/auth/events/999999999").await.expect_error(404, "event_not_found");
    let beyond = fan.get("/api/auth/events?page=100000").await.expect(200);
    assert_eq!(beyond["data"], json!([]));
    assert!(beyond["meta"]["total"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn teams_are_found_and_kept() {
    let fan = Target::fan().await;
    let teams = fan.get("/api/auth/teams?per_page=3").await.expect(200);
    let ids: Vec<_> = teams["data"].as_array().unwrap().iter().map(|team| team["id"].clone()).collect();
    let name = teams["data"][0]["name"].as_str().unwrap().to_uppercase();
    let found = fan.get(&format!("/api/auth/teams?search={}", name.replace(' ', "%20"))).await.expect(200);
    assert_eq!(found["data"][0]["id"], ids[0]);
    fan.post("/api/auth/teams/primary", &json!({ "team_id": ids[0] })).await.expect(200);
    fan.post("/api/auth/teams/other", &json!({ "team_ids": ids[1..] })).await.expect(200);
    let me = fan.get("/api/auth/me").await.expect(200);
    assert_eq!(me["data"]["primary_team"]["id"], ids[0]);
    assert_eq!(me["data"]["other_teams"][1]["id"], ids[2]);
}
