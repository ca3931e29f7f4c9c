use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline::domain::copying::{Copied, CopyProgress};
use touchline::domain::room::Membership;
use touchline_stack::resources::StreamMapping;
use touchline_stack::streams::{event, sequence};
use touchline_stack::{TEMPLATE, Template};
use touchline_testing::{Fault, TestApp, concurrently};

const USER: UserId = UserId(7);

/// The event source mappings of `tally` in the template.
struct Mappings {
    app: TestApp,
    mappings: Vec<Mapping>,
}

struct Mapping {
    source: StreamMapping,
    /// The sequence number of the last record that was delivered.
    position: Option<String>,
}

impl Mapping {
    /// Returns the records that were not delivered yet.
    async fn undelivered(&self, app: &TestApp) -> Vec<Value> {
        let changes = app.changes_after(&self.source.table, self.position.as_deref()).await;
        let records = changes["Records"].as_array().unwrap().iter();
        records.filter(|record| self.source.accepts(record)).cloned().collect()
    }

    /// Counts records as delivered.
    fn pass(&mut self, records: &[Value]) {
        self.position = records.last().map(|last| sequence(last).to_owned()).or(self.position.take());
    }
}

impl Mappings {
    fn of(app: &TestApp) -> Self {
        let parameters = BTreeMap::from([("AWS::StackName".into(), "test".into())]);
        let stack = Template::parse(TEMPLATE).unwrap().resolve(&parameters).unwrap();
        let tally = stack.functions.into_iter().find(|function| function.name == "tally").unwrap();
        let mappings = tally.streams.into_iter().map(|source| Mapping { source, position: None });
        Self { app: app.clone(), mappings: mappings.collect() }
    }

    /// Counts all records so far as delivered.
    async fn skip_all(&mut self) {
        for mapping in &mut self.mappings {
            let records = mapping.undelivered(&self.app).await;
            mapping.pass(&records);
        }
    }

    /// Delivers the records so far. Delivers a failed record and the records behind it again the next time. Returns the
    /// delivered batches.
    async fn deliver(&mut self) -> Vec<Vec<Value>> {
        let mut batches = Vec::new();
        for mapping in &mut self.mappings {
            let records = mapping.undelivered(&self.app).await;
            if records.is_empty() {
                continue;
            }
            let failed = deliver(&self.app, &records).await;
            let failed = failed.map(|number| records.iter().position(|record| sequence(record) == number));
            mapping.pass(&records[..failed.map_or(records.len(), |index| index.unwrap())]);
            batches.push(records);
        }
        batches
    }

    /// Delivers records until no more follow. Returns all delivered batches.
    async fn deliver_all(&mut self) -> Vec<Vec<Value>> {
        let mut all = Vec::new();
        for _ in 0..100 {
            match self.deliver().await {
                batches if batches.is_empty() => return all,
                batches => all.extend(batches),
            }
        }
        panic!("the records do not end");
    }
}

/// Delivers a batch. Returns the sequence number of the record to redeliver, if any.
async fn deliver(app: &TestApp, records: &[Value]) -> Option<String> {
    let report = app.invoke(crate::handle, event("arn", "shardId-1-a", records)).await;
    report["batchItemFailures"][0]["itemIdentifier"].as_str().map(str::to_owned)
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

/// Counts the calls to the store from now on.
fn count_calls(app: &TestApp) -> Arc<AtomicUsize> {
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&calls);
    app.faults.set(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Fault::None
    });
    calls
}

/// Starts an app with a user who has memberships, and with mappings that have delivered their records.
async fn app(per_record: &str, memberships: u32) -> (TestApp, Mappings) {
    let app = TestApp::serving(&[]).variable("MEMBERSHIPS_PER_RECORD", per_record).start().await;
    app.user("alice").id(USER.0).await;
    app.store_rooms(USER.0, memberships, false, Membership::Join).await;
    let mut mappings = Mappings::of(&app);
    mappings.skip_all().await;
    (app, mappings)
}

async fn choose_team(app: &TestApp, team: u32) {
    app.clock.advance(TimeDelta::seconds(1));
    app.store.save_primary_team(USER, team, app.clock.now()).await.unwrap();
}

/// One record makes a query, 100 writes and the write that stores how far it came. A step also reads that progress and the
/// team.
#[tokio::test(start_paused = true)]
async fn a_record_makes_a_limited_number_of_calls_however_many_memberships_the_user_has() {
    let (app, mut mappings) = app("", 250).await;
    app.store_rooms(USER.0, 150, true, Membership::Invite).await;
    mappings.skip_all().await;
    choose_team(&app, 3).await;
    // The records of the changed memberships update the counts of their rooms. They are not under test.
    let of_member = json!({ "dynamodb": { "Keys": { "sk": { "S": "member#7" } } } });
    mappings.mappings.retain(|mapping| !mapping.source.accepts(&of_member));
    let mut steps = 0;
    loop {
        let calls = count_calls(&app);
        let batches = mappings.deliver().await;
        let calls = calls.load(Ordering::Relaxed);
        if batches.is_empty() {
            break;
        }
        assert_eq!(batches.iter().map(Vec::len).sum::<usize>(), 1, "{batches:?}");
        assert!(calls <= 104, "step {steps} makes {calls} calls");
        steps += 1;
    }
    assert_eq!(steps, 5, "four steps for 400 memberships, and one for the record of the deleted progress");
    assert_all(&copied(&app, "team").await, 400, 3);
    assert_eq!(app.store.copying(USER, Copied::Team).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_user_with_as_many_memberships_as_fit_needs_no_second_record() {
    let (app, mut mappings) = app("10", 10).await;
    choose_team(&app, 3).await;
    let calls = count_calls(&app);
    mappings.deliver().await;
    assert_eq!(calls.load(Ordering::Relaxed), 1 + 10);
    assert_all(&copied(&app, "team").await, 10, 3);
}

#[tokio::test(start_paused = true)]
async fn statistics_reach_all_memberships_in_steps() {
    let (app, mut mappings) = app("4", 30).await;
    let image = json!({
        "pk": { "S": "event#9#0" }, "sk": { "S": "user#7" }, "event_id": { "N": "9" }, "user_id": { "N": "7" },
        "pick": { "S": "home" }, "confidence": { "N": "80" }, "created": { "S": "1763208000000-00000000" },
        "edits": { "N": "1" }, "revision": { "N": "1" }, "points": { "N": "2" },
    });
    let record = json!({ "dynamodb": {
        "Keys": { "pk": { "S": "event#9#0" }, "sk": { "S": "user#7" } }, "SequenceNumber": "1", "NewImage": image,
    } });
    assert_eq!(deliver(&app, &[record]).await, None);
    mappings.deliver_all().await;
    assert_all(&copied(&app, "correct").await, 30, 1);
    assert_eq!(app.store.copying(USER, Copied::Stats).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_copy_reaches_all_memberships() {
    let (app, mut mappings) = app("4", 30).await;
    // The second change arrives after each possible number of steps.
    for (team, steps) in (10..).step_by(2).zip(0..9) {
        choose_team(&app, team).await;
        for _ in 0..steps {
            mappings.deliver().await;
        }
        choose_team(&app, team + 1).await;
        mappings.deliver_all().await;
        assert_all(&copied(&app, "team").await, 30, team + 1);
        assert_eq!(app.store.copying(USER, Copied::Team).await.unwrap(), None);
    }
}

/// If each change began at the first room again, the last rooms would never get one.
#[tokio::test(start_paused = true)]
async fn frequent_changes_do_not_keep_a_copy_from_reaching_the_last_room() {
    let (app, mut mappings) = app("4", 30).await;
    for team in 1..=20 {
        choose_team(&app, team).await;
        mappings.deliver().await;
    }
    assert!(copied(&app, "team").await.iter().all(Option::is_some));
}

/// The step read the team before the later change. If it moved the copy on, its rooms would keep the earlier team.
#[tokio::test(start_paused = true)]
async fn a_step_that_began_before_a_later_change_does_not_move_the_copy() {
    let (app, mut mappings) = app("4", 30).await;
    choose_team(&app, 3).await;
    mappings.deliver().await;
    let begun = app.store.copying(USER, Copied::Team).await.unwrap().unwrap();
    choose_team(&app, 4).await;
    mappings.deliver().await;
    let before = app.store.copying(USER, Copied::Team).await.unwrap().unwrap();
    for next in [Some(&CopyProgress::START), None] {
        app.store.continue_copying(&begun, next, app.clock.now()).await.unwrap();
        assert_eq!(app.store.copying(USER, Copied::Team).await.unwrap().as_ref(), Some(&before));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redelivered_reordered_and_concurrent_steps_are_harmless() {
    let (app, mut mappings) = app("4", 30).await;
    choose_team(&app, 3).await;
    mappings.deliver().await;
    mappings.deliver().await;
    choose_team(&app, 4).await;
    let mut records = Vec::<Value>::new();
    for _ in 0..12 {
        let batches = mappings.deliver().await;
        records.extend(batches.concat().into_iter().filter(|record| !is_member(record)));
        // Deliver every second of the last records again, the last one first, to several readers.
        let again: Arc<[Value]> = records.iter().rev().step_by(2).take(6).cloned().collect();
        concurrently(3, |_| {
            let (app, again) = (app.clone(), Arc::clone(&again));
            async move {
                for record in again.iter() {
                    assert_eq!(deliver(&app, std::slice::from_ref(record)).await, None);
                }
            }
        })
        .await;
    }
    // The redelivered change begins new copies. The last of them ends without more redeliveries.
    mappings.deliver_all().await;
    assert_all(&copied(&app, "team").await, 30, 4);
    assert_eq!(app.store.copying(USER, Copied::Team).await.unwrap(), None);
}

fn is_member(record: &Value) -> bool {
    record["dynamodb"]["Keys"]["sk"]["S"].as_str().unwrap().starts_with("member#")
}

#[tokio::test(start_paused = true)]
async fn a_record_of_an_earlier_step_makes_one_call() {
    let (app, mut mappings) = app("4", 30).await;
    choose_team(&app, 3).await;
    let batches = mappings.deliver_all().await;
    let is_step = |record: &&Value| {
        record["dynamodb"]["Keys"]["sk"]["S"] == "copying#team" && record["dynamodb"]["NewImage"].is_object()
    };
    let steps: Vec<Value> = batches.concat().iter().filter(is_step).cloned().collect();
    assert_eq!(steps.len(), 7, "30 memberships in steps of 4, the first of them by the change itself");
    for step in steps {
        let calls = count_calls(&app);
        assert_eq!(deliver(&app, &[step]).await, None);
        assert_eq!(calls.load(Ordering::Relaxed), 1, "it reads how far the copy came, and ends");
    }
}

/// One call of a copy fails, before or after the store carries it out. That is also what a crash at this call leaves.
#[tokio::test(start_paused = true)]
async fn a_copy_resumes_after_a_failure_of_any_call() {
    for fault in [Fault::FailBefore, Fault::FailAfter] {
        let (app, mut mappings) = app("3", 10).await;
        for failing in 0.. {
            let team = 100 + u32::try_from(failing).unwrap();
            choose_team(&app, team).await;
            let calls = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&calls);
            app.faults.set(move |_| {
                if counter.fetch_add(1, Ordering::Relaxed) == failing { fault } else { Fault::None }
            });
            mappings.deliver_all().await;
            app.faults.clear();
            assert_all(&copied(&app, "team").await, 10, team);
            assert_eq!(app.store.copying(USER, Copied::Team).await.unwrap(), None);
            if calls.load(Ordering::Relaxed) <= failing {
                // The copy made fewer calls, so each of them has failed once.
                assert!(failing > 20, "the copy made only {failing} calls");
                break;
            }
        }
    }
}

/// A step reads the data, copies it and moves the copy on. If the data changed in between, the step has copied older data.
#[tokio::test(start_paused = true)]
async fn a_step_that_read_older_data_does_not_move_the_copy_on() {
    let (app, _) = app("4", 1).await;
    let (store, now) = (&app.store, app.clock.now());
    store.begin_copying(USER, Copied::Team, None, "first", now).await.unwrap();
    let read = store.copying(USER, Copied::Team).await.unwrap().unwrap();
    store.begin_copying(USER, Copied::Team, None, "second", now).await.unwrap();
    store.continue_copying(&read, None, now).await.unwrap();
    assert!(
        store.copying(USER, Copied::Team).await.unwrap().is_some(),
        "the later change is still to be copied"
    );
    let read = store.copying(USER, Copied::Team).await.unwrap().unwrap();
    store.continue_copying(&read, None, now).await.unwrap();
    assert_eq!(store.copying(USER, Copied::Team).await.unwrap(), None);
}
