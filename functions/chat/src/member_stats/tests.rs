use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline_testing::{TestApp, User};

use crate::testing::{app, league, message_event, process_changes, stats};

async fn supports(user: &User, team: u32) {
    user.saves_primary_team(team).await.expect(200);
}

/// Imports the final score of a match and awards the points.
async fn ends(app: &TestApp, event: u32, home: u32, away: u32) {
    update_match(app, event, json!({ "status": "finished", "home_score": home, "away_score": away })).await;
}

/// Imports new values for some fields of a match, and runs `points` and `tally`.
async fn update_match(app: &TestApp, event: u32, fields: Value) {
    let league = league();
    let events = league["events"].as_array().unwrap();
    let mut event = events.iter().find(|one| one["id"] == event).unwrap().clone();
    event.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    app.clock.advance(TimeDelta::seconds(1));
    app.invoke(feed::handle, json!({ "format": "touchline", "events": [event] })).await;
    app.clock.advance(TimeDelta::minutes(1));
    let scored = app.invoke(points::handle, json!({})).await;
    assert_eq!(scored["matches"].as_array().unwrap().len(), 1, "{scored}");
    process_changes(app).await;
}

#[tokio::test]
async fn statistics_include_predictions_and_teams_from_before_and_after_the_join() {
    let (app, [alice, bob, carol]) = app().await;
    app.clock.advance(-TimeDelta::hours(1));
    supports(&alice, 1).await;
    let room = alice.creates_room("Stand").about_event(1).await.room_id();
    bob.predicts(1).home().await.expect(201);
    bob.joins(&room).await.expect(200);
    process_changes(&app).await;
    supports(&bob, 3).await;
    carol.joins(&room).await.expect(200);
    supports(&carol, 2).await;
    carol.predicts(1).draw().await.expect(201);
    assert_eq!(
        stats(&app, &alice, &room).await,
        json!({
            "total_members": 3, "active_members": 3, "predictions_made": 2,
            "team_distribution": { "northgate_rovers": 1, "sao_miguel_atletico": 1, "neutral": 1 },
            "top_predictors": [],
        })
    );
    // Bob changes his team, and Carol leaves.
    app.clock.advance(TimeDelta::seconds(1));
    supports(&bob, 1).await;
    carol.leaves(&room).await.expect(200);
    let now = stats(&app, &alice, &room).await;
    assert_eq!(
        now["team_distribution"],
        json!({ "northgate_rovers": 2, "sao_miguel_atletico": 0, "neutral": 0 })
    );
    assert_eq!((&now["total_members"], &now["predictions_made"]), (&json!(2), &json!(1)));
}

#[tokio::test]
async fn team_keys_are_snake_case_whatever_slugs_the_feed_sends() {
    let (app, [alice, ..]) = app().await;
    let room = alice.creates_room("Stand").about_event(1).await.room_id();
    let mut league = league();
    league["as_of"] = "2026-11-15T12:00:00Z".into();
    league["teams"][0]["slug"] = "FC-Sample.City".into();
    app.invoke(feed::handle, league).await;
    app.clock.advance(TimeDelta::seconds(1));
    assert_eq!(
        stats(&app, &alice, &room).await["team_distribution"],
        json!({ "fc_sample_city": 0, "sao_miguel_atletico": 0, "neutral": 1 })
    );
}

/// After the join, the test passes only the changes of the `rooms` table to `tally`. So only the join can have caused
/// `tally` to copy the team, the prediction and the statistics.
#[tokio::test]
async fn a_join_copies_the_users_team_prediction_and_statistics_into_the_membership() {
    let (app, [alice, bob, _]) = app().await;
    app.clock.advance(-TimeDelta::hours(2));
    let room = alice.creates_room("Stand").about_event(4).await.room_id();
    supports(&bob, 1).await;
    bob.predicts(1).home().await.expect(201);
    bob.predicts(4).away().await.expect(201);
    ends(&app, 1, 1, 0).await;
    bob.joins(&room).await.expect(200);
    for _ in 0..3 {
        app.invoke(tally::handle, app.changes(&app.config.tables.rooms).await).await;
    }
    let stats = bob.views_member_stats(&room).await.expect_data(200);
    assert_eq!(
        (&stats["team_distribution"]["northgate_rovers"], &stats["predictions_made"]),
        (&json!(1), &json!(1))
    );
    assert_eq!(stats["top_predictors"][0]["user_id"], bob.id, "{stats}");
}

#[tokio::test]
async fn a_room_without_a_match_shows_every_team_that_members_support() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    assert_eq!(stats(&app, &alice, &room).await["team_distribution"], json!({ "neutral": 1 }));
    bob.joins(&room).await.expect(200);
    supports(&bob, 3).await;
    let shown = stats(&app, &alice, &room).await;
    assert_eq!(shown["team_distribution"], json!({ "westport_albion": 1, "neutral": 1 }));
}

#[tokio::test]
async fn members_are_active_on_the_day_they_were_seen_and_the_six_days_after() {
    let (app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Stand").await.room_id();
    bob.joins(&room).await.expect(200);
    let active = async |app: &TestApp| stats(app, &alice, &room).await["active_members"].clone();
    assert_eq!(active(&app).await, 2);
    app.clock.advance(TimeDelta::days(6));
    assert_eq!(active(&app).await, 2);
    app.clock.advance(TimeDelta::days(1));
    assert_eq!(active(&app).await, 0);
    let events = [message_event(&app, &room, &bob), message_event(&app, &room, &bob)];
    app.homeserver().pushes("1", events).await.expect(200);
    assert_eq!(active(&app).await, 1);
    app.clock.advance(TimeDelta::days(7));
    assert_eq!(active(&app).await, 0);
    assert_eq!(stats(&app, &alice, &room).await["total_members"], 2);
}

#[tokio::test]
async fn the_top_predictors_are_members_ranked_by_correct_predictions_then_accuracy() {
    let (app, [alice, bob, carol]) = app().await;
    app.clock.advance(-TimeDelta::hours(2));
    let room = alice.creates_room("Stand").await.room_id();
    for event in [1, 4] {
        alice.predicts(event).home().await.expect(201);
    }
    bob.predicts(1).home().await.expect(201);
    carol.predicts(1).away().await.expect(201);
    bob.joins(&room).await.expect(200);
    process_changes(&app).await;
    ends(&app, 1, 2, 0).await;
    ends(&app, 4, 0, 1).await;
    // Carol joins after the results. Her earlier prediction counts too.
    carol.joins(&room).await.expect(200);
    let predictor = |user: &User, correct: u32, accuracy: f64| {
        json!({
            "user_id": user.id, "username": user.username, "correct_predictions": correct, "accuracy": accuracy,
        })
    };
    assert_eq!(
        stats(&app, &alice, &room).await["top_predictors"],
        json!([predictor(&bob, 1, 1.0), predictor(&alice, 1, 0.5), predictor(&carol, 0, 0.0)])
    );
    // A corrected result changes the ranking, and a member who leaves is not ranked.
    ends(&app, 1, 0, 2).await;
    bob.leaves(&room).await.expect(200);
    assert_eq!(
        stats(&app, &alice, &room).await["top_predictors"],
        json!([predictor(&carol, 1, 1.0), predictor(&alice, 0, 0.0)])
    );
}

/// The test cancels a match, which removes the points of its predictions. Then it redelivers the stream records from
/// before the cancellation.
#[tokio::test]
async fn a_redelivered_older_result_does_not_rank_a_member_again() {
    let (app, [alice, ..]) = app().await;
    app.clock.advance(-TimeDelta::hours(2));
    let room = alice.creates_room("Stand").await.room_id();
    alice.predicts(1).home().await.expect(201);
    ends(&app, 1, 2, 0).await;
    assert_eq!(stats(&app, &alice, &room).await["top_predictors"].as_array().unwrap().len(), 1);
    let older = app.changes(&app.config.tables.predictions).await;
    update_match(&app, 1, json!({ "status": "cancelled", "home_score": null, "away_score": null })).await;
    let ranked = async || alice.views_member_stats(&room).await.expect_data(200)["top_predictors"].clone();
    assert_eq!(ranked().await, json!([]));
    app.invoke(tally::handle, older).await;
    assert_eq!(ranked().await, json!([]));
}

#[tokio::test]
async fn a_member_who_joins_again_is_ranked_again() {
    let (app, [alice, bob, _]) = app().await;
    app.clock.advance(-TimeDelta::hours(2));
    let room = alice.creates_room("Stand").await.room_id();
    bob.joins(&room).await.expect(200);
    bob.predicts(1).home().await.expect(201);
    ends(&app, 1, 2, 0).await;
    bob.leaves(&room).await.expect(200);
    assert_eq!(stats(&app, &alice, &room).await["top_predictors"], json!([]));
    bob.joins(&room).await.expect(200);
    assert_eq!(stats(&app, &alice, &room).await["top_predictors"][0]["user_id"], bob.id);
}

#[tokio::test]
async fn only_members_can_read_the_statistics_and_predictions_of_a_private_room() {
    let (_app, [alice, bob, _]) = app().await;
    let room = alice.creates_room("Den").about_event(1).private().await.room_id();
    alice.invites_to(&room).user(bob.id).await.expect(200);
    bob.views_member_stats(&room).await.expect_error(403, "not_a_member");
    bob.lists_room_predictions(&room).await.expect_error(403, "not_a_member");
    alice.views_member_stats(&room).await.expect(200);
    alice.lists_room_predictions(&room).await.expect(200);
    alice.views_member_stats("unknown").await.expect_error(404, "room_not_found");
    alice.lists_room_predictions("unknown").await.expect_error(404, "room_not_found");
    bob.joins(&room).await.expect(200);
    bob.views_member_stats(&room).await.expect(200);
}
