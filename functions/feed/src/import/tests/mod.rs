mod crashes;
mod documents;
mod featured;
mod promote;
mod races;
mod rooms;
mod snapshot;
mod sources;
mod teams;

use std::sync::Arc;

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::catalog::Catalog;
use touchline::storage::catalog::load_latest;
use touchline_testing::TestApp;

use super::import;
use crate::FeedError;

async fn app() -> TestApp {
    TestApp::serving(&[]).start().await
}

async fn run(app: &TestApp, document: &Value) -> Value {
    app.invoke(crate::handle, document.clone()).await
}

/// Imports a document without the lease of `feed`, as a run does whose lease has ended. So imports can overlap, and a crash
/// leaves no lease.
async fn run_without_lease(app: &App, document: &Value) -> Result<Value, FeedError> {
    let until = app.clock.now() + TimeDelta::minutes(5);
    let report = import(app, crate::formats::read(document)?, until).await?;
    Ok(serde_json::to_value(report).unwrap())
}

/// Reads the published catalog.
async fn catalog(app: &TestApp) -> Arc<Catalog> {
    load_latest(&app.store, None).await.unwrap().unwrap().catalog
}

/// Returns the numbers of created, updated, unchanged and rejected rows in a report.
fn counts(report: &Value) -> [u64; 4] {
    ["created", "updated", "unchanged", "rejected"].map(|name| report[name].as_u64().unwrap())
}

/// Returns the sample document in our own format.
fn sample() -> Value {
    serde_json::from_str(include_str!("../../../../../events/feed/touchline.json")).unwrap()
}

fn football_data() -> Value {
    serde_json::from_str(include_str!("../../../../../events/feed/football-data.json")).unwrap()
}

fn openfootball() -> Value {
    serde_json::from_str(include_str!("../../../../../events/feed/openfootball.json")).unwrap()
}

/// Returns the sample with `at` as its `as_of` time. In the match at index `event`, `field` has the given value.
fn changed(at: &str, event: usize, field: &str, value: Value) -> Value {
    let mut document = sample();
    document["as_of"] = json!(at);
    document["events"][event][field] = value;
    document
}

/// Returns the encoded bytes of every published chunk.
async fn bytes(app: &TestApp) -> Vec<(String, Vec<u8>)> {
    let catalog = catalog(app).await;
    catalog.chunks().iter().map(|(name, chunk)| (name.to_string(), chunk.encode().unwrap())).collect()
}
