use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline::domain::room::Membership;
use touchline_stack::streams::{event, sequence};
use touchline_testing::{Fault, TestApp, concurrently, next_position};

const USER: UserId = UserId(7);

/// Starts an app with a user who has joined rooms.
async fn app(rooms: u32) -> TestApp {
    let app = TestApp::serving(&[]).start().await;
    app.user("alice").id(USER.0).await;
    app.store_rooms(USER.0, rooms, false, Membership::Join).await;
    app
}

/// Delivers a batch. Returns the sequence number of the record to redeliver, if any.
async fn deliver(app: &TestApp, records: &[Value]) -> Option<String> {
    let report = app.invoke(crate::handle, event("arn", "shardId-1-a", records)).await;
    report["batchItemFailures"][0]["itemIdentifier"].as_str().map(str::to_owned)
}

async fn records(app: &TestApp, table: &str) -> Vec<Value> {
    app.changes(table).await["Records"].as_array().unwrap().clone()
}

/// Chooses these teams, one after the other. Returns the stream records of the choices.
async fn choose(app: &TestApp, teams: impl IntoIterator<Item = u32>) -> Vec<Value> {
    let users = &app.config.tables.users;
    let before = records(app, users).await.len();
    for team in teams {
        app.clock.advance(TimeDelta::seconds(1));
        app.store.save_primary_team(USER, team, app.clock.now()).await.unwrap();
    }
    records(app, users).await.split_off(before)
}

/// Returns an attribute of each of the user's memberships.
async fn copied(app: &TestApp, attribute: &str) -> Vec<Option<String>> {
    let scan = app.client().scan().table_name(&app.config.tables.rooms).into_paginator().items().send();
    let items = scan.collect::<Result<Vec<_>, _>>().await.unwrap();
    let own = items.iter().filter(|item| item["sk"].as_s().unwrap() == "member#7");
    own.map(|item| item.get(attribute).map(|value| value.as_n().unwrap().clone())).collect()
}

#[track_caller]
fn assert_all(copied: &[Option<String>], count: usize, expected: u32) {
    let expected = expected.to_string();
    assert_eq!(copied.len(), count);
    let others: Vec<_> = copied.iter().filter(|value| value.as_ref() != Some(&expected)).collect();
    assert!(others.is_empty(), "{} of {count} have no {expected}: {others:?}", others.len());
}

/// Counts the calls to the store from now on. The call with the number `failing` fails, if there is one.
fn count_calls(app: &TestApp, failing: Option<(usize, Fault)>) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    app.faults.set(move |_| {
        let call = counter.fetch_add(1, Ordering::Relaxed);
        failing.filter(|(number, _)| *number == call).map_or(Fault::None, |(_, fault)| fault)
    });
    calls
}

#[tokio::test(start_paused = true)]
async fn a_change_reaches_all_memberships() {
    let app = app(25).await;
    app.store_rooms(USER.0, 15, true, Membership::Invite).await;
    let changes = choose(&app, [3]).await;
    assert_eq!(deliver(&app, &changes).await, None);
    assert_all(&copied(&app, "team").await, 40, 3);
}

/// A user with many rooms who changes something many times must not cost many times as much as others.
#[tokio::test(start_paused = true)]
async fn the_changes_of_a_user_in_a_batch_are_copied_once() {
    let app = app(25).await;
    let changes = choose(&app, 1..=60).await;
    assert_eq!(changes.len(), 60);
    let calls = count_calls(&app, None);
    assert_eq!(deliver(&app, &changes).await, None);
    assert_eq!(calls.load(Ordering::Relaxed), 1 + 25, "a query, and a write for each membership");
    assert_all(&copied(&app, "team").await, 25, 60);
}

/// Returns the stream record of a prediction of the user. It is the only one of its match.
fn prediction(number: u32, event: u32, edits: u32, pick: &str, points: Option<u32>) -> Value {
    let key = json!({ "pk": { "S": format!("event#{event}#0") }, "sk": { "S": "user#7" } });
    let mut image = key.clone();
    for (name, value) in [
        ("event_id", json!({ "N": event.to_string() })),
        ("user_id", json!({ "N": "7" })),
        ("pick", json!({ "S": pick })),
        ("confidence", json!({ "N": "80" })),
        ("created", json!({ "S": "1763208000000-00000000" })),
        ("edits", json!({ "N": edits.to_string() })),
        ("revision", json!({ "N": u32::from(points.is_some()).to_string() })),
    ] {
        image[name] = value;
    }
    if let Some(points) = points {
        image["points"] = json!({ "N": points.to_string() });
    }
    json!({ "dynamodb": { "Keys": key, "SequenceNumber": number.to_string(), "NewImage": image } })
}

#[tokio::test(start_paused = true)]
async fn the_predictions_of_a_user_in_a_batch_are_copied_once_into_the_rooms_about_their_matches() {
    let app = app(5).await;
    for (n, mut room) in (0..).zip(app.store_rooms(USER.0, 12, true, Membership::Join).await) {
        room.event_id = Some(9 + n % 2);
        let joined = (Membership::Join, app.clock.now());
        app.store.apply_homeserver_membership(&room, USER, joined, next_position()).await.unwrap();
    }
    let mut changes: Vec<Value> = (1..=40).map(|n| prediction(n, 9, n, "home", None)).collect();
    changes.push(prediction(41, 10, 1, "home", None));
    let calls = count_calls(&app, None);
    assert_eq!(deliver(&app, &changes).await, None);
    let calls = calls.load(Ordering::Relaxed);
    // A query, two writes for each of twelve memberships, and the counters.
    assert!(calls <= 1 + 24 + 5, "{calls}");
    let mut edits = copied(&app, "edits").await;
    edits.sort();
    let expected = [(None, 5), (Some("1"), 6), (Some("40"), 6)];
    let expected = expected.map(|(edits, count)| vec![edits.map(str::to_owned); count]).concat();
    assert_eq!(edits, expected);
}

#[tokio::test(start_paused = true)]
async fn statistics_reach_all_memberships() {
    let app = app(12).await;
    assert_eq!(deliver(&app, &[prediction(1, 9, 1, "home", Some(2))]).await, None);
    let changes = records(&app, &app.config.tables.predictions).await;
    assert_eq!(deliver(&app, &changes).await, None);
    assert_all(&copied(&app, "correct").await, 12, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn redelivered_and_concurrent_batches_leave_the_newest_data() {
    let app = app(25).await;
    let changes = Arc::new(choose(&app, 1..=8).await);
    concurrently(8, |n| {
        let (app, changes) = (app.clone(), Arc::clone(&changes));
        // Half of the batches end with an earlier change.
        async move { deliver(&app, if n % 2 == 0 { &changes[n..] } else { &changes[..n] }).await }
    })
    .await;
    assert_all(&copied(&app, "team").await, 25, 8);
    assert_eq!(deliver(&app, &changes[..4]).await, None);
    assert_all(&copied(&app, "team").await, 25, 8);
}

/// One call fails, before or after the store carries it out. That is also what a crash at this call leaves.
#[tokio::test(start_paused = true)]
async fn a_redelivery_completes_a_copy_after_a_failure_of_any_call() {
    let app = app(3).await;
    for (fault, teams) in [(Fault::FailBefore, 10..), (Fault::FailAfter, 20..)] {
        // One query, and three writes.
        for (failing, team) in (0..4).zip(teams) {
            let changes = choose(&app, [team]).await;
            count_calls(&app, Some((failing, fault)));
            assert_eq!(deliver(&app, &changes).await.as_deref(), Some(sequence(&changes[0])), "{failing}");
            app.faults.clear();
            assert_eq!(deliver(&app, &changes).await, None);
            assert_all(&copied(&app, "team").await, 3, team);
        }
    }
}

/// Otherwise the pass could take longer than the function may run, and block the stream.
#[tokio::test(start_paused = true)]
async fn a_pass_ends_at_the_maximum_number_of_memberships() {
    let app = app(105).await;
    let changes = choose(&app, [3]).await;
    let calls = count_calls(&app, None);
    assert_eq!(deliver(&app, &changes).await, None);
    assert_eq!(calls.load(Ordering::Relaxed), 1 + 100);
    assert_eq!(copied(&app, "team").await.iter().flatten().count(), 100);
}
