use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::catalog::Match;
use touchline::domain::prediction::{Confidence, Forecast, Stamp};
use touchline::domain::promotion::end_of_pause;
use touchline::domain::{Pick, UserId};
use touchline::storage::catalog::{Replacement, Written};
use touchline::storage::predictions::NewPrediction;
use touchline_testing::{Fault, TestApp, User};

use super::{catalog, changed, counts, run, sample};

/// The match of the sample that is promoted. It has 4 shards and begins weeks after the time of the tests.
const EVENT: u32 = 50;

/// A user whose shard is not the same with 4 and with 64 shards.
const USER: u32 = 7;

fn one_match() -> Value {
    json!({ "format": "touchline", "events": [{
        "id": EVENT, "tournament_id": 2, "home_team_id": 1, "away_team_id": 2,
        "start_time": "2027-03-01T15:00:00Z", "status": "scheduled",
    }] })
}

async fn app() -> (TestApp, User) {
    let app = TestApp::serving(&[predictions::router]).start().await;
    let mut document = sample();
    document["tournaments"].as_array_mut().unwrap().push(json!({ "id": 2, "name": "Small Cup" }));
    run(&app, &document).await;
    run(&app, &one_match()).await;
    // The catalog in a warm Lambda function is up to a second old.
    app.clock.advance(TimeDelta::seconds(2));
    let user = app.user("alice").id(USER).await;
    (app, user)
}

async fn promote(app: &TestApp) -> Result<Value, String> {
    let promoted = app.try_invoke(crate::handle, json!({ "promote": EVENT })).await;
    promoted.map_err(|error| error.to_string())
}

/// Returns when a pause ends that is published now.
fn end(app: &TestApp) -> DateTime<Utc> {
    end_of_pause(app.clock.now(), app.config.old_catalog_is_used_for())
}

/// Lets so much time pass that no write from before the pause can arrive.
fn wait(app: &TestApp) {
    app.clock.advance(end(app) - app.clock.now());
}

/// Returns the published match, and checks that the stored one is the same.
async fn published(app: &TestApp) -> Match {
    let published = catalog(app).await.event(EVENT).unwrap().clone();
    assert_eq!(app.store.catalog_rows::<Match>(&[EVENT]).await.unwrap()[&EVENT], published);
    published
}

/// Returns the shards that hold a prediction for the match.
async fn used_shards(app: &TestApp) -> Vec<u8> {
    let mut used = Vec::new();
    for shard in 0..64 {
        let (rows, _) = app.store.shard_page(EVENT, shard, None, 100).await.unwrap();
        used.extend(rows.iter().map(|_| shard));
    }
    used
}

/// Stores a prediction as a request does that still has this catalog's match.
async fn predict_with(app: &App, event: &Match) {
    let new = NewPrediction {
        event_id: event.id,
        shards: event.shards,
        user_id: UserId(USER),
        forecast: Forecast::new(Pick::Home, None).unwrap(),
        confidence: Confidence::default(),
        stamp: Stamp::new(app.clock.now(), 1),
    };
    app.store.predict(&new).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_match_without_predictions_gets_64_shards_after_a_pause() {
    let (app, alice) = app().await;
    let paused = promote(&app).await.unwrap();
    assert_eq!(paused["shards"], 4);
    assert_eq!(paused["paused_until"], json!(end(&app)));
    assert!(published(&app).await.pause.is_some());
    app.clock.advance(TimeDelta::seconds(2));
    let response = alice.predicts(EVENT).home().await;
    response.expect_error(503, "predictions_paused");
    assert_eq!(response.headers["retry-after"], "60");

    assert_eq!(promote(&app).await.unwrap()["paused_until"], paused["paused_until"], "a repeated request");
    wait(&app);
    assert_eq!(promote(&app).await.unwrap(), json!({ "event_id": EVENT, "shards": 64 }));
    let event = published(&app).await;
    assert_eq!((event.shards, event.pause), (64, None));
    assert!(!app.dump().await.contains("published_at"), "nothing of the promotion is left");

    app.clock.advance(TimeDelta::seconds(2));
    alice.predicts(EVENT).home().await.expect(201);
    alice.predicts(EVENT).away().await.expect(200);
    assert_eq!(used_shards(&app).await, [touchline::domain::prediction::shard(UserId(USER), 64)]);
    assert_eq!(promote(&app).await.unwrap(), json!({ "event_id": EVENT, "shards": 64 }), "it has 64 already");
}

#[tokio::test(start_paused = true)]
async fn the_next_run_of_any_kind_ends_the_pause() {
    for payload in [json!({}), sample(), json!({ "rebuild": true })] {
        let (app, _) = app().await;
        promote(&app).await.unwrap();
        run(&app, &payload).await;
        assert_eq!(published(&app).await.shards, 4, "too early");
        wait(&app);
        run(&app, &payload).await;
        let event = published(&app).await;
        assert_eq!((event.shards, event.pause), (64, None), "{payload}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_match_with_predictions_is_not_promoted() {
    let (app, alice) = app().await;
    alice.predicts(EVENT).home().await.expect(201);
    let error = promote(&app).await.unwrap_err();
    assert_eq!(
        error,
        "match 50 cannot be promoted: it has predictions, and they stay in the shards in which they are stored"
    );
    let event = published(&app).await;
    assert_eq!((event.shards, event.pause), (4, None));
}

#[tokio::test(start_paused = true)]
async fn matches_that_cannot_be_promoted_are_rejected_with_the_reason() {
    let (app, _) = app().await;
    let mut live = one_match();
    live["events"][0]["status"] = json!("live");
    run(&app, &live).await;
    for (event, word) in [
        (json!(999), "there is no match 999"),
        (json!("9"), "promote must be the id of a match"),
        (json!(-1), "promote must be the id of a match"),
        (json!(EVENT), "predictions for it are closed"),
    ] {
        let error = app.try_invoke(crate::handle, json!({ "promote": event })).await.unwrap_err().to_string();
        assert!(error.contains(word), "{event}: {error}");
    }
}

/// One environment has loaded the catalog before the pause. It still accepts a prediction. The same user then changes it
/// through another environment, which has the newest catalog.
#[tokio::test(start_paused = true)]
async fn a_prediction_with_an_old_catalog_never_ends_as_two_rows() {
    for is_in_time in [true, false] {
        let (app, alice) = app().await;
        let old = App { catalog_cache: Arc::default(), ..App::clone(&app) };
        let before = old.checked_catalog_with(&[EVENT]).await.unwrap().event(EVENT).unwrap().clone();
        promote(&app).await.unwrap();
        // The cache of this environment is not too old yet, so it does not see the pause.
        let seen = old.checked_catalog_with(&[EVENT]).await.unwrap().event(EVENT).unwrap().clone();
        assert_eq!((seen.pause, seen.shards), (None, 4));
        if is_in_time {
            predict_with(&old, &before).await;
        }
        // When the pause ends, no environment acts on a catalog from before it.
        wait(&app);
        let seen = old.checked_catalog_with(&[EVENT]).await.unwrap().event(EVENT).unwrap().clone();
        assert!(seen.pause.is_some());
        let promoted = promote(&app).await;
        assert_eq!(promoted.is_err(), is_in_time, "{promoted:?}");
        assert_eq!(published(&app).await.pause, None);

        app.clock.advance(TimeDelta::seconds(2));
        alice.predicts(EVENT).away().await.expect(if is_in_time { 200 } else { 201 });
        assert_eq!(used_shards(&app).await.len(), 1, "one row");
        let seen = old.checked_catalog_with(&[EVENT]).await.unwrap().event(EVENT).unwrap().clone();
        let row =
            app.store.prediction(EVENT, seen.shards, UserId(USER), touchline::storage::Reads::Consistent);
        assert_eq!(row.await.unwrap().unwrap().forecast.pick(), Pick::Away);
    }
}

/// A pause counts from its publication. Here the first promotion crashes before it, long ago.
#[tokio::test(start_paused = true)]
async fn an_unpublished_pause_does_not_count_as_waiting() {
    let (app, alice) = app().await;
    let row = published(&app).await;
    let paused = row.paused_for_promotion(app.clock.now()).unwrap();
    let written = app.store.put_rows(&[Replacement { row: paused, read: Some(row) }]).await.unwrap();
    assert_eq!(written, [Written::Now]);
    wait(&app);
    alice.predicts(EVENT).home().await.expect(201);
    assert!(promote(&app).await.unwrap()["paused_until"].is_string());
    wait(&app);
    assert!(promote(&app).await.unwrap_err().contains("it has predictions"));
    assert_eq!(published(&app).await.shards, 4);
}

/// A crash left the note about an earlier pause. It does not apply to the current pause.
#[tokio::test(start_paused = true)]
async fn the_note_of_an_earlier_pause_does_not_count() {
    let (app, _) = app().await;
    let earlier = touchline::domain::catalog::Pause::beginning(app.clock.now());
    app.store.note_published_pause(EVENT, earlier, app.clock.now()).await.unwrap();
    wait(&app);
    assert_eq!(promote(&app).await.unwrap()["paused_until"], json!(end(&app)));
}

/// `feed` crashes after each of its writes in turn, in both runs of a promotion. Another run completes it.
#[tokio::test(start_paused = true)]
async fn a_promotion_that_crashes_after_any_write_is_resumed() {
    let mut steps = 0;
    loop {
        let (app, alice) = app().await;
        let crash = || {
            let writes = AtomicU32::new(0);
            app.faults.set(move |attempt| {
                let is_write = matches!(attempt.operation, "PutItem" | "UpdateItem" | "DeleteItem");
                let fails = is_write && writes.fetch_add(1, Ordering::Relaxed) >= steps;
                if fails { Fault::LoseRequest } else { Fault::None }
            });
        };
        let mut finished = true;
        for _ in 0..2 {
            crash();
            finished &= crate::import::promote::promote(&app, EVENT).await.is_ok();
            app.faults.clear();
            let _ = promote(&app).await.unwrap();
            wait(&app);
        }
        promote(&app).await.unwrap();
        let event = published(&app).await;
        assert_eq!((event.shards, event.pause), (64, None), "after {steps} writes");
        alice.predicts(EVENT).home().await.expect(201);
        if finished {
            break;
        }
        steps += 1;
    }
    assert!(steps > 5, "{steps} writes");
}

#[tokio::test(start_paused = true)]
async fn later_imports_keep_the_shards_and_the_pause() {
    let (app, _) = app().await;
    promote(&app).await.unwrap();
    let mut moved = one_match();
    moved["events"][0]["start_time"] = json!("2027-03-02T15:00:00Z");
    assert_eq!(counts(&run(&app, &moved).await), [0, 1, 0, 0]);
    assert!(published(&app).await.pause.is_some());
    wait(&app);
    run(&app, &one_match()).await;
    assert_eq!(published(&app).await.shards, 64);
    app.clock.advance(TimeDelta::minutes(1));
    assert_eq!(counts(&run(&app, &moved).await), [0, 1, 0, 0]);
    assert_eq!(published(&app).await.shards, 64);
    run(&app, &changed("2026-11-15T12:00:00Z", 0, "home_score", json!(1))).await;
    assert_eq!(published(&app).await.shards, 64);
}

/// An import reads the match before the promotion and writes it afterwards.
#[tokio::test(start_paused = true)]
async fn an_import_that_overlaps_with_a_promotion_does_not_write_the_old_shards_back() {
    let (app, _) = app().await;
    let read = published(&app).await;
    promote(&app).await.unwrap();
    let late = |read: &Match| {
        let row = Match { venue: Some("The Ground".into()), ..read.clone() };
        [Replacement { row, read: Some(read.clone()) }]
    };
    assert!(matches!(app.store.put_rows(&late(&read)).await.unwrap().as_slice(), [Written::Changed(_)]));
    let paused = published(&app).await;
    wait(&app);
    promote(&app).await.unwrap();
    for read in [read, paused] {
        assert!(matches!(app.store.put_rows(&late(&read)).await.unwrap().as_slice(), [Written::Changed(_)]));
    }
    assert_eq!(published(&app).await.shards, 64);
}
