use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline::domain::UserId;
use touchline::domain::room::{Membership, Room, RoomId};
use touchline::domain::standings::Board;
use touchline::domain::tally::{EventCounts, UserStats};
use touchline::ports::random::Random;
use touchline::storage::directory::{Directory, Needle};
use touchline::storage::stream::{Batch, Change};
use touchline::storage::tallies::Whole;
use touchline_testing::{Fault, SeededRandom, TestApp, concurrently};

/// The attributes of a prediction that affect counters.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    pick: &'static str,
    confidence: u32,
    points: Option<u32>,
}

fn image(event: u32, user: u32, row: Row) -> Value {
    let mut image = json!({
        "pk": { "S": format!("event#{event}#0") },
        "sk": { "S": format!("user#{user}") },
        "event_id": { "N": event.to_string() },
        "user_id": { "N": user.to_string() },
        "pick": { "S": row.pick },
        "confidence": { "N": row.confidence.to_string() },
        "created": { "S": "1763208000000-00000000" },
        "edits": { "N": "1" },
        "revision": { "N": "0" },
    });
    if let Some(points) = row.points {
        image["points"] = json!({ "N": points.to_string() });
    }
    image
}

fn record(sequence: u64, event: u32, user: u32, old: Option<Row>, new: Option<Row>) -> Value {
    let mut dynamodb = json!({
        "Keys": { "pk": { "S": format!("event#{event}#0") }, "sk": { "S": format!("user#{user}") } },
        "SequenceNumber": sequence.to_string(),
    });
    if let Some(old) = old {
        dynamodb["OldImage"] = image(event, user, old);
    }
    if let Some(new) = new {
        dynamodb["NewImage"] = image(event, user, new);
    }
    json!({ "eventSource": "aws:dynamodb", "dynamodb": dynamodb })
}

/// Moves a record to another shard of its match.
fn in_shard(event: u32, shard: u32, mut record: Value) -> Value {
    let pk = json!({ "S": format!("event#{event}#{shard}") });
    record["dynamodb"]["NewImage"]["pk"] = pk.clone();
    record["dynamodb"]["Keys"]["pk"] = pk;
    record
}

fn batch(shard: &str, records: &[Value]) -> Value {
    json!({ "Records": records, "shardId": format!("shardId-{shard}") })
}

/// Returns the stream record of a counter item: the part of a match that counts the predictions of one shard.
fn part_record(sequence: u64, event: u64, shard: &str) -> Value {
    let keys = json!({ "pk": { "S": format!("event#{event}") }, "sk": { "S": format!("tally#{shard}") } });
    let mut image = keys.clone();
    image["version"] = json!({ "N": "1" });
    json!({
        "eventSource": "aws:dynamodb",
        "dynamodb": { "Keys": keys, "SequenceNumber": sequence.to_string(), "NewImage": image },
    })
}

/// Returns a stream record for each part that counts some of these predictions.
fn part_records(records: &[Value]) -> Vec<Value> {
    let mut parts = BTreeMap::new();
    for record in records {
        let pk = record["dynamodb"]["Keys"]["pk"]["S"].as_str().unwrap();
        if let Some((event, shard)) = pk.strip_prefix("event#").and_then(|pk| pk.split_once('#')) {
            parts.insert(pk, part_record(1_000, event.parse().unwrap(), shard));
        }
    }
    parts.into_values().collect()
}

/// Delivers a batch, and then the stream records of the parts that the batch has changed, again and again until none of these
/// fails. Returns the sequence number of the record in the batch to redeliver, if any.
async fn deliver(app: &TestApp, shard: &str, records: &[Value]) -> Option<String> {
    let failed = deliver_batch(app, shard, records).await;
    let parts = part_records(records);
    while !parts.is_empty() && deliver_batch(app, "parts", &parts).await.is_some() {}
    failed
}

/// Delivers a batch. Returns the sequence number of the record to redeliver, if any.
async fn deliver_batch(app: &TestApp, shard: &str, records: &[Value]) -> Option<String> {
    let report = app.invoke(crate::handle, batch(shard, records)).await;
    assert_eq!(report["state"], json!({}));
    let failures = report["batchItemFailures"].as_array().unwrap();
    assert!(failures.len() <= 1);
    failures.first().map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned())
}

const HOME: Row = Row { pick: "home", confidence: 80, points: None };

async fn app() -> TestApp {
    TestApp::serving(&[]).without_streams().start().await
}

#[tokio::test(start_paused = true)]
async fn counters_reflect_new_edited_and_scored_predictions() {
    let app = app().await;
    let draw = Row { pick: "draw", confidence: 30, points: None };
    let records = [
        record(1, 9, 7, None, Some(HOME)),
        record(2, 9, 8, None, Some(draw)),
        record(3, 9, 7, Some(HOME), Some(draw)),
        record(4, 9, 8, Some(draw), Some(Row { points: Some(2), ..draw })),
    ];
    assert_eq!(deliver(&app, "a", &records).await, None);
    let counts = app.store.event_counts(9).await.unwrap();
    assert_eq!(counts, EventCounts { predictions: 2, home: 0, draw: 2, away: 0, confidence: 60 });
    let stats = app.store.user_stats(UserId(8)).await.unwrap();
    assert_eq!(stats, UserStats { settled: 1, correct: 1, points: 2, exact: 0 });
    assert_eq!(app.store.user_stats(UserId(7)).await.unwrap(), UserStats::default());
    assert_eq!(app.store.prediction_counts(&[9, 10]).await.unwrap(), BTreeMap::from([(9, 2)]));
}

/// The two changes cancel out, but the counter item must still store the sequence number of the second one.
/// Otherwise a redelivery of only the second change would be counted.
#[tokio::test(start_paused = true)]
async fn redelivered_changes_that_cancel_out_are_not_counted_again() {
    let app = app().await;
    let records = [record(1, 9, 7, None, Some(HOME)), record(2, 9, 7, Some(HOME), None)];
    assert_eq!(deliver(&app, "a", &records).await, None);
    assert_eq!(deliver(&app, "a", &records[1..]).await, None);
    assert_eq!(app.store.event_counts(9).await.unwrap(), EventCounts::default());
}

#[tokio::test(start_paused = true)]
async fn unreadable_records_are_stored_once_and_do_not_block_the_batch() {
    let app = app().await;
    let mut unreadable = record(2, 9, 8, None, Some(HOME));
    unreadable["dynamodb"]["NewImage"]["pick"] = json!({ "S": "sideways" });
    let records = [record(1, 9, 7, None, Some(HOME)), unreadable, record(3, 9, 9, None, Some(HOME))];
    for _ in 0..2 {
        assert_eq!(deliver(&app, "a", &records).await, None);
        assert_eq!(app.store.event_counts(9).await.unwrap().predictions, 2);
    }
    let dump = app.dump().await;
    assert_eq!(dump.matches("unreadable").count(), 1);
    assert!(dump.contains("sideways"), "{dump}");
}

/// Counter items are in the same table as the predictions, so the stream also has the changes that `tally`
/// itself writes.
#[tokio::test(start_paused = true)]
async fn stream_records_of_counter_items_are_accepted() {
    let app = app().await;
    let tally = json!({ "dynamodb": {
        "Keys": { "pk": { "S": "event#9" }, "sk": { "S": "tally" } },
        "NewImage": { "predictions": { "N": "1" } }, "SequenceNumber": "1",
    } });
    assert_eq!(deliver(&app, "a", &[tally]).await, None);
}

/// `tally` copies changed statistics into all rooms of the user, so it must not do that when only positions change.
#[test]
fn the_removal_of_an_old_position_is_not_a_change_of_statistics() {
    let change = |old: &Value, new: &Value| {
        let record = json!({ "dynamodb": {
            "Keys": { "pk": { "S": "stats#23" }, "sk": { "S": "stats#7" } },
            "OldImage": old, "NewImage": new, "SequenceNumber": "1",
        } });
        let mut batch = Batch::read(batch("a", &[record])).unwrap();
        batch.records.remove(0).change
    };
    let number = |number: u32| json!({ "N": number.to_string() });
    let with_position = json!({ "settled": number(2), "version": number(3), "seen:1-a": number(9) });
    let without = json!({ "settled": number(2), "version": number(3) });
    let settled = json!({ "settled": number(3), "version": number(4) });
    assert!(matches!(change(&with_position, &without), Change::Other));
    assert!(matches!(change(&without, &settled), Change::UserStats { .. }));
}

/// A settlement can begin before a leaderboard closes, and its points can be counted after that.
#[test]
fn a_change_queues_a_closed_leaderboard_for_as_long_as_it_is_built() {
    let queued = |changed_at: &str| {
        let number = |number: u32| json!({ "N": number.to_string() });
        let changed_at: DateTime<Utc> = changed_at.parse().unwrap();
        let record = json!({ "eventSource": "aws:dynamodb", "dynamodb": {
            "Keys": { "pk": { "S": "stats#23" }, "sk": { "S": "stats#7" } },
            "NewImage": {
                "user_id": number(7), "settled": number(1), "version": number(1),
                "n:g.d2026-11-15": number(1), "n:g.m2026-11": number(1),
            },
            "SequenceNumber": "1", "ApproximateCreationDateTime": changed_at.timestamp(),
        } });
        match Batch::read(batch("a", &[record])).unwrap().records.remove(0).change {
            Change::UserStats { boards, .. } => boards.iter().map(Board::to_string).collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        }
    };
    // The matchday closes at midnight before the 19th.
    assert_eq!(queued("2026-11-19T11:59:59Z"), ["g.all", "g.m2026-11", "g.d2026-11-15"]);
    assert_eq!(queued("2026-11-19T12:00:00Z"), ["g.all", "g.m2026-11"]);
}

#[tokio::test(start_paused = true)]
async fn an_empty_batch_is_accepted() {
    assert_eq!(deliver(&app().await, "a", &[]).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_malformed_batch_is_an_error() {
    assert!(app().await.try_invoke(crate::handle, json!("x")).await.is_err());
}

/// The Lambda event has a shard id only if the event source mapping has a tumbling window. A counter item
/// stores the last counted sequence number of each shard. Without a shard id, `tally` stores this number
/// under the partition key of the record.
#[tokio::test(start_paused = true)]
async fn a_redelivered_batch_without_a_shard_id_counts_once() {
    let app = app().await;
    let delivery = json!({ "Records": [record(1, 9, 7, None, Some(HOME))] });
    for _ in 0..2 {
        app.invoke(crate::handle, delivery.clone()).await;
    }
    app.store.roll_up(&Whole::Event(9)).await.unwrap();
    assert_eq!(app.store.event_counts(9).await.unwrap().predictions, 1);
}

/// A counter item stores its position in each stream shard: the last sequence number that it has counted.
/// DynamoDB replaces a shard every few hours, so the item would grow without limit if it kept all positions.
#[tokio::test(start_paused = true)]
async fn positions_in_old_shards_are_removed() {
    let app = app().await;
    for n in 0..100_u32 {
        let records = [record(u64::from(n) + 1, 9, n, None, Some(HOME))];
        let opened = app.clock.now().timestamp_millis();
        assert_eq!(deliver(&app, &format!("{opened:020}-abcdef"), &records).await, None);
        app.clock.advance(TimeDelta::hours(4));
    }
    assert_eq!(app.store.event_counts(9).await.unwrap().predictions, 100);
    let dump = app.dump().await;
    let positions = dump.matches("seen:").count();
    assert!((6..=10).contains(&positions), "expected the last 36 hours, found {positions} positions");
}

/// The predictions for a popular match come from many stream shards. Requests read the sums of all shards, and every
/// fold writes one part, so neither may grow with the number of stream shards.
#[tokio::test(start_paused = true)]
async fn positions_are_not_in_the_item_that_requests_read_and_each_part_has_its_own() {
    let app = app().await;
    for shard in 0..64_u32 {
        let record = in_shard(9, shard, record(1, 9, shard + 1, None, Some(HOME)));
        assert_eq!(deliver(&app, &format!("{shard}-abcdef"), &[record]).await, None);
    }
    let tally = app.store.event_tally(9).await.unwrap();
    assert_eq!(tally.counts.predictions, 64);
    assert_eq!(tally.shards.used(64, 64).len(), 64);
    let dump = app.dump().await;
    let items: Vec<&str> = dump.lines().filter(|line| line.contains("event#9")).collect();
    let with_position = items.iter().filter(|item| item.contains("seen:")).count();
    assert_eq!((items.len(), with_position), (65, 64), "{dump}");
    assert_eq!(dump.matches("seen:").count(), 64, "{dump}");
}

/// If `tally` cannot add up the parts of a match, Lambda delivers the stream record of the part again.
#[tokio::test(start_paused = true)]
async fn sums_that_were_not_written_are_written_by_the_redelivery() {
    for operation in ["Query", "PutItem"] {
        let app = app().await;
        assert_eq!(deliver_batch(&app, "a", &[record(1, 9, 7, None, Some(HOME))]).await, None);
        app.faults.set(
            move |attempt| {
                if attempt.operation == operation { Fault::FailBefore } else { Fault::None }
            },
        );
        let part = [part_record(2, 9, "0")];
        assert_eq!(deliver_batch(&app, "b", &part).await.as_deref(), Some("2"));
        app.faults.clear();
        assert_eq!(app.store.event_counts(9).await.unwrap().predictions, 0);
        assert_eq!(deliver_batch(&app, "b", &part).await, None);
        assert_eq!(app.store.event_counts(9).await.unwrap().predictions, 1);
    }
}

/// The parts of a final change many times a second.
#[tokio::test(start_paused = true)]
async fn parts_that_change_in_one_batch_are_added_up_once() {
    let app = app().await;
    let mut parts = Vec::new();
    for shard in 0..64_u32 {
        let record = in_shard(9, shard, record(1, 9, shard + 1, None, Some(HOME)));
        assert_eq!(deliver_batch(&app, &format!("{shard}-abcdef"), &[record]).await, None);
        parts.push(part_record(u64::from(shard) + 2, 9, &shard.to_string()));
    }
    let calls = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&calls);
    app.faults.set(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        Fault::None
    });
    assert_eq!(deliver_batch(&app, "a", &parts).await, None);
    assert_eq!(calls.load(Ordering::Relaxed), 2, "a query and a put");
    assert_eq!(app.store.event_counts(9).await.unwrap().predictions, 64);
}

/// Old positions are removed, which changes the part but not its counts.
#[tokio::test(start_paused = true)]
async fn a_part_with_the_same_version_is_not_added_up() {
    let app = app().await;
    assert_eq!(deliver_batch(&app, "a", &[record(1, 9, 7, None, Some(HOME))]).await, None);
    let mut part = part_record(2, 9, "0");
    part["dynamodb"]["OldImage"] = part["dynamodb"]["NewImage"].clone();
    assert_eq!(deliver_batch(&app, "a", &[part]).await, None);
    assert_eq!(app.store.event_counts(9).await.unwrap().predictions, 0);
}

/// DynamoDB replaces a shard every few hours, but it does not promise to.
#[tokio::test(start_paused = true)]
async fn a_record_of_a_shard_that_lives_for_days_counts_once() {
    let app = app().await;
    let opened = app.clock.now().timestamp_millis();
    app.clock.advance(TimeDelta::days(3));
    let records = [record(1, 9, 7, None, Some(HOME))];
    for _ in 0..2 {
        assert_eq!(deliver(&app, &format!("{opened:020}-abcdef"), &records).await, None);
    }
    assert_eq!(app.store.event_counts(9).await.unwrap().predictions, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_redeliveries_of_a_batch_count_once() {
    let app = app().await;
    let records: Vec<Value> =
        (1..=20).map(|n| record(u64::from(n), 9, n, None, Some(Row { points: Some(2), ..HOME }))).collect();
    let records = Arc::new(records);
    concurrently(16, |n| {
        let (app, records) = (app.clone(), Arc::clone(&records));
        // A redelivery can end at an earlier record than the original delivery.
        async move { deliver(&app, "a", &records[..20 - n]).await }
    })
    .await;
    assert_eq!(deliver(&app, "a", &records).await, None);
    assert_eq!(app.store.event_counts(9).await.unwrap().predictions, 20);
    for user in 1..=20 {
        assert_eq!(app.store.user_stats(UserId(user)).await.unwrap().points, 2);
    }
}

/// Random stream records, and the rows that exist after all of them.
struct Schedule {
    /// The records of each shard, in sequence order.
    shards: [Vec<Value>; 2],
    /// The rows by match id and user id.
    rows: BTreeMap<(u32, u32), Row>,
}

const EVENTS: u32 = 2;
const USERS: u32 = 3;

impl Schedule {
    /// Draws a random schedule. Match ids and user ids start from `first`, so that schedules do not share
    /// counters.
    fn draw(random: &(dyn Random + 'static), first: u32) -> Self {
        let mut shards = [Vec::new(), Vec::new()];
        let mut rows = BTreeMap::<(u32, u32), Row>::new();
        for sequence in 0..u64::from(4 + random.below(8)) {
            let key = (first + random.below(EVENTS), first + random.below(USERS));
            let old = rows.get(&key).copied();
            let new = match (old, random.below(8)) {
                (Some(_), 0) => None,
                (Some(row), 1..=3) => {
                    Some(Row { points: [None, Some(0), Some(4)][random.below(3) as usize], ..row })
                }
                _ => Some(Row {
                    pick: ["home", "draw", "away"][random.below(3) as usize],
                    confidence: random.below(101),
                    points: None,
                }),
            };
            match new {
                Some(row) => rows.insert(key, row),
                None => rows.remove(&key),
            };
            // All changes of a row are in one shard.
            let shard = &mut shards[((key.0 + key.1) % 2) as usize];
            shard.push(record(100 + sequence, key.0, key.1, old, new));
        }
        Self { shards, rows }
    }

    /// Delivers every record at least once, in random batches and with redeliveries.
    async fn deliver_all(&self, app: &TestApp, random: &(dyn Random + 'static)) {
        let mut delivered = [0_usize; 2];
        while (0..2).any(|shard| delivered[shard] < self.shards[shard].len()) {
            let shard = random.below(2) as usize;
            let records = &self.shards[shard];
            // One delivery in three starts at a random earlier record, like a redelivery.
            let from = if random.below(3) == 0 {
                random.below(u32::try_from(delivered[shard]).unwrap() + 1) as usize
            } else {
                delivered[shard]
            };
            let to = records.len().min(from + 1 + random.below(5) as usize);
            let failed = deliver_batch(app, &format!("{shard}"), &records[from..to]).await;
            let up_to = match failed {
                None => to,
                Some(number) => {
                    let is_failed = |record: &Value| record["dynamodb"]["SequenceNumber"] == number.as_str();
                    from + records[from..to].iter().position(is_failed).expect("the batch has the record")
                }
            };
            delivered[shard] = delivered[shard].max(up_to);
        }
        let parts = part_records(&self.shards.concat());
        while deliver_batch(app, "parts", &parts).await.is_some() {}
    }

    /// Compares the counters with a recount of the rows.
    async fn check(&self, app: &TestApp, first: u32, seed: u64) {
        for event in first..first + EVENTS {
            let mut expected = EventCounts::default();
            for ((_, _), row) in self.rows.iter().filter(|((of, _), _)| *of == event) {
                expected += EventCounts {
                    predictions: 1,
                    home: i64::from(row.pick == "home"),
                    draw: i64::from(row.pick == "draw"),
                    away: i64::from(row.pick == "away"),
                    confidence: i64::from(row.confidence),
                };
            }
            assert_eq!(app.store.event_counts(event).await.unwrap(), expected, "seed {seed}");
        }
        for user in first..first + USERS {
            let mut expected = UserStats::default();
            for points in
                self.rows.iter().filter(|((_, of), _)| *of == user).filter_map(|(_, row)| row.points)
            {
                expected += UserStats {
                    settled: 1,
                    correct: i64::from(points > 0),
                    points: i64::from(points),
                    exact: i64::from(points == 4),
                };
            }
            assert_eq!(app.store.user_stats(UserId(user)).await.unwrap(), expected, "seed {seed}");
        }
    }
}

/// Runs 300 random schedules. A failed assertion prints the seed of its schedule.
#[tokio::test(flavor = "multi_thread")]
async fn counters_equal_a_recount_after_redeliveries_and_failed_writes() {
    const SCHEDULES: u32 = 300;
    concurrently(4, |part| async move {
        let app = app().await;
        // One write in five fails. Half of these writes fail before the store carries them out, half fail after.
        let faults = SeededRandom::new(7 + part as u64);
        app.faults.set(move |attempt| {
            let random: &dyn Random = &faults;
            let is_write = ["UpdateItem", "PutItem"].contains(&attempt.operation);
            match random.below(10) {
                0 if is_write => Fault::FailBefore,
                1 if is_write => Fault::FailAfter,
                _ => Fault::None,
            }
        });
        for n in (0..SCHEDULES).filter(|n| *n as usize % 4 == part) {
            let (seed, first) = (u64::from(n), 1 + n * 10);
            let random: &(dyn Random + 'static) = &SeededRandom::new(seed);
            let schedule = Schedule::draw(random, first);
            schedule.deliver_all(&app, random).await;
            schedule.check(&app, first, seed).await;
        }
    })
    .await;
}

/// Stores a public room, and returns it as it was stored.
async fn store_room(app: &TestApp, name: &str) -> Room {
    let now = app.clock.now();
    let room = Room {
        room_id: RoomId::parse("!x:touchline.local").unwrap(),
        name: name.into(),
        topic: String::new(),
        event_id: Some(9),
        creator_id: Some(UserId(7)),
        is_private: false,
        shards: 4,
        created_at: now,
        last_activity: now,
        league: None,
        removed_at: None,
    };
    assert!(app.store.put_room(&room).await.unwrap());
    room
}

/// Returns how many rooms a search finds.
async fn hits(app: &TestApp, text: &str) -> usize {
    let directory = Directory::Named(Needle::new(text).unwrap());
    app.store.directory_page(&directory, None, 10).await.unwrap().entries.len()
}

#[tokio::test(start_paused = true)]
async fn the_directory_has_only_the_last_name_of_a_room_that_changed_twice_in_one_batch() {
    let app = TestApp::serving(&[]).start().await;
    let room = store_room(&app, "First").await;
    for name in ["Second", "Third"] {
        app.store.rename_room(&room.room_id, name).await.unwrap();
    }
    let changes = app.changes(&app.config.tables.rooms).await;
    for _ in 0..2 {
        // The second delivery of the same batch changes nothing.
        let report = app.invoke(crate::handle, changes.clone()).await;
        assert_eq!(report["batchItemFailures"], json!([]));
        for (text, expected) in [("first", 0), ("s", 0), ("second", 0), ("third", 1), ("h", 1)] {
            assert_eq!(hits(&app, text).await, expected, "{text}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_rebuild_lists_every_public_room_and_resumes_where_it_stopped() {
    let app = TestApp::serving(&[]).start().await;
    app.store_rooms(7, 25, false, Membership::Join).await;
    app.store_rooms(7, 5, true, Membership::Join).await;
    assert_eq!(hits(&app, "stand").await, 0, "no change was processed");
    // Each read takes so long that an invocation ends after one step.
    let clock = Arc::clone(&app.clock);
    app.faults.set(move |attempt| {
        if attempt.operation == "Scan" {
            clock.advance(TimeDelta::minutes(1));
        }
        Fault::None
    });
    for _ in 0..2 {
        let (mut rooms, mut invocations, mut resume) = (0, 0, Value::Null);
        loop {
            let payload = json!({ "rebuild_directory": { "resume": resume } });
            let report = app.invoke(crate::handle, payload).await;
            rooms += report["rooms"].as_u64().unwrap();
            invocations += 1;
            resume = report["resume"].clone();
            if resume.is_null() {
                break;
            }
        }
        assert_eq!(rooms, 30);
        assert!(invocations >= 6, "{invocations}");
        let listed = app.store.directory_page(&Directory::All, None, 100).await.unwrap();
        assert_eq!(listed.entries.len(), 25, "private rooms are not listed");
        assert_eq!((hits(&app, "stand7").await, hits(&app, "den").await), (1, 0));
    }
    let error = app.try_invoke(crate::handle, json!({ "rebuild_directory": { "resume": "x" } })).await;
    assert!(error.unwrap_err().to_string().contains("resume"));
}

/// The record of a new name can be processed between the two steps of a rebuild: reading the room, and writing its
/// entries.
#[tokio::test(start_paused = true)]
async fn a_rebuild_does_not_restore_an_old_name() {
    let app = TestApp::serving(&[]).start().await;
    let read = store_room(&app, "First").await;
    app.store.rename_room(&read.room_id, "Second").await.unwrap();
    app.invoke(crate::handle, app.changes(&app.config.tables.rooms).await).await;
    crate::rebuild::write_entries(&app, vec![read]).await.unwrap();
    assert_eq!((hits(&app, "first").await, hits(&app, "second").await), (0, 1));
}
