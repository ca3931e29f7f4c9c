use serde_json::{Value, json};
use touchline_testing::Response;

use super::predictions::new_match;
use crate::target::{HttpApi, eventually};

#[track_caller]
fn rows(response: Response) -> Vec<Value> {
    response.expect(200)["data"].as_array().unwrap().clone()
}

/// Uses the demo league of the local stack, or the matches that a deployed stack has imported.
#[tokio::test]
async fn live_events_come_first_then_upcoming_then_finished() {
    let alice = HttpApi::under_test().user("alice").await;
    let events = rows(alice.lists_events().per_page(100).await);
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
        for part in ["home_team", "away_team", "tournament"] {
            assert!(event[part]["id"].is_u64() && event[part]["name"].is_string(), "{event}");
        }
    }
    let scheduled: Vec<_> = events.iter().filter(|event| event["status"] == "scheduled").collect();
    assert!(scheduled.is_sorted_by_key(|event| event["start_time"].as_str()));
}

#[tokio::test]
async fn visitors_see_the_live_matches_and_those_of_the_next_seven_days() {
    let response = HttpApi::under_test().anonymous().get("/api/events").query("per_page", 100).await;
    assert_eq!(response.header("cache-control"), Some("public, max-age=30"));
    let events = rows(response);
    assert!(events.iter().any(|event| event["status"] == "scheduled"), "{events:?}");
    for event in &events {
        assert!(event["sport"]["slug"].is_string() && event.get("status_detail").is_some(), "{event}");
        assert!(event.get("chat_room_id").is_none() && event.get("predictions_count").is_none(), "{event}");
    }
}

#[tokio::test]
async fn the_event_list_can_be_filtered_and_paged() {
    let alice = HttpApi::under_test().user("alice").await;
    let first = rows(alice.lists_events().status("scheduled").per_page(1).await).remove(0);
    let id = |value: &Value| u32::try_from(value["id"].as_u64().unwrap()).unwrap();
    let team = id(&first["home_team"]);
    let day = &first["start_time"].as_str().unwrap()[..10];
    let found = rows(alice.lists_events().team(team).status("scheduled").date(day).await);
    assert!(found.iter().any(|event| event["id"] == first["id"]));
    for event in found {
        assert!(event["home_team"]["id"] == team || event["away_team"]["id"] == team);
        assert!(event["start_time"].as_str().unwrap().starts_with(day));
    }
    let of_sport = rows(alice.lists_events().query("sport_id", &first["sport"]["id"]).per_page(5).await);
    assert!(!of_sport.is_empty() && of_sport.iter().all(|event| event["sport"] == first["sport"]));
    let start = first["start_time"].as_str().unwrap();
    let from = rows(alice.lists_events().status("scheduled").from(start).per_page(1).await);
    assert_eq!(from[0]["id"], first["id"]);
    let to = rows(alice.lists_events().status("scheduled").to(start).await);
    assert!(to.iter().all(|event| event["start_time"].as_str().unwrap() < start), "{to:?}");
    let tournaments = rows(alice.lists_tournaments().await);
    assert!(tournaments.iter().any(|tournament| tournament["id"] == first["tournament_id"]));
    // The teams first: another test can add a sport with its teams in between.
    let teams = rows(alice.lists_teams().await);
    let sports = rows(alice.lists_sports().await);
    assert!(teams.iter().all(|team| sports.contains(&team["sport"])), "{sports:?}");
    // Other tests finish matches of their own meanwhile, so the pages are those of the demo league's football.
    let finished = || alice.lists_events().status("finished").tournament(1_000_001);
    let whole = rows(finished().per_page(10).await);
    let mut pages = Vec::new();
    for page in 1..=5 {
        pages.extend(rows(finished().per_page(2).page(page).await));
    }
    assert_eq!(pages, whole);
    assert_eq!(alice.views_event(id(&first)).await.expect_data(200)["id"], first["id"]);
    alice.views_event(999_999_999).await.expect_error(404, "event_not_found");
    let beyond = alice.lists_events().page(100_000).await.expect(200);
    assert_eq!(beyond["data"], json!([]));
    assert!(beyond["meta"]["total"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn matches_can_include_the_callers_prediction_and_the_picks_of_all() {
    let app = HttpApi::under_test();
    let alice = app.user("alice").await;
    let id = u32::try_from(new_match(&app).await["id"].as_u64().unwrap()).unwrap();
    alice.predicts(id).draw().confidence(60).await.expect(201);
    let include = "picks,my_prediction";
    let listed = rows(alice.lists_events().status("scheduled").include(include).per_page(1).await).remove(0);
    assert!(listed.get("picks").is_some() && listed.get("my_prediction").is_some(), "{listed}");
    // The picks are counted some seconds later.
    let read = async || alice.views_event(id).query("include", include).await.expect_data(200);
    let shown = eventually(read, |shown| shown["picks"].is_object()).await;
    let own = &shown["my_prediction"];
    assert_eq!((&own["prediction"], &own["confidence"]), (&json!("draw"), &json!(60)));
    let percent = |pick: &str| shown["picks"][pick].as_u64().unwrap();
    assert_eq!((percent("home"), percent("draw"), percent("away")), (0, 100, 0), "{shown}");
    let bob = HttpApi::under_test().user("bob").await;
    let one = bob.views_event(id).query("include", "my_prediction").await.expect_data(200);
    assert_eq!(one.get("my_prediction"), Some(&Value::Null));
    assert_eq!(one.get("picks"), None);
    bob.lists_events().include("teams").await.expect_invalid(&["include"]);
}

#[tokio::test]
async fn teams_can_be_found_by_name_and_saved_as_favourites() {
    let alice = HttpApi::under_test().user("alice").await;
    let teams = rows(alice.lists_teams().per_page(3).await);
    let ids: Vec<_> = teams.iter().map(|team| u32::try_from(team["id"].as_u64().unwrap()).unwrap()).collect();
    let name = teams[0]["name"].as_str().unwrap().to_uppercase();
    assert_eq!(rows(alice.lists_teams().search(&name).await)[0]["id"], ids[0]);
    alice.saves_primary_team(ids[0]).await.expect(200);
    alice.saves_other_teams(&ids[1..]).await.expect(200);
    let profile = alice.views_profile().await.expect_data(200);
    assert_eq!(profile["primary_team"]["id"], ids[0]);
    assert_eq!(profile["other_teams"][1]["id"], ids[2]);
}
