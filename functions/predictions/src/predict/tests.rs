use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline_testing::{Fault, TestApp, User, concurrently};

use crate::testing::{app, app_with, change_match, counted, import};

#[tokio::test]
async fn a_second_prediction_replaces_the_first() {
    let (app, alice) = app().await;
    let created = alice.predicts(1).home().score(2, 1).confidence(75).await.expect(201);
    assert_eq!(
        created,
        json!({
            "message": "Prediction saved.",
            "data": {
                "id": created["data"]["id"], "user_id": 1, "event_id": 1, "prediction": "home",
                "score_prediction": { "home": 2, "away": 1 }, "confidence": 75,
                "points_earned": null, "created_at": "2026-11-15T12:00:00Z",
            },
        })
    );
    app.clock.advance(TimeDelta::minutes(1));
    let updated = alice.predicts(1).draw().await.expect(200);
    assert_eq!(
        updated,
        json!({
            "message": "Prediction updated.",
            "data": {
                "id": created["data"]["id"], "user_id": 1, "event_id": 1, "prediction": "draw",
                "score_prediction": null, "confidence": 50, "points_earned": null,
                "created_at": "2026-11-15T12:00:00Z",
            },
        })
    );
    assert_eq!(counted(&app, 1).await, 1);
}

#[tokio::test]
async fn predictions_are_open_until_the_last_millisecond_before_kick_off() {
    let (app, alice) = app().await;
    // The clock starts at 12:00. Kick-off is at 15:00.
    app.clock.advance(TimeDelta::hours(3) - TimeDelta::milliseconds(1));
    alice.predicts(1).away().await.expect(201);
    app.clock.advance(TimeDelta::milliseconds(1));
    alice.predicts(1).away().await.expect_error(400, "event_started");
}

#[tokio::test]
async fn a_prediction_is_not_stored_or_rejected_with_an_old_catalog() {
    // The match begins earlier than the old catalog says, or later. The request comes in between.
    for (start, allowed) in [("2026-11-15T12:30:00Z", 400), ("2026-11-15T20:00:00Z", 200)] {
        let (app, alice) = app().await;
        alice.predicts(1).away().await.expect(201);
        change_match(&app, json!({ "start_time": start })).await;
        app.clock.advance(TimeDelta::hours(if allowed == 400 { 1 } else { 4 }));
        // The session is read first. The check for a newer catalog fails.
        let mut reads = 0;
        app.faults.set(move |attempt| {
            reads += u32::from(attempt.operation == "GetItem" && attempt.number == 1);
            if attempt.operation == "GetItem" && reads > 1 { Fault::Throttle } else { Fault::None }
        });
        alice.predicts(1).home().await.expect_error(503, "busy");
        app.faults.set(|_| Fault::None);
        let own = alice.lists_own_predictions().await.expect_data(200);
        assert_eq!(own[0]["prediction"], "away");
        // The next check happens only after a pause.
        alice.predicts(1).home().await.expect_error(503, "busy");
        app.clock.advance(TimeDelta::milliseconds(250));
        assert_eq!(alice.predicts(1).home().await.status, allowed);
    }
}

#[tokio::test]
async fn a_postponed_match_is_open_for_predictions_until_its_new_kick_off() {
    let (app, alice) = app().await;
    alice.predicts(1).away().await.expect(201);
    app.clock.advance(TimeDelta::hours(3));
    alice.predicts(1).away().await.expect_error(400, "event_started");
    change_match(&app, json!({ "status": "postponed", "start_time": "2026-11-20T15:00:00Z" })).await;
    alice.predicts(1).away().await.expect(200);
    app.clock.advance(TimeDelta::days(5));
    alice.predicts(1).away().await.expect_error(400, "event_started");
}

#[tokio::test]
async fn live_finished_and_void_matches_are_closed_for_predictions() {
    let (app, alice) = app().await;
    for event in [2, 3] {
        alice.predicts(event).home().await.expect_error(400, "event_started");
    }
    for status in ["cancelled", "abandoned", "awarded", "live"] {
        change_match(&app, json!({ "status": status })).await;
        alice.predicts(1).home().await.expect_error(400, "event_started");
    }
    assert_eq!(counted(&app, 1).await, 0);
}

#[tokio::test]
async fn unknown_matches_are_404() {
    let (_, alice) = app().await;
    for event in [404, 0, u32::MAX] {
        alice.predicts(event).home().await.expect_error(404, "event_not_found");
    }
}

#[tokio::test]
async fn invalid_fields_are_rejected() {
    let (app, alice) = app().await;
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
    ] {
        let predicts = alice.predicts(1).home().score(2, 1).confidence(75);
        predicts.field(field, value).await.expect_invalid(&[field]);
    }
    let response = alice.post("/api/auth/predictions", json!({})).await;
    assert_eq!(
        response.expect(422),
        json!({
            "message": "The field event_id is required.",
            "code": "validation_error",
            "errors": {
                "event_id": ["The field event_id is required."],
                "prediction": ["The field prediction is required."],
            },
        })
    );
    assert_eq!(counted(&app, 1).await, 0);
}

#[tokio::test]
async fn a_score_that_contradicts_the_pick_is_422_and_the_response_names_the_picked_team() {
    let (app, alice) = app().await;
    for (pick, (home, away), sentence) in [
        ("home", (0, 3), "0–3 is an away win, but you picked Northgate Rovers."),
        ("home", (1, 1), "1–1 is a draw, but you picked Northgate Rovers."),
        ("away", (2, 1), "2–1 is a home win, but you picked São Miguel Atlético."),
        ("draw", (2, 1), "2–1 is a home win, but you picked a draw."),
    ] {
        let response = alice.predicts(1).pick(pick).score(home, away).await;
        response.expect_invalid(&["score_prediction"]);
        assert_eq!(response.message(), sentence);
    }
    assert_eq!(counted(&app, 1).await, 0);
}

/// The sample league with match 1 as a match of another sport.
async fn app_of_sport(name: &str) -> (TestApp, User) {
    let (app, alice) = app().await;
    let teams =
        [(1, "Herons"), (2, "Foxes")].map(|(id, team)| json!({ "id": id, "name": team, "sport_id": 2 }));
    let document = json!({
        "format": "touchline", "sports": [{ "id": 2, "name": name, "slug": name.to_lowercase() }], "teams": teams,
    });
    import(&app, document).await;
    (app, alice)
}

#[tokio::test]
async fn scores_and_draws_follow_the_sport() {
    for (sport, pick, score, field, sentence) in [
        ("Basketball", "draw", None, "prediction", "Basketball has no draws. Pick one of the teams."),
        (
            "Basketball",
            "draw",
            Some((80, 80)),
            "prediction",
            "Basketball has no draws. Pick one of the teams.",
        ),
        (
            "Basketball",
            "home",
            Some((80, 80)),
            "score_prediction",
            "Basketball has no draws. Give one team more points.",
        ),
        (
            "Basketball",
            "home",
            Some((70, 80)),
            "score_prediction",
            "70–80 is an away win, but you picked Herons.",
        ),
        (
            "Basketball",
            "home",
            Some((300, 80)),
            "score_prediction",
            "Enter 0 to 99 for each team, or up to 299 in basketball.",
        ),
        ("Football", "home", Some((100, 0)), "score_prediction", "Enter 0 to 99 for each team."),
        ("Football", "away", Some((100, 0)), "score_prediction", "Enter 0 to 99 for each team."),
        ("Handball", "home", Some((100, 0)), "score_prediction", "Enter 0 to 99 for each team."),
    ] {
        let (app, alice) = app_of_sport(sport).await;
        let request = alice.predicts(1).pick(pick);
        let response = match score {
            Some((home, away)) => request.score(home, away).await,
            None => request.await,
        };
        response.expect_invalid(&[field]);
        assert_eq!(response.message(), sentence, "{sport}");
        assert_eq!(counted(&app, 1).await, 0);
    }
    let (_, alice) = app_of_sport("Basketball").await;
    alice.predicts(1).home().score(299, 298).await.expect(201);
    let (_, alice) = app_of_sport("Handball").await;
    alice.predicts(1).draw().score(99, 99).await.expect(201);
}

/// If the match is unknown, the error message says "the home team" instead of the name of the team.
#[tokio::test]
async fn a_score_that_contradicts_the_pick_is_reported_even_if_the_match_is_unknown() {
    let (_, alice) = app().await;
    let sentence = "0–3 is an away win, but you picked the home team.";
    let response = alice.predicts(404).home().score(0, 3).await;
    response.expect_invalid(&["score_prediction"]);
    assert_eq!(response.message(), sentence);

    let without_catalog = TestApp::serving(&[crate::router]).start().await;
    let bob: User = without_catalog.user("bob").await;
    let response = bob.predicts(1).home().score(0, 3).await;
    response.expect_invalid(&["score_prediction"]);
    assert_eq!(response.message(), sentence);
    bob.predicts(1).home().await.expect_error(503, "no_catalogue");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_concurrent_requests_make_one_prediction() {
    let (app, alice) = app().await;
    let responses = concurrently(50, |n| alice.predicts(1).pick(["home", "draw", "away"][n % 3])).await;
    assert_eq!(responses.iter().filter(|response| response.status == 201).count(), 1);
    assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 49);
    assert_eq!(counted(&app, 1).await, 1);
}

/// The first write fails or its response is lost, so the SDK retries the write. The endpoint must still
/// return 201.
#[tokio::test]
async fn a_retried_write_still_creates_the_prediction() {
    for fault in [Fault::LoseResponse, Fault::LoseRequest, Fault::Throttle, Fault::Conflict] {
        let (app, alice) = app().await;
        app.faults.set(move |attempt| {
            if attempt.operation == "UpdateItem" && attempt.number == 1 { fault } else { Fault::None }
        });
        alice.predicts(1).home().await.expect(201);
        alice.predicts(1).home().await.expect(200);
        app.faults.clear();
        assert_eq!(counted(&app, 1).await, 1, "{fault:?}");
    }
}

/// A new prediction costs two write units: one for the item and one for the index. A change of the prediction
/// costs one write unit.
#[tokio::test]
async fn the_cost_does_not_depend_on_the_number_of_predictions() {
    let (app, alice) = app().await;
    let cost = async |user: &User| {
        app.clock.advance(TimeDelta::milliseconds(1));
        let response = user.predicts(1).home().await;
        response.header("x-touchline-cost").unwrap().to_owned()
    };
    let alone = (cost(&alice).await, cost(&alice).await);
    for n in 0..60 {
        let _ = cost(&app.user(&format!("fan{n}")).await).await;
    }
    let bob = app.user("bob").await;
    // The catalog is cached, so each request makes two calls: one reads the session, one writes the prediction.
    assert_eq!(cost(&bob).await, "calls=2 rounds=2 rcu=0.5 wcu=2");
    assert_eq!(cost(&bob).await, "calls=2 rounds=2 rcu=0.5 wcu=1");
    assert!(alone.0.ends_with("wcu=2") && alone.1.ends_with("wcu=1"), "{alone:?}");
}

/// Two requests can reach two environments. The clock of the second one may be behind the clock of the first one.
#[tokio::test]
async fn a_later_request_counts_even_if_its_clock_is_behind() {
    let (app, alice) = app().await;
    alice.predicts(1).home().await.expect(201);
    app.clock.advance(TimeDelta::milliseconds(-900));
    let changed = alice.predicts(1).away().confidence(90).await.expect(200);
    assert_eq!(
        (&changed["data"]["prediction"], &changed["data"]["confidence"]),
        (&json!("away"), &json!(90))
    );
    app.clock.advance(TimeDelta::seconds(1));
    let own = alice.lists_own_predictions().await.expect_data(200);
    assert_eq!(own[0]["prediction"], "away");
}

/// The stored change is so much later that the difference of the clocks does not explain it.
#[tokio::test]
async fn a_change_that_is_not_stored_is_not_confirmed() {
    let (app, alice) = app().await;
    alice.predicts(1).home().await.expect(201);
    app.clock.advance(TimeDelta::milliseconds(-1_500));
    let response = alice.predicts(1).away().await;
    app.clock.advance(TimeDelta::seconds(3));
    let own = alice.lists_own_predictions().await.expect_data(200);
    assert_eq!(own[0]["prediction"], "home");
    assert_eq!(response.message(), "You predicted again, and the later prediction counts.");
    assert_eq!(response.expect_data(200)["prediction"], "home");
}

#[tokio::test]
async fn a_match_that_has_begun_never_opens_again() {
    let later = "2026-11-20T15:00:00Z";
    for begun in [
        json!({ "status": "live", "home_score": 1, "away_score": 0 }),
        json!({ "status": "finished", "home_score": 1, "away_score": 0 }),
    ] {
        for again in ["postponed", "scheduled"] {
            let (app, alice) = app().await;
            alice.predicts(1).home().await.expect(201);
            change_match(&app, begun.clone()).await;
            change_match(&app, json!({ "status": again, "start_time": later })).await;
            alice.predicts(1).away().await.expect_error(400, "event_started");
            change_match(&app, json!({ "status": "cancelled" })).await;
            change_match(&app, json!({ "status": "scheduled", "start_time": later })).await;
            alice.predicts(1).away().await.expect_error(400, "event_started");
        }
    }
}

#[tokio::test]
async fn a_match_does_not_open_again_after_its_hidden_picks_were_shown() {
    let later = json!({ "status": "scheduled", "start_time": "2026-11-20T15:00:00Z" });
    for (visible, response) in [("always", 201), ("after_start", 400)] {
        let (app, alice) = app_with(&[("PICKS_VISIBLE", visible)]).await;
        app.clock.advance(TimeDelta::hours(3));
        alice.predicts(1).home().await.expect_error(400, "event_started");
        change_match(&app, later.clone()).await;
        assert_eq!(alice.predicts(1).home().await.status, response, "{visible}");
        // Also after a postponement that the feed reports late.
        change_match(&app, json!({ "status": "postponed" })).await;
        change_match(&app, later.clone()).await;
        assert_eq!(alice.predicts(1).home().await.status.is_success(), visible == "always", "{visible}");
    }
}

#[tokio::test]
async fn a_moved_kick_off_keeps_hidden_picks_hidden_and_predictions_open() {
    let (app, alice) = app_with(&[("PICKS_VISIBLE", "after_start")]).await;
    change_match(&app, json!({ "status": "scheduled", "start_time": "2026-11-20T15:00:00Z" })).await;
    app.clock.advance(TimeDelta::hours(3));
    alice.predicts(1).home().await.expect(201);
}

#[tokio::test]
async fn a_match_that_was_cancelled_or_postponed_before_it_began_opens_again() {
    for before in ["postponed", "cancelled"] {
        let (app, alice) = app().await;
        change_match(&app, json!({ "status": before })).await;
        change_match(&app, json!({ "status": "scheduled", "start_time": "2026-11-20T15:00:00Z" })).await;
        alice.predicts(1).home().await.expect(201);
    }
}
