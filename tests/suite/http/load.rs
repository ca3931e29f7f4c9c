#![expect(clippy::print_stdout, reason = "says how much load there was, and what is expected")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::ports::random::{Random, SystemRandom};
use touchline_testing::{Request, Response, User, concurrently};

use super::predictions::new_match;
use crate::target::{HttpApi, eventually};

/// How many users there are, with and without [`SECONDS`].
const USERS: usize = 16;
const FEW_USERS: usize = 4;

/// The variable that says for how many seconds the users send requests.
const SECONDS: &str = "TOUCHLINE_LOAD_SECONDS";

/// What the API has acknowledged to one user.
#[derive(Debug, Default)]
struct Acknowledged {
    requests: u32,
    /// The pick and the confidence for each match.
    predictions: BTreeMap<u32, (&'static str, u32)>,
    /// The matches whose room the user is in.
    rooms: Vec<u32>,
}

/// Users predict, change their mind, and join and leave rooms, all at the same time. Without [`SECONDS`], a few users send
/// a few requests. At the end, every count must equal what was acknowledged.
#[tokio::test(flavor = "multi_thread")]
async fn counts_equal_the_acknowledged_requests_after_load() {
    let app = HttpApi::under_test();
    let mut matches = Vec::new();
    for _ in 0..3 {
        let event = new_match(&app).await;
        let id = u32::try_from(event["id"].as_u64().unwrap()).unwrap();
        let room = app.user("host").await.views_event(id).await.expect_data(200)["chat_room_id"].clone();
        matches.push((id, room.as_str().unwrap().to_owned()));
    }
    let seconds = std::env::var(SECONDS).ok();
    let count = if seconds.is_some() { USERS } else { FEW_USERS };
    // One after another, before the load.
    let mut users = Vec::new();
    for _ in 0..count {
        users.push(app.user("fan").await);
    }
    let until =
        seconds.map(|seconds| SystemClock.now() + TimeDelta::seconds(seconds.parse().expect("a number")));
    let matches = Arc::new(matches);
    let users = concurrently(count, |number| {
        let (user, matches) = (users[number].clone(), Arc::clone(&matches));
        async move { act(&user, &matches, until).await }
    })
    .await;

    let requests: u32 = users.iter().map(|user| user.requests).sum();
    println!("{requests} requests of {count} users were acknowledged");
    let reader = app.user("reader").await;
    for (id, room) in matches.iter() {
        let expected = expected_of_match(&users, *id);
        eventually_equal(&expected, async || {
            reader.lists_event_predictions(*id).await.expect(200)["meta"].clone()
        })
        .await;
        let expected = expected_of_room(&users, *id);
        eventually_equal(&expected, async || {
            reader.lists_room_predictions(room).await.expect(200)["meta"].clone()
        })
        .await;
    }
}

async fn act(user: &User<HttpApi>, matches: &[(u32, String)], until: Option<DateTime<Utc>>) -> Acknowledged {
    let random: &dyn Random = &SystemRandom;
    let mut acknowledged = Acknowledged::default();
    for action in 0.. {
        if until.map_or(action == 8, |until| SystemClock.now() >= until) {
            break;
        }
        let (id, room) = &matches[random.below(3) as usize];
        if random.below(4) > 0 {
            let (pick, confidence) = (["home", "draw", "away"][random.below(3) as usize], random.below(101));
            let prediction = user.predicts(*id).pick(pick).confidence(confidence);
            let status = accepted(prediction).await.status.as_u16();
            assert!([200, 201].contains(&status), "{status}");
            acknowledged.predictions.insert(*id, (pick, confidence));
        } else if acknowledged.rooms.contains(id) {
            accepted(user.leaves(room)).await.expect(200);
            acknowledged.rooms.retain(|joined| joined != id);
        } else {
            let joined = accepted(user.joins(room)).await;
            // A join can be stored although its response was an error. Its retry is then a second join.
            assert!(matches!(joined.status.as_u16(), 200 | 409), "{joined:?}");
            acknowledged.rooms.push(*id);
        }
        acknowledged.requests += 1;
    }
    acknowledged
}

/// Sends a request until the API is not busy.
async fn accepted<V>(request: Request<HttpApi, V>) -> Response {
    loop {
        let response = request.clone().await;
        if !matches!(response.status.as_u16(), 429 | 500..) {
            return response;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn counts<'a>(picks: impl Iterator<Item = &'a str>) -> BTreeMap<&'a str, u32> {
    let mut counts = BTreeMap::from([("home", 0), ("draw", 0), ("away", 0)]);
    for pick in picks {
        *counts.entry(pick).or_default() += 1;
    }
    counts
}

fn expected_of_match(users: &[Acknowledged], id: u32) -> Value {
    let predictions: Vec<_> = users.iter().filter_map(|user| user.predictions.get(&id)).collect();
    json!({
        "total_predictions": predictions.len(),
        "prediction_distribution": counts(predictions.iter().map(|(pick, _)| *pick)),
    })
}

fn expected_of_room(users: &[Acknowledged], id: u32) -> Value {
    let members = users.iter().filter(|user| user.rooms.contains(&id));
    let counts = counts(members.filter_map(|user| Some(user.predictions.get(&id)?.0)));
    json!({
        "total_predictions": counts.values().sum::<u32>(),
        "home_predictions": counts["home"],
        "draw_predictions": counts["draw"],
        "away_predictions": counts["away"],
    })
}

/// Waits until a response has the expected fields.
async fn eventually_equal(expected: &Value, read: impl AsyncFn() -> Value) {
    println!("expected: {expected}");
    let is_equal =
        |found: &Value| expected.as_object().unwrap().iter().all(|(name, value)| found[name] == *value);
    eventually(read, is_equal).await;
}
