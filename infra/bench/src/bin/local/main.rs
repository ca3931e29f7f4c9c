//! Measures the local stack under load, and compares it with the floor: the same store calls without the stack.
//!
//! `local-bench [--quick] [--write | --check]`. Measures the binary `touchline` beside it, which has the same build
//! profile. First one client and then eight clients send requests in a closed loop: each client waits for a response
//! before it sends its next request.

#![expect(clippy::disallowed_methods, reason = "measures elapsed time")]

mod client;
mod floor;
mod stack;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline::ports::clock::{Clock as _, SystemClock};

use client::{Client, Response};
use floor::{Calls, Floor};
use stack::{Stack, Storage};
use touchline_bench::report::Report;

/// All scenarios, in the order of the report.
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

const FULL: Size = Size { single: 600, concurrent: 2_000, history: 10_000 };
const QUICK: Size = Size { single: 300, concurrent: 400, history: 1_000 };

/// All requests of a scenario are sent in blocks: so many with one client, and so many with eight. The fastest block counts,
/// because other programs on a shared machine only ever add time.
///
/// With one client, the processor waits between two requests. How long it takes to wake up depends on where the system runs
/// the two processes, and differs from connection to connection. So there are many blocks, each with a new connection.
const SINGLE_BLOCKS: usize = 15;
const CONCURRENT_BLOCKS: usize = 5;

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

/// The figures of one scenario.
#[derive(Debug, Clone, Copy)]
struct Measured {
    /// The median time of a request with one client, in the fastest block.
    single: Duration,
    /// The median time of a request with eight clients.
    p50: Duration,
    /// The time within which 99 of 100 requests of eight clients are answered.
    p99: Duration,
    /// Requests per second with eight clients.
    per_second: f64,
    cpu_per_request: Duration,
}

impl Measured {
    /// The figures before the first block.
    const WORST: Self = Self {
        single: Duration::MAX,
        p50: Duration::MAX,
        p99: Duration::MAX,
        per_second: 0.0,
        cpu_per_request: Duration::ZERO,
    };
}

#[tokio::main]
async fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let size = if is_quick { QUICK } else { FULL };
    let build = if cfg!(debug_assertions) { "plain build" } else { "optimised build" };
    let program =
        std::env::current_exe().expect("the path of this program is known").with_file_name("touchline");
    let mut report = Report::new(format!("local-bench, {build}"));
    for storage in [Storage::File, Storage::Memory] {
        run(&mut report, &program, storage, size).await;
    }
    report.finish();
}

/// A running stack, and what the scenarios need on it.
#[derive(Debug)]
struct Side {
    stack: Stack,
    fixture: Arc<Fixture>,
}

/// Measures two stacks with one kind of storage side by side: a fresh one, and one with a season and predictions.
async fn run(report: &mut Report, program: &Path, storage: Storage, size: Size) {
    let floor = Floor::start(storage).await;
    let mut stack = Stack::start(program, storage).await;
    let printed_after = stack.printed_after;
    let started = Instant::now();
    stack.log_in(0..1).await;
    let first_login = started.elapsed();
    stack.ready().await;
    let ready_after = printed_after + started.elapsed();
    let idle = idle_cpu(&stack).await;
    let fixture = Arc::new(Fixture::new(&stack, size).await);
    let after = Side { stack, fixture };
    import_season(&after.stack.address, 0).await;
    load(&after.fixture, Scenario::Prediction, 8, size.history).await;

    let mut stack = Stack::start(program, storage).await;
    stack.ready().await;
    let fixture = Arc::new(Fixture::new(&stack, size).await);
    let fresh = Side { stack, fixture };
    let memory_fresh = fresh.stack.memory();
    let measured = measure_all([&fresh, &after], &floor, size).await;
    let memory = after.stack.memory();
    let mut seasons = Vec::new();
    for number in 0..5 {
        seasons.push(import_season(&fresh.stack.address, number).await);
    }
    after.stack.stop().await;
    fresh.stack.stop().await;
    floor.stop();

    let name = if storage == Storage::File { "In a data folder" } else { "In memory (`--memory`)" };
    report.line(format!("\n**{name}**\n"));
    report.line("| figure | value |\n|---|---|");
    report.line(format!("| the address is printed after | {:.0} ms |", millis(printed_after)));
    report.line(format!("| a login that is sent at once takes | {:.0} ms |", millis(first_login)));
    report.line(format!("| the demo league is ready after | {:.1} s |", ready_after.as_secs_f64()));
    let times: Vec<String> = seasons.iter().map(|time| format!("{:.2}", time.as_secs_f64())).collect();
    report.line(format!("| imports of five seasons, one after another, take | {} s |", times.join(", ")));
    report.line(format!("| CPU while idle | {:.1} % |", 100.0 * idle));
    report.line(format!("| memory fresh, and after | {memory_fresh:.0} MB, {memory:.0} MB |"));
    report.line(
        "\n| request | floor | one client: fresh | after | 8 clients, requests/s: fresh | after | p50 | p99 | CPU per request |",
    );
    report.line("|---|---|---|---|---|---|---|---|---|");
    for (index, scenario) in SCENARIOS.into_iter().enumerate() {
        let (floor, [fresh, after]) = measured[index];
        report.line(format!(
            "| {} | {} | {:.2} ms | {:.2} ms | {:.0} | {:.0} | {:.1} ms | {:.1} ms | {:.2} ms |",
            scenario.name(),
            floor.map_or("–".to_owned(), |floor| format!("{:.2} ms", millis(floor))),
            millis(fresh.single),
            millis(after.single),
            fresh.per_second,
            after.per_second,
            millis(after.p50),
            millis(after.p99),
            millis(after.cpu_per_request)
        ));
    }
    let place = if storage == Storage::File { "file" } else { "memory" };
    for (index, scenario) in SCENARIOS.into_iter().enumerate() {
        let (floor, [fresh, after]) = measured[index];
        if let Some(floor) = floor {
            let ratio = fresh.single.as_secs_f64() / floor.as_secs_f64();
            report.ratio(format!("{}, {place}: stack to floor", scenario.name()), ratio);
        }
        let ratio = after.single.as_secs_f64() / fresh.single.as_secs_f64();
        report.ratio(format!("{}, {place}: after to fresh", scenario.name()), ratio);
    }
    let ratio = seasons[4].as_secs_f64() / seasons[0].as_secs_f64();
    report.ratio(format!("season, {place}: fifth import to first"), ratio);
}

/// The floor of a scenario, and the figures of the two stacks. The floor is `None` if the scenario has none.
type Compared = (Option<Duration>, [Measured; 2]);

/// Measures every scenario on both stacks. The result has the order of [`SCENARIOS`].
///
/// The requests are sent in blocks. The blocks of the floor and of the two stacks take turns, so that all of them see the
/// same load of the machine.
async fn measure_all(sides: [&Side; 2], floor: &Floor, size: Size) -> Vec<Compared> {
    let mut all = Vec::new();
    for scenario in SCENARIOS {
        let mut lowest_floor = None::<Duration>;
        let mut measured = [Measured::WORST; 2];
        let single = scenario.count(size.single) / SINGLE_BLOCKS;
        let concurrent = scenario.count(size.concurrent) / CONCURRENT_BLOCKS;
        for _ in 0..SINGLE_BLOCKS {
            if let Some(calls) = scenario.calls() {
                let block = floor.measure(calls, single).await;
                lowest_floor = Some(lowest_floor.map_or(block, |lowest| lowest.min(block)));
            }
            for (side, best) in sides.iter().zip(&mut measured) {
                best.single = best.single.min(load(&side.fixture, scenario, 1, single).await.single);
            }
        }
        for _ in 0..CONCURRENT_BLOCKS {
            for (side, best) in sides.iter().zip(&mut measured) {
                let before = side.stack.cpu();
                let block = load(&side.fixture, scenario, 8, concurrent).await;
                let requests = u32::try_from(concurrent).expect("the count is small");
                let cpu_per_request = side.stack.cpu().saturating_sub(before) / requests;
                if block.per_second > best.per_second {
                    *best = Measured { single: best.single, cpu_per_request, ..block };
                }
            }
        }
        all.push((lowest_floor, measured));
    }
    all
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
        single: percentile(50),
        p50: percentile(50),
        p99: percentile(99),
        per_second: f64::from(requests) / elapsed.as_secs_f64(),
        cpu_per_request: Duration::ZERO,
    }
}

impl Scenario {
    fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Me => "me",
            Self::Events => "list of matches",
            Self::Prediction => "prediction",
            Self::Daily => "daily coins",
            Self::Join => "join a room",
            Self::Login => "login, with a read of the SMS log",
        }
    }

    /// Returns the store calls of one request and of the deliveries that it waits for. `None` for logins, whose
    /// reads of the SMS log differ from login to login.
    fn calls(self) -> Option<Calls> {
        let (reads, writes) = match self {
            Self::Health => (1, 0),
            Self::Me => (4, 0),
            Self::Events => (3, 0),
            Self::Prediction => (4, 3),
            Self::Daily => (2, 1),
            Self::Join => (7, 4),
            Self::Login => return None,
        };
        Some(Calls { reads, writes })
    }

    /// Returns how many requests to send in this scenario. Most scenarios send `count` requests. `Daily` and `Login`
    /// send fewer, because each claim of the daily coins needs its own user and each login creates a user.
    fn count(self, count: usize) -> usize {
        match self {
            Self::Daily => count / 4,
            Self::Login => count / 8,
            _ => count,
        }
    }
}

impl Fixture {
    async fn new(stack: &Stack, size: Size) -> Self {
        let mut client = Client::connect(&stack.address).await;
        // Each claim of the daily coins needs its own user.
        let claims = Scenario::Daily.count(size.single) + Scenario::Daily.count(size.concurrent);
        let tokens = stack.log_in(1..u32::try_from(claims).expect("the count is small") + 1).await;
        let events = client.get("/api/auth/events?status=scheduled&per_page=100", &tokens[0]).await.json();
        let ids = |list: &Value, id: &str| -> Vec<Value> {
            list["data"].as_array().expect("a list").iter().map(|row| row[id].clone()).collect()
        };
        let rooms = ids(&events, "chat_room_id");
        // A match that kicks off during the benchmark would reject predictions.
        let earliest = SystemClock.now() + TimeDelta::hours(1);
        let is_late = |row: &&Value| {
            let start = row["start_time"].as_str().and_then(|time| time.parse::<DateTime<Utc>>().ok());
            start.is_some_and(|start| start > earliest)
        };
        let events = events["data"].as_array().expect("a list").iter().filter(is_late);
        let events = events.filter_map(|row| row["id"].as_u64()).collect();
        let rooms = rooms.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let fixture =
            Self { address: stack.address.clone(), tokens, events, rooms, sent: Default::default() };
        // Every open match has a prediction from the start. Otherwise the first list of matches would be shorter work
        // than the second: a match without predictions has no counters to read.
        let token = stack.log_in(0..1).await.remove(0);
        for event in &fixture.events {
            fixture.predict(&mut client, &token, *event).await;
        }
        fixture
    }

    async fn predict(&self, client: &mut Client, token: &str, event: u64) -> Response {
        let body = json!({ "event_id": event, "prediction": "home", "confidence": 50 });
        client.post("/api/auth/predictions", token, &body).await
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
                (self.predict(client, token, event).await, 201)
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
async fn import_season(address: &str, number: usize) -> Duration {
    let mut client = Client::connect(address).await;
    let started = Instant::now();
    let path = "/2015-03-31/functions/feed/invocations";
    let response = client.post(path, "", &season(number)).await;
    let report = response.json();
    let took = started.elapsed();
    // The sport is new in the first season only: 380 matches, 20 teams and the tournament are always new.
    let expected = if number == 0 { 401..=402 } else { 401..=401 };
    assert!(report["created"].as_u64().is_some_and(|created| expected.contains(&created)), "{report}");
    took
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
