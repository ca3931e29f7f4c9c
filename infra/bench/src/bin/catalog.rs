//! Measures a catalog of 100,000 matches: the cost of pages with and without filters, and the time and memory that
//! a cold Lambda function needs to load the catalog.
//!
//! The store runs in its own process, and every cold start runs in a new process. The measured memory is
//! therefore only that of the cold Lambda function.
//!
//! `catalog-bench [--quick] [--write | --check]`

#![expect(clippy::print_stdout, reason = "prints its results")]
#![expect(clippy::cast_precision_loss, reason = "the counts are far below 2^52")]
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
use touchline_bench::report::Report;
use touchline_bench::{StoreProcess, config, memory_now, peak_memory, serve_store};

const TEAMS: u32 = 2_000;

/// How many blocks the repetitions are divided into.
const BLOCKS: u32 = 10;

/// How many matches are scanned to measure the mean CPU time of a page.
const SCANNED: u32 = 20_000_000;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("store") => serve_store().await,
        Some("cold") => load_cold(&arguments[2]).await,
        _ => measure().await,
    }
}

/// Loads the catalog as a cold Lambda function does during its first request. Prints the time in seconds, and the
/// memory before the load and at the peak in MB.
async fn load_cold(url: &str) {
    let (config, _) = config(url);
    let app = App::new(config);
    app.store.ping().await.expect("the store responds");
    let before = memory_now();
    let started = Instant::now();
    let catalog = app.catalog().await.expect("the catalog loads");
    let took = started.elapsed();
    assert!(catalog.events().next().is_some(), "the catalog has matches");
    println!("{} {before} {}", took.as_secs_f64(), peak_memory());
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
                short_name: None,
                key: Key::of("bench", Kind::Team, &id.to_string()),
                as_of,
            })
            .collect(),
        matches: Vec::new(),
    }
}

/// Builds matches that are spread evenly over ten years: the past nine years and the next year.
fn match_chunks(matches: u32, now: DateTime<Utc>) -> BTreeMap<ChunkName, Chunk> {
    let first = now - TimeDelta::days(9 * 365);
    let step = TimeDelta::days(10 * 365) / i32::try_from(matches).expect("the number is small");
    let mut chunks: BTreeMap<ChunkName, Chunk> = BTreeMap::new();
    for id in 1..=matches {
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
            pause: None,
            revision: 1,
            key: Key::of("bench", Kind::Event, &id.to_string()),
            as_of: start,
        };
        chunks.entry(event.chunk()).or_default().matches.push(event);
    }
    chunks
}

async fn publish(store: &Store, matches: u32, now: DateTime<Utc>) -> (usize, usize) {
    let mut index = Index::default();
    let (mut bytes, mut chunks) = (0, 0);
    for (name, chunk) in match_chunks(matches, now).into_iter().chain([(ChunkName::Base, base_chunk())]) {
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
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let mut report = Report::new("catalog-bench");
    let small = measure_catalog(1_000, None).await;
    let middle = measure_catalog(10_000, is_quick.then_some(&mut report)).await;
    if !is_quick {
        measure_catalog(100_000, Some(&mut report)).await;
    }
    // The first page needs a scan of all matches, and a load decodes them. So both grow with the catalog, but not
    // faster than it: the ratios stay near or below 10.
    report.ratio("cold load, 10,000 to 1,000 matches", middle.loading / small.loading);
    report.ratio("CPU of the first page, 10,000 to 1,000 matches", middle.page / small.page);
    report.finish();
}

/// Times in seconds.
struct Figures {
    /// The median time of a cold load.
    loading: f64,
    /// The CPU time of the first page, in the fastest block.
    page: f64,
}

async fn measure_catalog(matches: u32, mut report: Option<&mut Report>) -> Figures {
    let mut line = |text: String| {
        if let Some(report) = report.as_deref_mut() {
            report.line(text);
        }
    };
    let repetitions = SCANNED / matches;
    let program = std::env::current_exe().expect("the path of this program is known");
    let server = StoreProcess::start().await;
    let url = server.url.as_str();
    let (config, _) = config(url);
    let app = App::new(config);
    let now = app.clock.now();
    let (bytes, chunks) = publish(&app.store, matches, now).await;
    line(format!(
        "{matches} matches make {chunks} chunks, which take {:.1} MB in the table.\n",
        bytes as f64 / 1e6
    ));

    line("| cold load | time | memory before | peak memory |\n|---|---|---|---|".into());
    let mut loading = Vec::new();
    for run in 1..=5 {
        let cold = Command::new(&program).args(["cold", url]).output().await.expect("the process runs");
        let output = String::from_utf8(cold.stdout).expect("the output is text");
        let figures: Vec<f64> = output.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [seconds, before, peak] = figures[..] else {
            panic!("the load failed: {}", String::from_utf8_lossy(&cold.stderr))
        };
        line(format!("| {run} | {:.0} ms | {before:.1} MB | {peak:.1} MB |", seconds * 1e3));
        loading.push(seconds);
    }
    loading.sort_by(f64::total_cmp);

    let loaded = load_latest(&app.store, None).await.expect("the store responds");
    let catalog = loaded.expect("the catalog is published").catalog;
    app.catalog().await.expect("the catalog loads");
    line(format!(
        "\n| page of 20 matches, warm | CPU, mean of {repetitions} | DynamoDB calls | read units | rounds |"
    ));
    line("|---|---|---|---|---|".into());
    let mut first_page = None;
    for (name, filter, page) in pages(matches, now) {
        let paging = Paging { page, per_page: 20 };
        // Another program can spoil a block, so the fastest block counts for the ratio.
        let (mut total, mut fastest) = (0.0, f64::INFINITY);
        for _ in 0..BLOCKS {
            let started = Instant::now();
            for _ in 0..repetitions / BLOCKS {
                std::hint::black_box(catalog.list_events(std::hint::black_box(&filter), paging));
            }
            let seconds = started.elapsed().as_secs_f64();
            total += seconds;
            fastest = seconds.min(fastest);
        }
        let mean = total / f64::from(repetitions);
        first_page.get_or_insert(fastest / f64::from(repetitions / BLOCKS));
        let (_, cost) = meter::measure(async {
            let catalog = app.catalog().await.expect("the catalog loads");
            let page = catalog.list_events(&filter, paging);
            let ids: Vec<u32> = page.rows.iter().map(|event| event.id).collect();
            app.store.prediction_counts(&ids).await.expect("the counts are read")
        })
        .await;
        let meter::Cost { calls, rounds, read_units, .. } = cost;
        line(format!("| {name} | {:.3} ms | {calls} | {read_units} | {rounds} |", mean * 1e3));
    }
    Figures { loading: loading[loading.len() / 2], page: first_page.unwrap_or_default() }
}

/// Returns the pages to measure, each with a label, a filter and a page number.
fn pages(matches: u32, now: DateTime<Utc>) -> [(&'static str, EventFilter, usize); 9] {
    let today = NaiveDate::from_ymd_opt(now.year(), now.month(), now.day());
    let all = EventFilter::default();
    let last = matches as usize / 20;
    let all_filters = EventFilter {
        tournament_id: Some(3),
        team_id: Some(7),
        date: today,
        status: Some(ShownStatus::Live),
        ..all
    };
    [
        ("first", all, 1),
        ("middle", all, last / 2),
        ("last", all, last),
        ("past the end", all, 1_000_000),
        ("finished, last", EventFilter { status: Some(ShownStatus::Finished), ..all }, last * 9 / 10),
        ("one team, first", EventFilter { team_id: Some(7), ..all }, 1),
        ("one tournament, last", EventFilter { tournament_id: Some(3), ..all }, (last / 50).max(1)),
        ("one day", EventFilter { date: today, ..all }, 1),
        ("all filters together", all_filters, 1),
    ]
}
