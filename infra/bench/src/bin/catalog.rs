//! The catalog at 100,000 matches: what a page costs, first or last, with filters or without; what a
//! cold function pays to load it all.
//!
//! The store runs in a process of its own, and so does the cold function, so that memory is their own.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]
#![expect(clippy::disallowed_methods, reason = "it measures time")]

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
use touchline_bench::{StoreProcess, config, memory, serve_store};

const MATCHES: u32 = 100_000;
const TEAMS: u32 = 2_000;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("store") => serve_store().await,
        Some("cold") => cold(&arguments[2]).await,
        _ => measure().await,
    }
}

/// What a function does between its first request and the catalog in its hands.
async fn cold(url: &str) {
    let (config, _) = config(url);
    let app = App::new(config);
    app.store.ping().await.expect("a store");
    let before = memory("VmRSS:");
    let started = Instant::now();
    let catalog = app.catalog().await.expect("a catalog");
    let took = started.elapsed();
    println!(
        "{} matches loaded in {:.0} ms; the process held {before:.1} MB before and {:.1} MB at most",
        catalog.events().count(),
        took.as_secs_f64() * 1000.0,
        memory("VmHWM:"),
    );
}

fn base() -> Chunk {
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
                key: Key::of("bench", Kind::Team, &id.to_string()),
                as_of,
            })
            .collect(),
        matches: Vec::new(),
    }
}

/// Ten years of matches up to a year from now, evenly spread.
fn matches(now: DateTime<Utc>) -> BTreeMap<ChunkName, Chunk> {
    let first = now - TimeDelta::days(9 * 365);
    let step = TimeDelta::days(10 * 365) / i32::try_from(MATCHES).expect("a small number");
    let mut chunks: BTreeMap<ChunkName, Chunk> = BTreeMap::new();
    for id in 1..=MATCHES {
        let start = first + step * i32::try_from(id).expect("a small number");
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
    for (name, chunk) in matches(now).into_iter().chain([(ChunkName::Base, base())]) {
        let encoded = chunk.encode().expect("a chunk");
        bytes += encoded.len();
        chunks += 1;
        let place = store.put_chunk("1.bench", name, &encoded).await.expect("a write");
        index.set(name, place);
    }
    assert!(store.publish_index(None, "1.bench", &index).await.expect("a write"));
    (bytes, chunks)
}

async fn measure() {
    let itself = std::env::current_exe().expect("this program");
    let server = StoreProcess::start().await;
    let url = server.url.as_str();
    let (config, _) = config(url);
    let app = App::new(config);
    let now = app.clock.now();
    let (bytes, chunks) = publish(&app.store, now).await;
    println!("{MATCHES} matches in {chunks} chunks, {} KB stored", bytes / 1024);

    println!("\nCold, five processes one after another:");
    for _ in 0..5 {
        Command::new(&itself).args(["cold", url]).status().await.expect("a run");
    }

    let catalog = load_latest(&app.store, None).await.expect("a read").expect("a catalog").catalog;
    app.catalog().await.expect("a catalog");
    println!("\nA page of 20, warm:\n");
    println!("| page | CPU, mean of 200 | DynamoDB calls | read units | rounds |");
    println!("|---|---|---|---|---|");
    let today = NaiveDate::from_ymd_opt(now.year(), now.month(), now.day());
    let all = EventFilter::default();
    for (name, filter, page) in [
        ("first", all, 1),
        ("middle", all, 2_500),
        ("last", all, 5_000),
        ("past the end", all, 1_000_000),
        ("finished, last", EventFilter { status: Some(ShownStatus::Finished), ..all }, 4_500),
        ("one team, first", EventFilter { team_id: Some(7), ..all }, 1),
        ("one tournament, last", EventFilter { tournament_id: Some(3), ..all }, 100),
        ("one day", EventFilter { date: today, ..all }, 1),
        (
            "everything at once",
            EventFilter {
                tournament_id: Some(3),
                team_id: Some(7),
                date: today,
                status: Some(ShownStatus::Live),
            },
            1,
        ),
    ] {
        let paging = Paging { page, per_page: 20 };
        let started = Instant::now();
        for _ in 0..200 {
            std::hint::black_box(catalog.list_events(std::hint::black_box(&filter), paging));
        }
        let each = started.elapsed().as_secs_f64() * 1_000.0 / 200.0;
        let (_, cost) = meter::measure(async {
            let catalog = app.catalog().await.expect("a catalog");
            let page = catalog.list_events(&filter, paging);
            let ids: Vec<u32> = page.rows.iter().map(|event| event.id).collect();
            app.store.prediction_counts(&ids).await.expect("counts")
        })
        .await;
        let meter::Cost { calls, rounds, read_units, .. } = cost;
        println!("| {name} | {each:.3} ms | {calls} | {read_units} | {rounds} |");
    }
}
