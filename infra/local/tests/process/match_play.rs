//! A match that plays itself, as the console shows it.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::running::Running;

const PHONE: &str = "+447700900123";

/// A stack with one match, which begins in a day.
pub fn with_a_match() -> (tempfile::TempDir, Running, String) {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::start_with(folder.path(), &["--no-demo"]);
    let token = running.log_in(PHONE);
    let tomorrow = chrono::DateTime::parse_from_rfc3339(
        running.get("/api/auth/me", &token).1["data"]["created_at"].as_str().unwrap(),
    )
    .unwrap()
        + chrono::TimeDelta::days(1);
    let league = json!({
        "format": "touchline",
        "sports": [{ "id": 1, "name": "Football", "slug": "football" }],
        "tournaments": [{ "id": 1, "name": "Harbour Premier" }],
        "teams": [{ "id": 1, "name": "Northgate Rovers", "sport_id": 1 }, { "id": 2, "name": "Westport Albion", "sport_id": 1 }],
        "events": [{
            "id": 9, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
            "start_time": tomorrow.to_rfc3339(), "status": "scheduled",
        }],
    });
    let (status, report) = running.post("/2015-03-31/functions/feed/invocations", "", &league);
    assert_eq!((status, &report["rejected"]), (200, &json!(0)), "{report}");
    (folder, running, token)
}

/// Connects a page to the console. Returns its messages about matches.
fn page(running: &Running) -> impl Iterator<Item = Value> + use<> {
    let mut socket = TcpStream::connect(running.api.trim_start_matches("http://")).unwrap();
    write!(socket, "GET /_console/traffic HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    let mut lines: Lines<_> = BufReader::new(socket).lines();
    // The first message shows that the page is connected.
    assert!(lines.any(|line| line.unwrap() == ": watching"));
    std::iter::from_fn(move || {
        lines.find(|line| line.as_ref().unwrap() == "event: match")?.ok()?;
        let data = lines.next()?.unwrap();
        Some(serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap())
    })
}

#[test]
fn a_match_plays_itself_and_the_fans_get_their_points() {
    let (_folder, running, token) = with_a_match();
    let forecast =
        json!({ "event_id": 9, "prediction": "home", "score_prediction": { "home": 2, "away": 1 } });
    assert_eq!(running.post("/api/auth/predictions", &token, &forecast).0, 201);

    let mut messages = page(&running);
    let body = json!({ "seconds": 1, "home_score": 2, "away_score": 1 });
    let (status, started) = running.post("/_console/matches/9/play", "", &body);
    assert_eq!((status, started), (202, json!({ "event_id": 9, "seconds": 1 })));
    let (status, again) = running.post("/_console/matches/9/play", "", &body);
    assert_eq!(status, 409, "{again}");
    assert!(again["message"].as_str().unwrap().contains("already"), "{again}");

    let kick_off = messages.next().unwrap();
    let expected = json!({
        "event_id": 9, "phase": "kick-off", "minute": 0, "home_score": 0, "away_score": 0, "scorer": null,
    });
    assert_eq!(kick_off, expected);
    // The kick-off was reported before the page learns of it, so predictions are closed.
    assert_eq!(running.post("/api/auth/predictions", &token, &forecast).1["code"], "event_started");
    let late = page(&running).next().unwrap();
    assert_eq!(late["event_id"], 9, "a page that connects during the match gets its state at once");

    let mut seen = Vec::new();
    for message in &mut messages {
        seen.push(message);
        if ["settled", "failed"].contains(&seen.last().unwrap()["phase"].as_str().unwrap()) {
            break;
        }
    }
    let phases: Vec<&str> = seen.iter().map(|message| message["phase"].as_str().unwrap()).collect();
    assert!(phases.contains(&"half-time"), "{phases:?}");
    assert_eq!(phases[phases.len() - 2..], ["full-time", "settled"], "{seen:?}");
    let scorers = |side: &str| seen.iter().filter(|message| message["scorer"] == side).count();
    assert_eq!((scorers("home"), scorers("away")), (2, 1));
    let settled = seen.last().unwrap();
    let shown =
        ["minute", "home_score", "away_score", "scored"].map(|field| settled[field].as_u64().unwrap());
    assert_eq!(shown, [90, 2, 1, 1]);

    let (_, event) = running.get("/api/auth/events/9", &token);
    assert_eq!(event["data"]["status"], "finished", "{event}");
    assert_eq!((&event["data"]["home_score"], &event["data"]["away_score"]), (&json!(2), &json!(1)));
    let (_, own) = running.get("/api/auth/predictions", &token);
    assert_eq!(own["data"][0]["points_earned"], 4, "{own}");
    let (_, table) = running.get("/api/auth/leaderboards", &token);
    assert_eq!((&table["data"][0]["points"], &table["meta"]["total"]), (&json!(4), &json!(1)), "{table}");
    assert_eq!(running.post("/_console/matches/9/play", "", &json!({})).0, 409, "the match is over");
}

#[test]
fn invalid_requests_to_play_a_match_are_rejected() {
    let (_folder, running, _) = with_a_match();
    for id in ["10", "x"] {
        assert_eq!(running.post(&format!("/_console/matches/{id}/play"), "", &json!({})).0, 404, "{id}");
    }
    for body in
        [json!({ "seconds": 0 }), json!({ "seconds": "soon" }), json!({ "home_score": 21 }), json!([])]
    {
        let (status, error) = running.post("/_console/matches/9/play", "", &body);
        assert_eq!(status, 422, "{body}");
        assert!(error["message"].is_string(), "{error}");
    }
}

#[test]
fn a_live_match_continues_from_its_score() {
    let (_folder, running, _) = with_a_match();
    let live = json!({ "format": "touchline", "events": [{
        "id": 9, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2, "start_time": "2026-01-01T00:00:00Z",
        "status": "live", "home_score": 1, "away_score": 0,
    }] });
    running.post("/2015-03-31/functions/feed/invocations", "", &live);
    let lower = json!({ "seconds": 1, "home_score": 0, "away_score": 0 });
    assert_eq!(running.post("/_console/matches/9/play", "", &lower).0, 422);
    let mut messages = page(&running);
    let higher = json!({ "seconds": 1, "home_score": 1, "away_score": 2 });
    assert_eq!(running.post("/_console/matches/9/play", "", &higher).0, 202);
    let first = messages.next().unwrap();
    assert_eq!((&first["phase"], &first["home_score"]), (&json!("playing"), &json!(1)), "{first}");
    let settled = messages.find(|message| message["phase"] == "settled").unwrap();
    assert_eq!((&settled["home_score"], &settled["away_score"]), (&json!(1), &json!(2)));
}

/// The demo league is imported again at each start. It must not begin a match again that was played before its time.
#[test]
fn a_match_of_the_demo_league_that_was_played_keeps_its_result_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let (running, mut lines) = Running::start_and_read(folder.path(), &["--no-crowd"]);
        assert!(lines.any(|line| line.starts_with("The demo league is ready")));
        std::thread::spawn(move || lines.for_each(drop));
        running
    };
    let running = start();
    let token = running.log_in(PHONE);
    let (_, scheduled) = running.get("/api/auth/events?status=scheduled", &token);
    // The first match may begin during the test.
    let id = scheduled["data"][1]["id"].as_u64().unwrap();
    let forecast =
        json!({ "event_id": id, "prediction": "home", "score_prediction": { "home": 3, "away": 0 } });
    assert_eq!(running.post("/api/auth/predictions", &token, &forecast).0, 201);
    let mut messages = page(&running);
    let body = json!({ "seconds": 1, "home_score": 3, "away_score": 0 });
    assert_eq!(running.post(&format!("/_console/matches/{id}/play"), "", &body).0, 202);
    assert!(messages.any(|message| message["phase"] == "settled"));
    drop(running);

    let running = start();
    let (_, event) = running.get(&format!("/api/auth/events/{id}"), &token);
    assert_eq!(event["data"]["status"], "finished", "{event}");
    assert_eq!((&event["data"]["home_score"], &event["data"]["away_score"]), (&json!(3), &json!(0)));
    assert_eq!(running.post("/2015-03-31/functions/points/invocations", "", &json!({})).0, 200);
    let (_, own) = running.get("/api/auth/predictions", &token);
    assert_eq!(own["data"][0]["points_earned"], 4, "{own}");
}
