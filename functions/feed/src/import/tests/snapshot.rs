use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use chrono::TimeDelta;
use serde_json::json;
use touchline::App;
use touchline::domain::catalog::{Catalog, Chunk, Key, Kind, Match};
use touchline::storage::catalog::load_latest;
use touchline_testing::{Fault, TestApp};

use super::{app, bytes, catalog, changed, counts, run, run_without_lease, sample};

/// Returns an app with an empty catalog cache, as in a new process.
fn new_environment(app: &TestApp) -> App {
    App { catalog_cache: Arc::default(), ..App::clone(app) }
}

#[tokio::test(start_paused = true)]
async fn an_empty_document_publishes_no_snapshot() {
    let app = app().await;
    for document in [
        json!({ "format": "touchline" }),
        json!({ "format": "football-data.org/v4", "document": { "matches": [] } }),
    ] {
        run(&app, &document).await;
        assert!(load_latest(&app.store, None).await.unwrap().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_match_can_move_to_another_month() {
    let app = app().await;
    run(&app, &sample()).await;
    // The document contains only the moved match, and no other match of its old month.
    let moved = json!({ "format": "touchline", "as_of": "2026-11-15T12:01:00Z", "events": [{
        "id": 1, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
        "start_time": "2027-02-01T15:00:00Z", "status": "scheduled",
    }] });
    assert_eq!(counts(&run(&app, &moved).await), [0, 1, 0, 0]);
    let catalog = catalog(&app).await;
    assert_eq!(catalog.events().count(), 4);
    assert_eq!(catalog.event(1).unwrap().start.to_rfc3339(), "2027-02-01T15:00:00+00:00");
}

/// A chunk holds the matches of one month, which can be more than fit into one item.
#[tokio::test(start_paused = true)]
async fn a_large_chunk_is_stored_in_parts() {
    let app = app().await;
    run(&app, &sample()).await;
    let one = catalog(&app).await.event(1).unwrap().clone();
    let mut chunk = Chunk::default();
    for id in 1..=40_000_u32 {
        // Hashes do not compress, so the chunk stays large.
        let venue = format!("{:016x}", Key::of("venue", Kind::Event, &id.to_string()).0);
        chunk.matches.push(Match { id, venue: Some(venue.into()), ..one.clone() });
    }
    let bytes = chunk.encode().unwrap();
    let part = 31 * 1024;
    assert!(bytes.len() > part, "{} bytes fit into one part", bytes.len());
    let (name, store) = (one.chunk(), &app.store);
    let loaded = load_latest(store, None).await.unwrap().unwrap();
    let mut index = loaded.index.clone();
    index.set(name, store.put_chunk("2.large", name, &bytes).await.unwrap());
    assert!(store.publish_index(Some(&loaded.head), "2.large", &index).await.unwrap());
    let parts = app.dump().await.matches(&format!("S(\"snapshot#2.large#{name}#")).count();
    assert_eq!(parts, bytes.len().div_ceil(part));
    assert_eq!(catalog(&app).await.chunks()[&name].matches.len(), 40_000);
}

#[tokio::test(start_paused = true)]
async fn a_new_environment_loads_only_the_months_that_it_needs() {
    let app = app().await;
    run(&app, &changed("2026-11-15T12:00:00Z", 3, "start_time", json!("2027-05-05T15:00:00Z"))).await;
    let chunks = |catalog: &Catalog| catalog.chunks().keys().map(ToString::to_string).collect::<Vec<_>>();
    let new = new_environment(&app);
    assert_eq!(chunks(&new.teams().await.unwrap()), ["base"]);
    assert_eq!(chunks(&new.catalog_with(&[1, 3]).await.unwrap()), ["base", "2026-11"]);
    // The match 4 is not in one of the months around now.
    assert!(new.catalog_with(&[1, 4]).await.unwrap().event(4).is_some());
    assert_eq!(chunks(&new.teams().await.unwrap()), ["base", "2026-11", "2027-05"]);
    assert!(new.catalog_with(&[99]).await.unwrap().event(99).is_none());
    assert_eq!(new_environment(&app).catalog().await.unwrap().events().count(), 4);

    // After a change, chunks that were loaded and did not change are kept.
    let mut document = changed("2026-11-15T12:02:00Z", 0, "status", json!("postponed"));
    document["events"].as_array_mut().unwrap().truncate(1);
    run(&app, &document).await;
    app.clock.advance(TimeDelta::minutes(1));
    assert_eq!(chunks(&new.teams().await.unwrap()), ["base", "2027-05"]);
    assert_eq!(chunks(&new.catalog_with(&[1]).await.unwrap()), ["base", "2026-11", "2027-05"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_load_is_repeated_after_a_pause_that_doubles() {
    let app = app().await;
    run(&app, &sample()).await;
    let new = new_environment(&app);
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    app.faults.set(move |attempt| {
        counted.fetch_add(u32::from(attempt.number == 1), Ordering::Relaxed);
        Fault::Throttle
    });
    let tries = async |milliseconds: i64| {
        app.clock.advance(TimeDelta::milliseconds(milliseconds));
        assert!(new.catalog().await.is_err());
        calls.swap(0, Ordering::Relaxed)
    };
    for pause in [0, 250, 500, 1_000, 2_000, 4_000, 4_000] {
        if pause > 0 {
            assert_eq!(tries(pause - 1).await, 0, "before {pause} ms have passed");
        }
        assert_eq!(tries(1).await, 1, "after {pause} ms");
    }
    app.faults.clear();
    app.clock.advance(TimeDelta::seconds(4));
    assert!(new.catalog().await.is_ok());
}

/// Any import rebuilds an unreadable snapshot, and so does `{"rebuild": true}`.
#[tokio::test(start_paused = true)]
async fn an_unreadable_snapshot_is_rebuilt_from_the_rows() {
    let app = app().await;
    run(&app, &sample()).await;
    let before = bytes(&app).await;
    let spoil = async || {
        let tables = &app.config.tables;
        let page = app.client().scan().table_name(&tables.catalog).send().await.unwrap();
        for item in page.items() {
            if item["sk"].as_s().unwrap() == "part" {
                let mut item = item.clone();
                item.insert("bytes".into(), AttributeValue::B(Blob::new([1, 2, 3])));
                app.client()
                    .put_item()
                    .table_name(&tables.catalog)
                    .set_item(Some(item))
                    .send()
                    .await
                    .unwrap();
            }
        }
        assert!(load_latest(&app.store, None).await.is_err());
    };
    spoil().await;
    let fresh = new_environment(&app);
    run_without_lease(&fresh, &json!({ "format": "touchline", "events": [] })).await.unwrap();
    assert_eq!(bytes(&app).await, before);
    spoil().await;
    let fresh = new_environment(&app);
    // The document contains a match, but not its teams and its tournament.
    let one_match = json!({ "format": "touchline", "events": [sample()["events"][0]] });
    assert_eq!(counts(&run_without_lease(&fresh, &one_match).await.unwrap()), [0, 0, 1, 0]);
    assert_eq!(bytes(&app).await, before);
    spoil().await;
    run(&app, &json!({ "rebuild": true })).await;
    assert_eq!(bytes(&app).await, before);
}
