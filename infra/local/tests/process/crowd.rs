//! The fans of the demo league.

use std::collections::BTreeSet;
use std::path::Path;

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::ports::clock::{Clock as _, SystemClock};

use crate::running::Running;

const PHONE: &str = "+447700900123";
const READY: &str = "The fans are ready: 200 fans, 6 rooms.";

/// Starts a stack and waits for its fans.
fn with_fans(folder: &Path) -> Running {
    let (running, mut lines) = Running::start_and_read(folder, &[]);
    assert!(lines.any(|line| line == READY), "the fans come");
    std::thread::spawn(move || lines.for_each(drop));
    running
}

/// Returns all rows of a leaderboard and the time of the leaderboard.
fn leaderboard(running: &Running, token: &str, query: &str) -> (Vec<Value>, String) {
    let (mut rows, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/api/auth/leaderboards?{query}&per_page=100{cursor}");
        let (status, page) = running.get(&path, token);
        assert_eq!(status, 200, "{page}");
        rows.extend(page["data"].as_array().unwrap().clone());
        match page["meta"]["next_cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return (rows, page["meta"]["as_of"].as_str().unwrap_or_default().to_owned()),
        }
    }
}

/// Returns what the crowd looks like. It must not depend on how often the stack was killed.
fn world(running: &Running, token: &str) -> (String, Value) {
    let (all, as_of) = leaderboard(running, token, "period=all");
    let matchday = leaderboard(running, token, "period=matchday").0;
    let counts = |status: &str| {
        let path = format!("/api/auth/events?status={status}&per_page=100&include=picks");
        let (_, events) = running.get(&path, token);
        let of = |event: &Value| serde_json::json!([event["id"], event["predictions_count"], event["picks"]]);
        events["data"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    let rooms = ["Northgate", "stoppage", "Skyline", "breakfast", "Cliff", "commuters"].map(|word| {
        let (_, rooms) = running.get(&format!("/api/auth/chat-rooms?search={word}"), token);
        let rooms = rooms["data"].as_array().unwrap().clone();
        rooms.iter().map(|room| serde_json::json!([room["name"], room["member_count"]])).collect::<Vec<_>>()
    });
    // The ids of users depend on the order in which they registered.
    let row = |row: &Value| {
        let mut row = row.clone();
        row["user"]["id"].take();
        row
    };
    let rows = |rows: Vec<Value>| {
        let mut rows: Vec<Value> = rows.iter().map(row).collect();
        rows.sort_by_key(Value::to_string);
        rows
    };
    let world = serde_json::json!({
        "all": rows(all), "matchday": rows(matchday), "scheduled": counts("scheduled"), "finished": counts("finished"),
        "rooms": rooms,
    });
    (as_of, world)
}

/// The id of a match that a developer imports. The matches of the demo league have larger and smaller ids.
const IMPORTED: u32 = 1_900_000;

/// Imports a match that fans could predict, before the fans come.
fn import_a_match(folder: &Path) {
    let running = Running::start(folder);
    let start = SystemClock.now() + TimeDelta::hours(2);
    let document = json!({
        "format": "touchline",
        "sports": [{ "id": 9, "name": "Football" }],
        "tournaments": [{ "id": 9, "name": "Cup" }],
        "teams": [{ "id": 8, "name": "Reds", "sport_id": 9 }, { "id": 9, "name": "Blues", "sport_id": 9 }],
        "events": [{
            "id": IMPORTED, "tournament_id": 9, "home_team_id": 8, "away_team_id": 9,
            "start_time": start.to_rfc3339(), "status": "scheduled",
        }],
    });
    let (status, report) = running.post("/2015-03-31/functions/feed/invocations", "", &document);
    assert_eq!((status, &report["rejected"]), (200, &json!(0)), "{report}");
}

#[test]
fn the_demo_league_has_fans_with_records_and_places() {
    let folder = tempfile::tempdir().unwrap();
    import_a_match(folder.path());
    let running = with_fans(folder.path());
    let token = running.log_in(PHONE);
    let (_, imported) = running.get(&format!("/api/auth/events/{IMPORTED}"), &token);
    assert_eq!(imported["data"]["predictions_count"], 0, "fans predict the matches of the demo league alone");
    let (_, messages) = running.get("/api/logs/sms", "");
    assert_eq!(messages["data"].as_array().unwrap().len(), 1, "fans get no SMS");

    // The periods of the last match. In the first hours of a month, none of this month's matches is over.
    let finished = "/api/auth/events?status=finished&tournament_id=1000001&per_page=1";
    let (_, finished) = running.get(finished, &token);
    let date = &finished["data"][0]["start_time"].as_str().unwrap()[..10];
    // At some hours, only two matches of the day are over. Not all fans have predicted them.
    for (period, fans, totals) in [("all", 50, 4), ("season", 50, 4), ("month", 30, 3), ("matchday", 30, 3)] {
        let query =
            if period == "all" { "period=all".to_owned() } else { format!("period={period}&date={date}") };
        let (rows, _) = leaderboard(&running, &token, &query);
        assert!(rows.len() > fans, "{period}: {}", rows.len());
        let moved = rows.iter().filter(|row| row["moved"].as_i64().unwrap_or(0) != 0).count();
        assert!(moved > 10, "{period}: {moved} moved");
        let points: BTreeSet<u64> = rows.iter().map(|row| row["points"].as_u64().unwrap()).collect();
        assert!(points.len() >= totals, "{period}: {points:?}");
    }
    // The statistics of a fan are those of their predictions.
    let (rows, _) = leaderboard(&running, &token, "period=all");
    let fan = &rows[0];
    let (_, profile) = running.get(&format!("/api/auth/users/{}", fan["user"]["id"]), &token);
    for field in ["points", "correct", "settled"] {
        assert_eq!(profile["data"]["record"][field], fan[field], "{field}");
    }
    let (_, events) = running.get("/api/auth/events?status=finished&per_page=100", &token);
    let (mut points, mut settled) = (0, 0);
    for event in events["data"].as_array().unwrap() {
        let path = format!("/api/auth/events/{}/predictions?user_id={}", event["id"], fan["user"]["id"]);
        let (_, predictions) = running.get(&path, &token);
        for prediction in predictions["data"].as_array().unwrap() {
            settled += 1;
            points += prediction["points_earned"].as_u64().unwrap();
        }
    }
    assert_eq!((settled, points), (fan["settled"].as_u64().unwrap(), fan["points"].as_u64().unwrap()));
}

/// Returns the current hour, and the one until which fans no longer predict.
#[cfg(unix)]
fn hours() -> [i64; 2] {
    let now = SystemClock.now();
    [now, now + TimeDelta::minutes(5)].map(|time| time.timestamp() / 3_600)
}

#[cfg(unix)]
#[test]
fn a_stack_that_is_killed_half_way_has_the_same_fans_in_the_end() {
    // The season depends on the hour, and so does which matches fans predict. Around a full hour, the two stacks differ.
    for _ in 0..2 {
        let begun = hours();
        let (whole, killed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let expected = {
            let running = with_fans(whole.path());
            world(&running, &running.log_in(PHONE))
        };
        for (path, least) in [
            ("/api/auth/users?search=fi", 1),
            ("/api/auth/events?per_page=100&status=finished", 300),
            ("/api/auth/events?per_page=100&status=scheduled", 100),
        ] {
            let (running, lines) = Running::start_and_read(killed.path(), &[]);
            std::thread::spawn(move || lines.for_each(drop));
            let token = running.log_in(PHONE);
            running.wait_until(path, |running| {
                let rows = running.get(path, &token).1["data"].as_array().cloned().unwrap_or_default();
                // A user counts as one, and a match as its predictions.
                rows.iter().map(|row| row["predictions_count"].as_u64().unwrap_or(1)).sum::<u64>() >= least
            });
            drop(running);
        }
        // The second start finds everything.
        for _ in 0..2 {
            let running = with_fans(killed.path());
            let found = world(&running, &running.log_in(PHONE));
            if found.0 == expected.0 && hours() == begun {
                assert_eq!(found.1, expected.1);
                return;
            }
        }
    }
    panic!("the seasons differ");
}
