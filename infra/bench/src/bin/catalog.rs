//! Measures a catalog of 100,000 matches: the cost of pages with and without filters, and the time and memory that
//! a cold function needs to load the catalog.
//!
//! The store and the cold function run in separate processes, so that their memory is measured separately.

#![expect(clippy::print_stdout, reason = "prints its results")]
#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::collections::BTreeMap;
use std::time::Instant;

use chrono::{DateTime, Datelike as _, NaiveDate, TimeDelta, Utc};
use tokio::process::Command;
use touchline::App;
use touchline::domain::catalog::{
    Chunk, ChunkName, EventFilter, Key, Kind, Match, Paging, ShownStatus, Sport, Status, Team, Tournament,
};
use touchline::storage::catalog::{Index, load_latest};
use touchline::storage::{Store, meter};
use touchline_bench::{StoreProcess, config, memory_now, peak_memory, serve_store};

const MATCHES: u32 = 100_000;
const TEAMS: u32 = 2_000;

/// How many times each page is listed to measure its mean CPU time.
const REPETITIONS: u32 = 200;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("store") => serve_store().await,
        Some("cold") => load_cold(&arguments[2]).await,
        _ => measure().await,
    }
}

/// Loads the catalog as a cold function does during its first request.
async fn load_cold(url: &str) {
    let (config, _) = config(url);
    let app = App::new(config);
    app.store.ping().await.expect("the store responds");
    let before = memory_now();
    let started = Instant::now();
    let catalog = app.catalog().await.expect("the catalog loads");
    let took = started.elapsed();
    println!(
        "{} matches loaded in {:.0} ms; process memory {before:.1} MB before loading, {:.1} MB at the peak",
        catalog.events().count(),
        took.as_secs_f64() * 1000.0,
        peak_memory(),
    );
}

fn base_chunk() -> Chunk {
    let as_of = DateTime::UNIX_EPOCH;
    Chunk {
        sports: vec![Sport { id: 1, name: "Football".into(), slug: "football".into(), key: Key(1), as_of }],
        tournaments: (1..=50)
            .map(|id| Tournament {
                id,
                name: format!("Tournament {id}"),
                logo: Some(format!("https://example.org/tournaments/{id}.png")),
                featured: id == 1,
                key: Key::of("bench", Kind::Tournament, &id.to_string()),
                as_of,
            })
            .collect(),
        teams: (1..=TEAMS)
            .map(|id| Team {
                id,
                name: format!("Athletic Club {id}"),
                slug: format!("athletic-club-{id}"),
                sport_id: 1,
                logo: Some(format!("https://example.org/teams/{id}.png")),
                country: Some("Albion".into()),
                founded: Some(1900),
                venue: None,
                key: Key::of("bench", Kind::Team, &id.to_string()),
                as_of,
            })
            .collect(),
        matches: Vec::new(),
    }
}

/// Builds matches that are spread evenly over ten years: the past nine years and the next year.
fn match_chunks(now: DateTime<Utc>) -> BTreeMap<ChunkName, Chunk> {
    let first = now - TimeDelta::days(9 * 365);
    let step = TimeDelta::days(10 * 365) / i32::try_from(MATCHES).expect("the number is small");
    let mut chunks: BTreeMap<ChunkName, Chunk> = BTreeMap::new();
    for id in 1..=MATCHES {
        let start = first + step * i32::try_from(id).expect("the number is small");
        let event = Match {
            id,
            tournament_id: 1 + id % 50,
            home_team_id: 1 + id % TEAMS,
            away_team_id: 1 + (id * 7 + 1) % TEAMS,
            start,
            status: match now - start {
                age if age < TimeDelta::zero() => Status::Scheduled,
                age if age < TimeDelta::hours(2) => Status::Live,
                _ => Status::Finished,
            },
            venue: Some(format!("Ground number {}", id % 3_000).into()),
            score: Some(touchline::domain::catalog::Score { home: 2, away: 1 }),
            room: format!("!match{id}:touchline.example.org").into(),
            room_name_hash: 0,
            shards: 4,
            revision: 1,
            key: Key::of("bench", Kind::Event, &id.to_string()),
            as_of: start,
        };
        chunks.entry(event.chunk()).or_default().matches.push(event);
    }
    chunks
}

async fn publish(store: &Store, now: DateTime<Utc>) -> (usize, usize) {
    let mut index = Index::default();
    let (mut bytes, mut chunks) = (0, 0);
    for (name, chunk) in match_chunks(now).into_iter().chain([(ChunkName::Base, base_chunk())]) {
        let encoded = chunk.encode().expect("the chunk is encoded");
        bytes += encoded.len();
        chunks += 1;
        let place = store.put_chunk("1.bench", name, &encoded).await.expect("the write succeeds");
        index.set(name, place);
    }
    assert!(store.publish_index(None, "1.bench", &index).await.expect("the write succeeds"));
    (bytes, chunks)
}

async fn measure() {
    let program = std::env::current_exe().expect("the path of this program is known");
    let server = StoreProcess::start().await;
    let url = server.url.as_str();
    let (config, _) = config(url);
    let app = App::new(config);
    let now = app.clock.now();
    let (bytes, chunks) = publish(&app.store, now).await;
    println!("{MATCHES} matches in {chunks} chunks, {} KB stored", bytes / 1024);

    println!("\nCold starts, five processes one after another:");
    for _ in 0..5 {
        Command::new(&program).args(["cold", url]).status().await.expect("the process runs");
    }

    let loaded = load_latest(&app.store, None).await.expect("the store responds");
    let catalog = loaded.expect("the catalog is published").catalog;
    app.catalog().await.expect("the catalog loads");
    println!("\nA page of 20 matches, warm:\n");
    println!("| page | CPU, mean of {REPETITIONS} | DynamoDB calls | read units | rounds |");
    println!("|---|---|---|---|---|");
    for (name, filter, page) in pages(now) {
        let paging = Paging { page, per_page: 20 };
        let started = Instant::now();
        for _ in 0..REPETITIONS {
            std::hint::black_box(catalog.list_events(std::hint::black_box(&filter), paging));
        }
        let mean = started.elapsed().as_secs_f64() * 1_000.0 / f64::from(REPETITIONS);
        let (_, cost) = meter::measure(async {
            let catalog = app.catalog().await.expect("the catalog loads");
            let page = catalog.list_events(&filter, paging);
            let ids: Vec<u32> = page.rows.iter().map(|event| event.id).collect();
            app.store.prediction_counts(&ids).await.expect("the counts are read")
        })
        .await;
        let meter::Cost { calls, rounds, read_units, .. } = cost;
        println!("| {name} | {mean:.3} ms | {calls} | {read_units} | {rounds} |");
    }
}

/// Returns the pages to measure, each with a label, a filter and a page number.
fn pages(now: DateTime<Utc>) -> [(&'static str, EventFilter, usize); 9] {
    let today = NaiveDate::from_ymd_opt(now.year(), now.month(), now.day());
    let all = EventFilter::default();
    let all_filters = EventFilter {
        tournament_id: Some(3),
        team_id: Some(7),
        date: today,
        status: Some(ShownStatus::Live),
    };
    [
        ("first", all, 1),
        ("middle", all, 2_500),
        ("last", all, 5_000),
        ("past the end", all, 1_000_000),
        ("finished, last", EventFilter { status: Some(ShownStatus::Finished), ..all }, 4_500),
        ("one team, first", EventFilter { team_id: Some(7), ..all }, 1),
        ("one tournament, last", EventFilter { tournament_id: Some(3), ..all }, 100),
        ("one day", EventFilter { date: today, ..all }, 1),
        ("all filters together", all_filters, 1),
    ]
}
