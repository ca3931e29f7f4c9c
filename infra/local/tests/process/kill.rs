//! The local stack is killed under load, many times. Nothing that it acknowledged is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::TimeDelta;
use serde_json::json;
use touchline::ports::clock::{Clock as _, SystemClock};

use crate::running::Running;

const CLIENTS: usize = 8;
const KILLS: usize = 20;

/// The ids of the matches that each user has predicted.
type Predictions = Vec<BTreeSet<u64>>;

/// Each user predicts one match after another until the stack is killed. Each kill comes after 1 to 19
/// acknowledged predictions. It interrupts the writes in progress and the counting of predictions.
#[test]
fn twenty_kills_lose_no_acknowledged_prediction_and_no_count() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running::start(folder.path());
    let tokens: Vec<String> =
        (0..CLIENTS).map(|user| running.log_in(&format!("+4477009001{user:02}"))).collect();
    let events = open_events(&running, &tokens[0]);
    assert!(events.len() > 80, "{events:?}");
    let mut acknowledged: Predictions = vec![BTreeSet::new(); CLIENTS];
    for kill in 0..KILLS {
        let before: usize = acknowledged.iter().map(BTreeSet::len).sum();
        predict_until_killed(&running, &tokens, &events, &mut acknowledged, 1 + (kill * 7) % 19);
        assert!(acknowledged.iter().map(BTreeSet::len).sum::<usize>() > before);
        drop(running);
        running = Running::start(folder.path());

        let stored: Predictions = tokens.iter().map(|token| own_predictions(&running, token)).collect();
        for (stored, acknowledged) in stored.iter().zip(&acknowledged) {
            assert!(stored.is_superset(acknowledged), "kill {kill} lost {:?}", acknowledged - stored);
        }
        // The stack counts a prediction before it responds, so the counts include every acknowledged prediction.
        let counts = shown_counts(&running, &tokens[0]);
        for (event, count) in count_by_event(&acknowledged) {
            assert!(
                counts[&event] >= count,
                "kill {kill}: match {event} shows {} of {count}",
                counts[&event]
            );
        }
        // A prediction that was stored without a response is counted soon after the restart.
        let expected = count_by_event(&stored);
        running.wait_until("the counts are exact", |running| {
            let counts = shown_counts(running, &tokens[0]);
            counts.iter().all(|(event, count)| expected.get(event).copied().unwrap_or(0) == *count)
        });
    }
}

fn predict_until_killed(
    running: &Running,
    tokens: &[String],
    events: &[u64],
    acknowledged: &mut Predictions,
    kill_after: usize,
) {
    let responses = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let mut clients = Vec::new();
        for (user, (token, acknowledged)) in tokens.iter().zip(acknowledged).enumerate() {
            let responses = &responses;
            let mut remaining: Vec<u64> =
                events.iter().copied().filter(|event| !acknowledged.contains(event)).collect();
            // The check below notices a missing count only for the first prediction of a match. The users therefore
            // begin with different matches, so that most predictions are the first of their match.
            let begin = 11 * user % remaining.len().max(1);
            remaining.rotate_left(begin);
            clients.push(scope.spawn(move || {
                for event in remaining {
                    let body = json!({ "event_id": event, "prediction": "home", "confidence": 50 });
                    let Some((status, body)) = running.try_post("/api/auth/predictions", token, &body) else {
                        return;
                    };
                    assert!(matches!(status, 200 | 201), "{body}");
                    acknowledged.insert(event);
                    responses.fetch_add(1, Ordering::SeqCst);
                    // The stack counts a prediction before it responds, so the match shows at least this one.
                    let Some((_, shown)) = running.try_get(&format!("/api/auth/events/{event}"), token)
                    else {
                        return;
                    };
                    assert!(shown["data"]["predictions_count"].as_u64() >= Some(1), "{shown}");
                }
            }));
        }
        // Wait for enough responses. If a client ends before that, one of its assertions has failed.
        while responses.load(Ordering::SeqCst) < kill_after
            && clients.iter().all(|client| !client.is_finished())
        {
            std::thread::yield_now();
        }
        running.signal("-KILL");
    });
}

fn open_events(running: &Running, token: &str) -> Vec<u64> {
    let path = "/api/auth/events?status=scheduled&per_page=100";
    // The demo league is imported in the background.
    running.wait_until("the demo league is there", |running| {
        running.get(path, token).1["data"].as_array().is_some_and(|events| events.len() > 80)
    });
    // A match that kicks off during the test would leave the list.
    let soon = (SystemClock.now() + TimeDelta::hours(1)).to_rfc3339();
    let (_, list) = running.get(path, token);
    let rows = list["data"].as_array().unwrap().iter();
    rows.filter(|row| row["start_time"].as_str() > Some(soon.as_str()))
        .map(|row| row["id"].as_u64().unwrap())
        .collect()
}

fn own_predictions(running: &Running, token: &str) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let mut path = "/api/auth/predictions?per_page=50".to_owned();
    loop {
        let (status, page) = running.get(&path, token);
        assert_eq!(status, 200, "{page}");
        found.extend(page["data"].as_array().unwrap().iter().map(|row| row["event"]["id"].as_u64().unwrap()));
        let Some(next) = page["meta"]["next_cursor"].as_str() else { return found };
        path = format!("/api/auth/predictions?per_page=50&cursor={next}");
    }
}

/// Returns the number of predictions that the list of matches shows for each match.
fn shown_counts(running: &Running, token: &str) -> BTreeMap<u64, u64> {
    let (_, list) = running.get("/api/auth/events?status=scheduled&per_page=100", token);
    let rows = list["data"].as_array().unwrap().iter();
    rows.map(|row| (row["id"].as_u64().unwrap(), row["predictions_count"].as_u64().unwrap())).collect()
}

fn count_by_event(predictions: &Predictions) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for event in predictions.iter().flatten() {
        *counts.entry(*event).or_default() += 1;
    }
    counts
}
