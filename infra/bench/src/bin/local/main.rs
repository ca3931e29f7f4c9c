//! Measures the local stack under load.
//!
//! `local-bench PROGRAM [--quick] [--memory] [--only=Prediction]`. PROGRAM is the binary `touchline`, in a debug build
//! or in an optimised build. First one client and then eight clients send requests in a closed loop: each client waits
//! for a response before it sends its next request.

#![expect(clippy::print_stdout, reason = "prints the report")]
#![expect(clippy::disallowed_methods, reason = "measures elapsed time")]

mod client;
mod stack;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use client::Client;
use stack::{Stack, Storage};

/// The endpoints under load.
const SCENARIOS: [Scenario; 7] = [
    Scenario::Health,
    Scenario::Me,
    Scenario::Events,
    Scenario::Prediction,
    Scenario::Daily,
    Scenario::Join,
    Scenario::Login,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scenario {
    Health,
    Me,
    Events,
    Prediction,
    Daily,
    Join,
    Login,
}

/// How much load one run sends.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// How many requests one client sends per scenario.
    single: usize,
    /// How many requests eight clients together send per scenario.
    concurrent: usize,
    /// How many predictions are sent between the first and the second measurement.
    history: usize,
}

const FULL: Size = Size { single: 300, concurrent: 4_000, history: 10_000 };
const QUICK: Size = Size { single: 60, concurrent: 800, history: 1_000 };

/// What the scenarios need: logged-in users, open matches and rooms.
#[derive(Debug)]
struct Fixture {
    address: String,
    tokens: Vec<String>,
    events: Vec<u64>,
    rooms: Vec<String>,
    /// Counts the requests of each scenario. Each request derives its user, match and room from this count.
    sent: [AtomicUsize; 7],
}

#[derive(Debug)]
struct Measured {
    p50: Duration,
    p99: Duration,
    per_second: f64,
    cpu_per_request: Duration,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let program = arguments.iter().find(|argument| !argument.starts_with("--")).map(PathBuf::from);
    let Some(program) = program else {
        println!("Usage: local-bench PROGRAM [--quick] [--memory] [--only=Prediction]");
        std::process::exit(2);
    };
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let size = if has("--quick") { QUICK } else { FULL };
    let storage = if has("--memory") { Storage::Memory } else { Storage::File };
    run(&program, storage, size).await;
}

async fn run(program: &Path, storage: Storage, size: Size) {
    let mut stack = Stack::start(program, storage).await;
    println!("address printed after {:.0} ms", millis(stack.printed_after));
    let first = Instant::now();
    stack.log_in(0..1).await;
    println!("first login, during the import: {:.0} ms", millis(first.elapsed()));
    stack.ready().await;
    println!("demo league ready after {:.0} ms", millis(stack.printed_after + first.elapsed()));
    let idle = idle_cpu(&stack).await;
    println!("idle CPU: {:.2} %", 100.0 * idle);

    let fixture = Arc::new(Fixture::new(&stack, size).await);
    println!("\n| scenario | state | p50, 1 client | requests/s, 8 clients | p50 | p99 | CPU per request |");
    println!("|---|---|---|---|---|---|---|");
    measure_all(&stack, &fixture, size, "fresh").await;
    let imported = import_season(&stack.address).await;
    println!("season imported in {:.2} s", imported.as_secs_f64());
    load(&fixture, Scenario::Prediction, 8, size.history).await;
    measure_all(&stack, &fixture, size, "after a season and predictions").await;
    println!("memory: {:.1} MB", stack.memory());
    stack.stop().await;
}

async fn measure_all(stack: &Stack, fixture: &Arc<Fixture>, size: Size, state: &str) {
    let only = std::env::args().find_map(|argument| argument.strip_prefix("--only=").map(str::to_owned));
    let is_chosen = |scenario: &Scenario| only.as_ref().is_none_or(|only| *only == format!("{scenario:?}"));
    for scenario in SCENARIOS.into_iter().filter(is_chosen) {
        let single = load(fixture, scenario, 1, scenario.count(size.single)).await;
        let before = stack.cpu();
        let count = scenario.count(size.concurrent);
        let mut many = load(fixture, scenario, 8, count).await;
        let count = u32::try_from(count).expect("the count is small");
        many.cpu_per_request = stack.cpu().saturating_sub(before) / count;
        println!(
            "| {scenario:?} | {state} | {:.2} ms | {:.0} | {:.2} ms | {:.2} ms | {:.2} ms |",
            millis(single.p50),
            many.per_second,
            millis(many.p50),
            millis(many.p99),
            millis(many.cpu_per_request)
        );
    }
}

/// Sends `count` requests with `clients` clients.
async fn load(fixture: &Arc<Fixture>, scenario: Scenario, clients: usize, count: usize) -> Measured {
    let remaining = Arc::new(AtomicUsize::new(count));
    let started = Instant::now();
    let tasks = (0..clients).map(|_| {
        let (fixture, remaining) = (Arc::clone(fixture), Arc::clone(&remaining));
        tokio::spawn(async move {
            let mut client = Client::connect(&fixture.address).await;
            let mut times = Vec::new();
            while remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                let sent = Instant::now();
                fixture.request(&mut client, scenario).await;
                times.push(sent.elapsed());
            }
            times
        })
    });
    let mut times = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        times.extend(task.await.expect("every request succeeds"));
    }
    let elapsed = started.elapsed();
    times.sort();
    let percentile = |percent: usize| times[(times.len() - 1) * percent / 100];
    let requests = u32::try_from(times.len()).expect("the count is small");
    Measured {
        p50: percentile(50),
        p99: percentile(99),
        per_second: f64::from(requests) / elapsed.as_secs_f64(),
        cpu_per_request: Duration::ZERO,
    }
}

impl Scenario {
    /// Returns how many requests to send in this scenario. Most scenarios send `count` requests. `Daily` and `Login`
    /// send fewer, because each claim of the daily coins needs its own user and each login creates a user.
    fn count(self, count: usize) -> usize {
        match self {
            Self::Daily | Self::Login => count / 8,
            _ => count,
        }
    }
}

impl Fixture {
    async fn new(stack: &Stack, size: Size) -> Self {
        let mut client = Client::connect(&stack.address).await;
        // Each user can claim the daily coins once, and every scenario is measured twice.
        let claims = 2 * (Scenario::Daily.count(size.single) + Scenario::Daily.count(size.concurrent));
        let tokens = stack.log_in(1..u32::try_from(claims).expect("the count is small") + 1).await;
        let events = client.get("/api/auth/events?status=scheduled&per_page=100", &tokens[0]).await.json();
        let ids = |list: &Value, id: &str| -> Vec<Value> {
            list["data"].as_array().expect("a list").iter().map(|row| row[id].clone()).collect()
        };
        let rooms = client.get("/api/auth/chat-rooms?per_page=100", &tokens[0]).await.json();
        let events = ids(&events, "id").iter().filter_map(Value::as_u64).collect();
        let rooms = ids(&rooms, "room_id").iter().filter_map(Value::as_str).map(str::to_owned).collect();
        Self { address: stack.address.clone(), tokens, events, rooms, sent: Default::default() }
    }

    async fn request(&self, client: &mut Client, scenario: Scenario) {
        let number = self.sent[scenario as usize].fetch_add(1, Ordering::Relaxed);
        // Each round gives every user a match and a room that the user had in no earlier round.
        let (round, user) = (number / self.tokens.len(), number % self.tokens.len());
        let token = &self.tokens[user];
        let (response, expected) = match scenario {
            Scenario::Health => (client.get("/api/health", "").await, 200),
            Scenario::Me => (client.get("/api/auth/me", token).await, 200),
            Scenario::Events => (client.get("/api/auth/events", token).await, 200),
            Scenario::Prediction => {
                let event = self.events[(user + round) % self.events.len()];
                let body = json!({ "event_id": event, "prediction": "home", "confidence": 50 });
                (client.post("/api/auth/predictions", token, &body).await, 201)
            }
            Scenario::Daily => (client.post("/api/auth/daily-coins", token, &json!({})).await, 200),
            Scenario::Join => {
                let room = &self.rooms[(user + round) % self.rooms.len()];
                (client.post(&format!("/api/auth/chat-rooms/{room}/join"), token, &json!({})).await, 200)
            }
            Scenario::Login => {
                stack::log_in(client, 10_000_000 + u32::try_from(number).expect("the count is small")).await;
                return;
            }
        };
        let status = response.status;
        assert_eq!(status, expected, "{scenario:?}: {}", String::from_utf8_lossy(&response.body));
    }
}

/// Imports a season of 380 matches in the openfootball format. The teams are invented.
async fn import_season(address: &str) -> Duration {
    let mut client = Client::connect(address).await;
    let started = Instant::now();
    let path = "/2015-03-31/functions/feed/invocations";
    let response = client.post(path, "", &season(0)).await;
    let report = response.json();
    assert_eq!(report["created"], 401, "{report}");
    started.elapsed()
}

/// Returns a season of twenty teams, each of which plays every other team twice.
fn season(number: usize) -> Value {
    let team =
        |index: usize| format!("Season {number} Club {}", (b'A' + u8::try_from(index).unwrap_or(0)) as char);
    let mut matches = Vec::new();
    for home in 0..20 {
        for away in (0..20).filter(|away| *away != home) {
            let round = (home + away) % 38 + 1;
            matches.push(json!({
                "round": format!("Matchday {round}"),
                "date": format!("{}-{:02}-{:02}", 2030 + number, round % 12 + 1, home + 1),
                "time": "15:00",
                "team1": team(home), "team2": team(away),
            }));
        }
    }
    json!({ "format": "openfootball", "timezone": "UTC", "document": { "name": format!("Season {number}"), "matches": matches } })
}

/// Returns the share of one CPU that the stack uses while nobody sends requests.
async fn idle_cpu(stack: &Stack) -> f64 {
    const WATCHED: Duration = Duration::from_secs(5);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = stack.cpu();
    tokio::time::sleep(WATCHED).await;
    stack.cpu().saturating_sub(before).as_secs_f64() / WATCHED.as_secs_f64()
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}
