use std::collections::BTreeMap;

use futures_util::future::try_join3;
use touchline::api::Data;
use touchline::api::chat::{MemberStats, MemberStatsView, PredictorView};
use touchline::domain::catalog::{Catalog, NEUTRAL, Team, distribution_keys};
use touchline::domain::room::{Day, Room};
use touchline::domain::tally::RoomCounts;
use touchline::flows::rooms;
use touchline::{App, Call, Error, Reply};

/// How many predictors are named.
const TOP: usize = 10;

pub async fn handle(app: App, call: Call<MemberStats>) -> Result<Reply<Data<MemberStatsView>>, Error> {
    let room = crate::room(&app, &call.path.chat_room).await?;
    rooms::require_read_access(&app, &room, call.caller.user).await?;
    let counts = async { app.store.room_counts(&room.room_id).await.map_err(Error::from) };
    let (catalog, counts, top_predictors) = try_join3(app.catalog(), counts, top(&app, &room)).await?;
    let data = MemberStatsView {
        total_members: counts.totals.members,
        active_members: counts.active(Day::of(app.clock.now())),
        predictions_made: counts.totals.predictions,
        team_distribution: distribution(&room, &counts, &catalog),
        top_predictors,
    };
    Ok(Data { data }.into())
}

async fn top(app: &App, room: &Room) -> Result<Vec<PredictorView>, Error> {
    let best = app.store.standings(room, TOP).await?;
    let people = app.store.people(&best.iter().map(|one| one.user_id).collect::<Vec<_>>()).await?;
    let view = |one: touchline::storage::members::Standing| {
        Some(PredictorView {
            user_id: one.user_id,
            username: people.get(&one.user_id)?.username.clone(),
            correct_predictions: one.record.correct,
            accuracy: one.record.accuracy(),
        })
    };
    Ok(best.into_iter().filter_map(view).collect())
}

/// Members by team: the two teams of the room's match, or every team that a member supports. All others are
/// neutral.
fn distribution(room: &Room, counts: &RoomCounts, catalog: &Catalog) -> BTreeMap<String, i64> {
    let ids: Vec<u32> = match room.event_id.and_then(|event| catalog.event(event)) {
        Some(event) => vec![event.home_team_id, event.away_team_id],
        None => counts.teams.iter().filter(|(_, members)| **members > 0).map(|(team, _)| *team).collect(),
    };
    let teams: Vec<&Team> = ids.into_iter().filter_map(|id| catalog.team(id)).collect();
    let members = teams.iter().map(|team| counts.teams.get(&team.id).copied().unwrap_or(0));
    let mut distribution: BTreeMap<String, i64> =
        distribution_keys(&teams).into_iter().zip(members).collect();
    let supporters: i64 = distribution.values().sum();
    distribution.insert(NEUTRAL.to_owned(), counts.totals.members - supporters);
    distribution
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline_testing::TestApp;

    use crate::testing::{ROOMS, act, app, invite, made, message, push, stats, tallied};

    async fn predicts(app: &TestApp, token: &str, event: u32, pick: &str) {
        let body = json!({ "event_id": event, "prediction": pick });
        let _ = app.post_as(token, "/api/auth/predictions", body).await.expect(201);
    }

    async fn supports(app: &TestApp, token: &str, team: u32) {
        let _ = app.post_as(token, "/api/auth/teams/primary", json!({ "team_id": team })).await.expect(200);
    }

    async fn about(app: &TestApp, token: &str, event: u32) -> String {
        let body = json!({ "name": "Stand", "event_id": event });
        let room = app.post_as(token, "/api/auth/chat-room", body).await.expect(201);
        room["data"]["room_id"].as_str().unwrap().to_owned()
    }

    /// Joining, predicting and choosing a team come in any order.
    #[tokio::test]
    async fn everything_that_is_known_of_members() {
        let (app, [ada, bob, cleo]) = app().await;
        app.clock.advance(-TimeDelta::hours(1));
        supports(&app, &ada, 1).await;
        let room = about(&app, &ada, 1).await;
        predicts(&app, &bob, 1, "home").await;
        let _ = act(&app, &bob, &room, "join").await.expect(200);
        tallied(&app).await;
        supports(&app, &bob, 3).await;
        let _ = act(&app, &cleo, &room, "join").await.expect(200);
        supports(&app, &cleo, 2).await;
        predicts(&app, &cleo, 1, "draw").await;
        assert_eq!(
            stats(&app, &ada, &room).await,
            json!({
                "total_members": 3, "active_members": 3, "predictions_made": 2,
                "team_distribution": { "northgate_rovers": 1, "sao_miguel_atletico": 1, "neutral": 1 },
                "top_predictors": [],
            })
        );
        // A change of heart, and one who goes.
        app.clock.advance(TimeDelta::seconds(1));
        supports(&app, &bob, 1).await;
        let _ = act(&app, &cleo, &room, "leave").await.expect(200);
        let now = stats(&app, &ada, &room).await;
        assert_eq!(
            now["team_distribution"],
            json!({ "northgate_rovers": 2, "sao_miguel_atletico": 0, "neutral": 0 })
        );
        assert_eq!((&now["total_members"], &now["predictions_made"]), (&json!(2), &json!(1)));
    }

    /// Who joins brings along what came before, without anything of it being told again.
    #[tokio::test]
    async fn a_joining_finds_what_was_there_before() {
        let (app, [ada, bob, _]) = app().await;
        app.clock.advance(-TimeDelta::hours(2));
        let room = about(&app, &ada, 4).await;
        supports(&app, &bob, 1).await;
        predicts(&app, &bob, 1, "home").await;
        predicts(&app, &bob, 4, "away").await;
        ends(&app, 1, 1, 0).await;
        let _ = act(&app, &bob, &room, "join").await.expect(200);
        for _ in 0..2 {
            let changes = app.changes(&app.app.config.tables.rooms).await;
            tally::handle(app.app.clone(), changes).await.unwrap();
        }
        let path = format!("{ROOMS}/{room}/member-stats");
        let stats = app.get_as(&bob, &path).await.expect(200)["data"].clone();
        assert_eq!(
            (&stats["team_distribution"]["northgate_rovers"], &stats["predictions_made"]),
            (&json!(1), &json!(1))
        );
        assert_eq!(stats["top_predictors"][0]["user_id"], 2, "{stats}");
    }

    #[tokio::test]
    async fn without_a_match_every_team_is_shown() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Stand", false).await;
        assert_eq!(stats(&app, &ada, &room).await["team_distribution"], json!({ "neutral": 1 }));
        let _ = act(&app, &bob, &room, "join").await.expect(200);
        supports(&app, &bob, 3).await;
        let shown = stats(&app, &ada, &room).await;
        assert_eq!(shown["team_distribution"], json!({ "westport_albion": 1, "neutral": 1 }));
    }

    #[tokio::test]
    async fn active_is_who_was_seen_in_the_last_seven_days() {
        let (app, [ada, bob, _]) = app().await;
        let room = made(&app, &ada, "Stand", false).await;
        let _ = act(&app, &bob, &room, "join").await.expect(200);
        let active = async |app: &TestApp| stats(app, &ada, &room).await["active_members"].clone();
        assert_eq!(active(&app).await, 2);
        app.clock.advance(TimeDelta::days(6));
        assert_eq!(active(&app).await, 2);
        app.clock.advance(TimeDelta::days(1));
        assert_eq!(active(&app).await, 0);
        let events = [message(&app, &room, 2), message(&app, &room, 2)];
        let _ = push(&app, "1", &json!({ "events": events })).await.expect(200);
        assert_eq!(active(&app).await, 1);
        app.clock.advance(TimeDelta::days(7));
        assert_eq!(active(&app).await, 0);
        assert_eq!(stats(&app, &ada, &room).await["total_members"], 2);
    }

    /// A result, and the points that follow.
    async fn ends(app: &TestApp, event: u32, home: u32, away: u32) {
        let league: Value =
            serde_json::from_str(include_str!("../../../events/feed/touchline.json")).unwrap();
        let events = league["events"].as_array().unwrap();
        let mut event = events.iter().find(|one| one["id"] == event).unwrap().clone();
        event["status"] = "finished".into();
        event["home_score"] = home.into();
        event["away_score"] = away.into();
        app.clock.advance(TimeDelta::seconds(1));
        feed::handle(app.app.clone(), json!({ "format": "touchline", "events": [event] })).await.unwrap();
        app.clock.advance(TimeDelta::minutes(1));
        let deadline = app.app.clock.now() + TimeDelta::minutes(5);
        let scored = points::handle(app.app.clone(), json!({}), deadline).await.unwrap();
        assert_eq!(scored["matches"].as_array().unwrap().len(), 1, "{scored}");
        tallied(app).await;
    }

    #[tokio::test]
    async fn the_best_predictors_are_members_ranked_by_their_records() {
        let (app, [ada, bob, cleo]) = app().await;
        app.clock.advance(-TimeDelta::hours(2));
        let room = made(&app, &ada, "Stand", false).await;
        for event in [1, 4] {
            predicts(&app, &ada, event, "home").await;
        }
        predicts(&app, &bob, 1, "home").await;
        predicts(&app, &cleo, 1, "away").await;
        let _ = act(&app, &bob, &room, "join").await.expect(200);
        tallied(&app).await;
        ends(&app, 1, 2, 0).await;
        ends(&app, 4, 0, 1).await;
        // Who joins later brings their record along.
        let _ = act(&app, &cleo, &room, "join").await.expect(200);
        let one = |id: u32, correct: u32, accuracy: f64| json!({ "user_id": id, "username": format!("fan.{id}"), "correct_predictions": correct, "accuracy": accuracy });
        assert_eq!(
            stats(&app, &ada, &room).await["top_predictors"],
            json!([one(2, 1, 1.0), one(1, 1, 0.5), one(3, 0, 0.0)])
        );
        // A correction turns it round; who goes is gone.
        ends(&app, 1, 0, 2).await;
        let _ = act(&app, &bob, &room, "leave").await.expect(200);
        assert_eq!(stats(&app, &ada, &room).await["top_predictors"], json!([one(3, 1, 1.0), one(1, 0, 0.0)]));
    }

    #[tokio::test]
    async fn a_private_room_shows_strangers_nothing() {
        let (app, [ada, bob, _]) = app().await;
        let body = json!({ "name": "Den", "event_id": 1, "is_private": true });
        let room = app.post_as(&ada, "/api/auth/chat-room", body).await.expect(201);
        let room = room["data"]["room_id"].as_str().unwrap();
        let _ = invite(&app, &ada, room, json!({ "user_id": 2 })).await.expect(200);
        for what in ["member-stats", "predictions"] {
            let path = format!("{ROOMS}/{room}/{what}");
            app.get_as(&bob, &path).await.expect_error(403, "not_a_member");
            let _ = app.get_as(&ada, &path).await.expect(200);
            app.get_as(&ada, &format!("{ROOMS}/nonsense/{what}")).await.expect_error(404, "room_not_found");
        }
        let _ = act(&app, &bob, room, "join").await.expect(200);
        let _ = app.get_as(&bob, &format!("{ROOMS}/{room}/member-stats")).await.expect(200);
    }
}
