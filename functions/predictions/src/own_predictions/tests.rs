use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::api::Cursor;
use touchline::api::predictions::{AfterPredictor, BeforePrediction};
use touchline::domain::UserId;
use touchline::domain::prediction::Stamp;

use crate::testing::{app, change_match, counted, fan, import};

#[tokio::test]
async fn own_predictions_are_newest_first_with_their_matches_and_points() {
    let (app, alice) = app().await;
    alice.predicts(1).home().await.expect(201);
    app.clock.advance(TimeDelta::minutes(1));
    alice.predicts(4).draw().await.expect(201);
    app.clock.advance(TimeDelta::minutes(1));
    // An update does not move a prediction up in the list.
    alice.predicts(1).home().await.expect(200);
    fan(&app, 2).await.predicts(1).away().await.expect(201);
    counted(&app, 1).await;
    let list = alice.lists_own_predictions().await.expect(200);
    let events: Vec<_> = list["data"].as_array().unwrap().iter().map(|row| row["event_id"].clone()).collect();
    assert_eq!(events, [4, 1]);
    assert_eq!(list["meta"], json!({ "next_cursor": null }));
    let first = &list["data"][1];
    assert_eq!((&first["note"], &first["reason"]), (&Value::Null, &Value::Null));
    assert_eq!((&first["points_earned"], &first["event"]["predictions_count"]), (&Value::Null, &json!(2)));
    assert_eq!(first["event"]["home_team"]["name"], "Northgate Rovers");

    change_match(&app, json!({ "status": "finished", "home_score": 1, "away_score": 0 })).await;
    app.invoke(points::handle, json!({ "event_id": 1 })).await;
    let list = alice.lists_own_predictions().await.expect(200);
    assert_eq!(
        (&list["data"][1]["points_earned"], &list["data"][1]["reason"]),
        (&json!(2), &json!("outcome"))
    );
}

#[tokio::test]
async fn the_reason_says_why_a_prediction_has_its_points() {
    for (home, away, points, reason) in [
        (2, 1, json!(4), "exact"),
        (3, 2, json!(3), "difference"),
        (2, 0, json!(2), "outcome"),
        (0, 0, json!(0), "miss"),
    ] {
        let (app, alice) = app().await;
        alice.predicts(1).home().score(2, 1).await.expect(201);
        let points_and_reason = async || {
            let row = alice.lists_own_predictions().await.expect_data(200)[0].clone();
            (row["points_earned"].clone(), row["reason"].clone())
        };
        let result = json!({ "status": "finished", "home_score": home, "away_score": away });
        change_match(&app, result).await;
        assert_eq!(points_and_reason().await, (Value::Null, Value::Null), "{reason}: not calculated yet");
        app.invoke(points::handle, json!({ "event_id": 1 })).await;
        assert_eq!(points_and_reason().await, (points.clone(), json!(reason)));
        // The old points stay until the points for a corrected result are calculated.
        change_match(&app, json!({ "status": "finished", "home_score": 0, "away_score": 4 })).await;
        let corrected = if points == 0 { json!("miss") } else { Value::Null };
        assert_eq!(points_and_reason().await, (points, corrected), "{reason}");
        change_match(&app, json!({ "status": "abandoned", "home_score": null, "away_score": null })).await;
        app.invoke(points::handle, json!({ "event_id": 1 })).await;
        assert_eq!(points_and_reason().await, (Value::Null, json!("void")), "{reason}");
    }
}

#[tokio::test]
async fn a_note_says_why_a_prediction_after_a_corrected_kick_off_has_no_points() {
    let (app, alice) = app().await;
    alice.predicts(1).home().await.expect(201);
    let earlier = (app.clock.now() - TimeDelta::minutes(5)).to_rfc3339();
    let result = json!({ "status": "finished", "home_score": 1, "away_score": 0, "start_time": earlier });
    change_match(&app, result).await;
    app.invoke(points::handle, json!({ "event_id": 1 })).await;
    let row = &alice.lists_own_predictions().await.expect_data(200)[0];
    assert_eq!((&row["points_earned"], &row["reason"]), (&Value::Null, &json!("late")));
    assert_eq!(
        row["note"],
        "The match began before you last changed this prediction, so it earns no points."
    );
}

#[tokio::test]
async fn the_pages_together_hold_every_prediction_once() {
    let (app, alice) = app().await;
    let events: Vec<Value> = (100..130)
        .map(|id| {
            json!({
                "id": id, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
                "start_time": "2026-11-20T15:00:00Z", "status": "scheduled",
            })
        })
        .collect();
    import(&app, json!({ "format": "touchline", "events": events })).await;
    for event in 100..130 {
        // Four predictions are made in each millisecond. Pages must still hold each of them once.
        if event % 4 == 0 {
            app.clock.advance(TimeDelta::milliseconds(1));
        }
        alice.predicts(event).home().await.expect(201);
    }
    let (mut seen, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let mut request = alice.lists_own_predictions().per_page(7);
        if let Some(cursor) = &cursor {
            request = request.cursor(cursor);
        }
        let page = request.await.expect(200);
        seen.extend(page["data"].as_array().unwrap().iter().map(|row| row["event_id"].as_u64().unwrap()));
        cursor = page["meta"]["next_cursor"].as_str().map(str::to_owned);
        if cursor.is_none() {
            break;
        }
    }
    let mut sorted = seen.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, (100..130).collect::<Vec<u64>>());
    let milliseconds: Vec<_> = seen.iter().map(|event| event / 4).collect();
    assert!(milliseconds.is_sorted_by(|a, b| a >= b), "newest first: {seen:?}");
}

#[tokio::test]
async fn cursors_of_other_lists_and_of_other_users_are_rejected() {
    let (_, alice) = app().await;
    let position = || BeforePrediction(Stamp::parse("1763208000000-00000000").unwrap());
    let of_another_user = Cursor::new(UserId(2), position()).to_string();
    let of_a_match = Cursor::new(1, AfterPredictor(UserId(1))).to_string();
    for cursor in ["x", "", &of_another_user, &of_a_match] {
        alice.lists_own_predictions().cursor(cursor).await.expect_invalid(&["cursor"]);
    }
    let own = Cursor::new(UserId(1), position()).to_string();
    assert_eq!(alice.lists_own_predictions().cursor(&own).await.expect_data(200), json!([]));
}
