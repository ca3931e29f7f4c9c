//! Measures how long the Lambda function `points` takes to settle a match with 1,000 to 1,000,000 predictions. For
//! comparison, also measures the same number of plain puts on the same store.
//!
//! `points-bench [--quick] [--write | --check]`

#![expect(clippy::print_stdout, reason = "prints its results")]
#![expect(clippy::disallowed_methods, reason = "measures time")]

use std::time::Instant;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{PutRequest, WriteRequest};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{self, StreamExt as _};
use serde_json::json;
use tokio::process::Command;
use touchline::App;
use touchline::config::Config;
use touchline::domain::UserId;
use touchline::domain::catalog::{Key, Match, Score, Status};
use touchline::domain::prediction::{Confidence, Forecast, Pick, Stamp};
use touchline::storage;
use touchline::storage::catalog::Replacement;
use touchline::storage::predictions::{NewPrediction, item};
use touchline_bench::report::Report;
use touchline_bench::{StoreProcess, config, peak_memory, serve_store};

/// The number of concurrent batches of puts. `points` makes as many concurrent calls: 8 shards with 2 batches
/// each.
const CONCURRENCY: usize = 16;

const SHARDS: u8 = 64;

/// The results of one round: times in seconds, and memory in MB.
struct Figures {
    puts_before: f64,
    settling: f64,
    puts_after: f64,
    peak_memory: f64,
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("store") => serve_store().await,
        Some("settle") => settle(&arguments[2], arguments[3].parse().expect("the id of a match")).await,
        _ => measure().await,
    }
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("a valid time")
}

/// Runs the `points` function and prints the time in seconds, the number of scored predictions and the peak
/// memory in MB. `round` runs `settle` in a separate process, so that the peak memory is that of `points` alone.
async fn settle(url: &str, event: u32) {
    // The rate limit protects the partitions of DynamoDB. Without it, this measures the work.
    let app = App::new(Config { points_per_second: 24_000_000, ..config(url).0 });
    let deadline = app.clock.now() + TimeDelta::hours(1);
    let started = Instant::now();
    let report =
        points::handle(app, json!({ "event_id": event }), deadline).await.expect("the function succeeds");
    let took = started.elapsed().as_secs_f64();
    let settled = &report["matches"][0];
    assert_eq!(settled["finished"], true, "{report}");
    println!("{took} {} {}", settled["scored"], peak_memory());
}

fn prediction(event_id: u32, user: u32) -> NewPrediction {
    let score =
        Score { home: u16::try_from(user % 4).unwrap_or(0), away: u16::try_from(user % 3).unwrap_or(0) };
    NewPrediction {
        event_id,
        shards: SHARDS,
        user_id: UserId(user),
        forecast: Forecast::new(Pick::of(score), Some(score)).expect("the forecast is valid"),
        confidence: Confidence::new(i64::from(user % 101)).expect("the confidence is valid"),
        stamp: Stamp::new(at("2026-11-15T14:55:00Z"), user),
    }
}

/// Writes every prediction of a match in batches of 25.
async fn put_predictions(client: &Client, table: &str, event: u32, count: u32) {
    let batches = (0..count.div_ceil(25)).map(|batch| {
        let first = batch * 25 + 1;
        async move {
            let puts: Vec<WriteRequest> = (first..=count.min(first + 24))
                .map(|user| {
                    let put = PutRequest::builder().set_item(Some(item(&prediction(event, user)))).build();
                    WriteRequest::builder().put_request(put.expect("the put is complete")).build()
                })
                .collect();
            let done = client
                .batch_write_item()
                .request_items(table, puts)
                .send()
                .await
                .expect("the write succeeds");
            assert!(done.unprocessed_items().is_none_or(std::collections::HashMap::is_empty));
        }
    });
    stream::iter(batches).buffer_unordered(CONCURRENCY).collect::<Vec<()>>().await;
}

async fn put_match(app: &App, event: u32) {
    let row = Match {
        id: event,
        tournament_id: 1,
        home_team_id: 1,
        away_team_id: 2,
        start: at("2026-11-15T15:00:00Z"),
        status: Status::Finished,
        venue: None,
        score: Some(Score { home: 2, away: 1 }),
        room: format!("!match{event}:touchline.local").into(),
        room_name_hash: 0,
        shards: SHARDS,
        pause: None,
        revision: 1,
        key: Key(u64::from(event)),
        as_of: at("2026-11-15T17:00:00Z"),
    };
    app.store.put_rows(&[Replacement { row, read: None }]).await.expect("the match is written");
}

/// Writes every prediction of a match and returns the time in seconds.
async fn timed_put(client: &Client, table: &str, event: u32, count: u32) -> f64 {
    let started = Instant::now();
    put_predictions(client, table, event, count).await;
    started.elapsed().as_secs_f64()
}

/// Settles one match with `count` predictions on a new store.
async fn round(event: u32, count: u32) -> Figures {
    let program = std::env::current_exe().expect("the path of this program is known");
    let server = StoreProcess::start().await;
    let (config, _) = config(&server.url);
    let table = config.tables.predictions.clone();
    let client = storage::connect(&config.aws, touchline::ports::aws_http::client());
    let app = App::new(config);
    put_match(&app, event).await;
    put_predictions(&client, &table, event, count).await;
    // The baseline: puts that write every item again, without conditions. It is measured before and after
    // `points`, because the speed of a shared machine varies.
    let before = timed_put(&client, &table, event, count).await;
    let run = Command::new(&program)
        .args(["settle", &server.url, &event.to_string()])
        .output()
        .await
        .expect("the process runs");
    let after = timed_put(&client, &table, event, count).await;
    let output = String::from_utf8(run.stdout).expect("the output is text");
    let figures: Vec<f64> =
        output.split_whitespace().map(|word| word.parse().expect("the output contains numbers")).collect();
    let [settling, scored, peak_memory] = figures.as_slice() else {
        panic!("the run failed: {}", String::from_utf8_lossy(&run.stderr))
    };
    assert!((scored - f64::from(count)).abs() < 0.5, "{scored} of {count}");
    Figures { puts_before: before, settling: *settling, puts_after: after, peak_memory: *peak_memory }
}

/// Returns the round with the median settling time. A single short round is too noisy on a shared machine.
async fn median_round(event: u32, count: u32, rounds: u32) -> Figures {
    let mut figures = Vec::new();
    for _ in 0..rounds {
        figures.push(round(event, count).await);
    }
    figures.sort_by(|a, b| a.settling.total_cmp(&b.settling));
    figures.swap_remove(figures.len() / 2)
}

async fn measure() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let sizes = if is_quick {
        vec![(1, 1_000, 3), (2, 10_000, 1)]
    } else {
        vec![(1, 1_000, 15), (2, 10_000, 15), (3, 100_000, 3), (4, 1_000_000, 1)]
    };
    let mut report = Report::new("points-bench");
    report.line("| predictions | puts before | points | puts after | ratio | per prediction | peak memory |");
    report.line("|---|---|---|---|---|---|---|");
    let mut per_prediction = Vec::new();
    for (event, count, rounds) in sizes {
        let Figures { puts_before, settling, puts_after, peak_memory } =
            median_round(event, count, rounds).await;
        per_prediction.push(settling / f64::from(count));
        let ratio = settling / f64::midpoint(puts_before, puts_after);
        report.line(format!(
            "| {count} | {puts_before:.2} s | {settling:.2} s | {puts_after:.2} s | {ratio:.2} | {:.1} µs | {peak_memory:.1} MB |",
            settling / f64::from(count) * 1e6,
        ));
        if count == 10_000 {
            report.ratio("points to puts, 10,000 predictions", ratio);
        }
    }
    report.ratio("time per prediction, 10,000 to 1,000 predictions", per_prediction[1] / per_prediction[0]);
    report.finish();
}
