use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline::storage::tallies::Whole;
use touchline_testing::{Fault, TestApp};

async fn app() -> TestApp {
    TestApp::serving(&[]).without_streams().start().await
}

/// Returns the record of a new prediction.
fn record(sequence: u32, event: u32, at: DateTime<Utc>) -> Value {
    json!({ "dynamodb": {
        "ApproximateCreationDateTime": at.timestamp(),
        "Keys": { "pk": { "S": format!("event#{event}#0") }, "sk": { "S": "user#7" } },
        "SequenceNumber": sequence.to_string(),
        "NewImage": {
            "event_id": { "N": event.to_string() }, "user_id": { "N": "7" }, "pick": { "S": "home" },
            "confidence": { "N": "80" }, "created": { "S": "1763208000000-00000000" }, "edits": { "N": "1" },
            "revision": { "N": "1" }, "points": { "N": "2" },
        },
    } })
}

/// Delivers a batch. Returns the sequence number of the record to redeliver, if any.
async fn deliver(app: &TestApp, records: &[Value]) -> Option<String> {
    let event = json!({ "Records": records, "shardId": "shardId-1-a" });
    let report = app.invoke(crate::handle, event).await;
    report["batchItemFailures"][0]["itemIdentifier"].as_str().map(str::to_owned)
}

/// Returns the records that were set aside: the key, the sequence number and the reason.
async fn set_aside(app: &TestApp) -> Vec<(Value, String)> {
    let query = app.client().scan().table_name(&app.config.tables.predictions).send().await.unwrap();
    let items = query.items.unwrap().into_iter().filter(|item| item["pk"].as_s().unwrap() == "set-aside");
    let text = |value: &str| serde_json::from_str(value).unwrap();
    items.map(|item| (text(item["change"].as_s().unwrap()), item["reason"].as_s().unwrap().clone())).collect()
}

/// Returns how many predictions the parts of a match count.
async fn predictions(app: &TestApp, event: u32) -> i64 {
    app.store.roll_up(&Whole::Event(event)).await.unwrap();
    app.store.event_counts(event).await.unwrap().predictions
}

#[tokio::test(start_paused = true)]
async fn a_record_that_can_never_be_counted_is_set_aside_and_the_others_proceed() {
    let app = app().await;
    // A counter that is a text cannot be added to. DynamoDB rejects an item that would be too large with the same error.
    let client = app.client();
    let broken = client.put_item().table_name(&app.config.tables.predictions);
    let text = |text: &str| AttributeValue::S(text.into());
    let broken =
        broken.item("pk", text("event#9")).item("sk", text("tally#0")).item("predictions", text("?"));
    broken.send().await.unwrap();
    let now = app.clock.now();
    let records = [record(1, 8, now), record(2, 9, now), record(3, 10, now)];
    for _ in 0..2 {
        assert_eq!(deliver(&app, &records).await, None);
        assert_eq!((predictions(&app, 8).await, predictions(&app, 10).await), (1, 1));
        // Only the counts of the match are missing.
        assert_eq!(app.store.user_stats(UserId(7)).await.unwrap().settled, 3);
        let keys = json!({ "pk": { "S": "event#9#0" }, "sk": { "S": "user#7" } });
        let change = json!({ "dynamodb": { "Keys": keys, "SequenceNumber": "2" } });
        let reason = "UpdateItem is misconfigured: ValidationException".to_owned();
        assert_eq!(set_aside(&app).await, [(change, reason)]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_that_is_too_large_for_an_item_is_set_aside_without_its_content() {
    let app = app().await;
    let mut large = record(1, 9, app.clock.now());
    large["dynamodb"]["NewImage"]["pick"] = json!({ "S": "x".repeat(390_000) });
    assert_eq!(deliver(&app, &[large.clone()]).await, None);
    let (change, reason) = set_aside(&app).await.remove(0);
    assert_eq!((&change["dynamodb"]["Keys"], reason.as_str()), (&large["dynamodb"]["Keys"], "unreadable"));
    assert!(change["dynamodb"]["NewImage"].is_null());
}

/// Makes the first write of each delivery fail with an error that a retry may mend.
struct FirstWriteFails(Arc<AtomicBool>);

impl FirstWriteFails {
    fn in_app(app: &TestApp) -> Self {
        let is_next = Arc::new(AtomicBool::new(true));
        let plan = Self(Arc::clone(&is_next));
        app.faults.set(move |attempt| {
            let fails = attempt.operation == "UpdateItem" && is_next.swap(false, Ordering::Relaxed);
            if fails { Fault::FailBefore } else { Fault::None }
        });
        plan
    }

    async fn deliver(&self, app: &TestApp, records: &[Value]) -> Option<String> {
        self.0.store(true, Ordering::Relaxed);
        deliver(app, records).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_fails_for_hours_is_set_aside() {
    let app = app().await;
    let records = [record(1, 9, app.clock.now()), record(2, 10, app.clock.now())];
    let failing = FirstWriteFails::in_app(&app);
    for hours in [0, 1, 2, 2] {
        app.clock.advance(TimeDelta::hours(hours));
        assert_eq!(failing.deliver(&app, &records).await.as_deref(), Some("1"));
        assert_eq!(set_aside(&app).await, []);
    }
    app.clock.advance(TimeDelta::hours(1));
    assert_eq!(failing.deliver(&app, &records).await, None);
    let aside = set_aside(&app).await;
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!((&aside[0].0["dynamodb"]["SequenceNumber"], predictions(&app, 10).await), (&json!("1"), 1));
}

/// After an outage of `tally`, the next records are hours old. One failure of such a record means nothing.
#[tokio::test(start_paused = true)]
async fn an_old_record_that_fails_once_is_retried() {
    let app = app().await;
    let records = [record(1, 9, app.clock.now()), record(2, 10, app.clock.now())];
    app.clock.advance(TimeDelta::hours(20));
    let failing = FirstWriteFails::in_app(&app);
    assert_eq!(failing.deliver(&app, &records).await.as_deref(), Some("1"));
    assert_eq!(deliver(&app, &records).await, None);
    assert_eq!((set_aside(&app).await, predictions(&app, 9).await), (vec![], 1));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_runs_out_of_time_is_redelivered_from_the_second_record_on() {
    let app = app().await;
    let now = app.clock.now();
    let mut records: &[Value] = &[record(1, 8, now), record(2, 9, now), record(3, 10, now)];
    for left in ["2", "3", ""] {
        let event = json!({ "Records": records, "shardId": "shardId-1-a" });
        let report = crate::handle((*app).clone(), event, now).await.unwrap();
        let failed = report["batchItemFailures"][0]["itemIdentifier"].as_str();
        assert_eq!(failed.unwrap_or_default(), left);
        records = &records[1..];
    }
    for event in 8..=10 {
        assert_eq!(predictions(&app, event).await, 1);
    }
    assert_eq!((set_aside(&app).await, app.store.user_stats(UserId(7)).await.unwrap().settled), (vec![], 3));
}
