//! Folds tables' changes into counts, exactly once.
//!
//! A batch comes from one shard of a stream, in order, at least once, and maybe in other batches the next
//! time. It is grouped by what it changes; each group is added in one conditional write that also notes
//! how far it goes. So whatever comes again is known, and a group that fails takes no other with it.

mod notes;

use std::collections::BTreeMap;

use futures_util::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::tally::{Counters, EventCounts, RoomCounts, UserRecord, difference};
use touchline::storage::StoreError;
use touchline::storage::stream::{Batch, Change, Record};
use touchline::storage::tallies::{Addition, Aggregate};

/// How many groups are written at once.
const AT_ONCE: usize = 16;

/// One delivery. The answer names the first record that must come again, if any.
pub async fn handle(app: App, event: Value) -> Result<Value, StoreError> {
    let batch = Batch::read(event)?;
    let groups = Groups::of(&batch.records);
    let (uncounted, unkept) = (groups.fold(&app).await, notes::keep(&app, &batch.records).await);
    for change in &batch.unreadable {
        // Where it cannot be kept, the whole batch comes again, which does no harm.
        app.store.save_unreadable(change, app.clock.now()).await?;
    }
    let first_failed = uncounted.into_iter().chain(unkept).min();
    let failed = first_failed.map(|at| batch.records[at].number.clone());
    let failures: Vec<Value> = failed.iter().map(|number| json!({ "itemIdentifier": number })).collect();
    // `state` belongs to the window, which is there for the shard's name alone.
    Ok(json!({ "batchItemFailures": failures, "state": {} }))
}

/// Changes by what they change. Within one, in the order of the batch, each with its place in it.
#[derive(Default)]
struct Groups<'a> {
    events: Group<'a, EventCounts>,
    users: Group<'a, UserRecord>,
    rooms: Group<'a, RoomCounts>,
}

type Group<'a, C> = BTreeMap<(Aggregate, &'a str), Vec<(usize, Addition<C>)>>;

impl<'a> Groups<'a> {
    fn of(records: &'a [Record]) -> Self {
        let mut groups = Self::default();
        for (at, record) in records.iter().enumerate() {
            match &record.change {
                Change::Prediction { old, new } => {
                    let Some(row) = new.as_ref().or(old.as_ref()) else { continue };
                    let (old, new) = (old.as_ref(), new.as_ref());
                    let event = Aggregate::Event(row.event_id);
                    add(&mut groups.events, event, at, record, difference(EventCounts::of, old, new));
                    let user = Aggregate::User(row.user_id);
                    add(&mut groups.users, user, at, record, difference(UserRecord::of, old, new));
                }
                Change::Member { old, new, .. } => {
                    let Some(row) = new.as_ref().or(old.as_ref()) else { continue };
                    let room = Aggregate::Room(row.room_id.clone());
                    let counts = difference(RoomCounts::of, old.as_ref(), new.as_ref());
                    add(&mut groups.rooms, room, at, record, counts);
                }
                Change::Room { .. } | Change::UserRecord { .. } | Change::Team { .. } | Change::Other => {}
            }
        }
        groups
    }

    /// Writes every group. Returns the place of the first record of those that failed.
    async fn fold(&self, app: &App) -> Option<usize> {
        let events = fold(app, &self.events).await;
        let users = fold(app, &self.users).await;
        let rooms = fold(app, &self.rooms).await;
        events.into_iter().chain(users).chain(rooms).min()
    }
}

fn add<'a, C: Counters>(
    group: &mut Group<'a, C>,
    aggregate: Aggregate,
    at: usize,
    record: &'a Record,
    counts: C,
) {
    // A record that adds nothing may be left out; a run whose sum is nothing may not, because the next
    // time only a part of it may come.
    if counts != C::default() {
        let addition = Addition { sequence: record.sequence, counts };
        group.entry((aggregate, &record.shard)).or_default().push((at, addition));
    }
}

async fn fold<C: Counters>(app: &App, groups: &Group<'_, C>) -> Option<usize> {
    let now = app.clock.now();
    let folding = groups.iter().map(|((aggregate, shard), additions)| async move {
        let first = additions.first().map(|(at, _)| *at)?;
        let additions: Vec<_> = additions.iter().map(|(_, addition)| addition.clone()).collect();
        let folded = app.store.fold(aggregate, shard, &additions, now).await;
        folded.err().map(|error| {
            tracing::warn!(%error, ?aggregate, "a count could not be written; its changes come again");
            first
        })
    });
    // Collected: the compiler cannot see through the closure otherwise.
    let folding: Vec<_> = folding.collect();
    let failed: Vec<Option<usize>> = stream::iter(folding).buffer_unordered(AT_ONCE).collect().await;
    failed.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use chrono::TimeDelta;
    use serde_json::{Value, json};
    use touchline::domain::UserId;
    use touchline::domain::tally::{EventCounts, UserRecord};
    use touchline::ports::random::Random;
    use touchline_testing::{Fault, SeededRandom, TestApp, at_once};

    /// A prediction, as far as it is counted.
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

    fn batch(shard: &str, records: &[Value]) -> Value {
        json!({ "Records": records, "shardId": format!("shardId-{shard}") })
    }

    async fn deliver(app: &TestApp, shard: &str, records: &[Value]) -> Option<String> {
        let answer = super::handle(app.app.clone(), batch(shard, records)).await.unwrap();
        assert_eq!(answer["state"], json!({}));
        let failures = answer["batchItemFailures"].as_array().unwrap();
        assert!(failures.len() <= 1);
        failures.first().map(|failure| failure["itemIdentifier"].as_str().unwrap().to_owned())
    }

    const HOME: Row = Row { pick: "home", confidence: 80, points: None };

    async fn app() -> TestApp {
        TestApp::serving(&[]).without_streams().start().await
    }

    #[tokio::test]
    async fn counts_follow_rows() {
        let app = app().await;
        let draw = Row { pick: "draw", confidence: 30, points: None };
        let records = [
            record(1, 9, 7, None, Some(HOME)),
            record(2, 9, 8, None, Some(draw)),
            record(3, 9, 7, Some(HOME), Some(draw)),
            record(4, 9, 8, Some(draw), Some(Row { points: Some(2), ..draw })),
        ];
        assert_eq!(deliver(&app, "a", &records).await, None);
        let counts = app.app.store.event_counts(9).await.unwrap();
        assert_eq!(counts, EventCounts { predictions: 2, home: 0, draw: 2, away: 0, confidence: 60 });
        let record = app.app.store.user_record(UserId(8)).await.unwrap();
        assert_eq!(record, UserRecord { settled: 1, correct: 1, points: 2 });
        assert_eq!(app.app.store.user_record(UserId(7)).await.unwrap(), UserRecord::default());
        assert_eq!(app.app.store.prediction_counts(&[9, 10]).await.unwrap(), BTreeMap::from([(9, 2)]));
    }

    /// Two changes that cancel out must be remembered all the same: next time only the second may come.
    #[tokio::test]
    async fn changes_that_cancel_out_are_remembered() {
        let app = app().await;
        let records = [record(1, 9, 7, None, Some(HOME)), record(2, 9, 7, Some(HOME), None)];
        assert_eq!(deliver(&app, "a", &records).await, None);
        assert_eq!(deliver(&app, "a", &records[1..]).await, None);
        assert_eq!(app.app.store.event_counts(9).await.unwrap(), EventCounts::default());
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_set_aside_and_holds_up_nothing() {
        let app = app().await;
        let mut poison = record(2, 9, 8, None, Some(HOME));
        poison["dynamodb"]["NewImage"]["pick"] = json!({ "S": "nobody" });
        let records = [record(1, 9, 7, None, Some(HOME)), poison, record(3, 9, 9, None, Some(HOME))];
        for _ in 0..2 {
            assert_eq!(deliver(&app, "a", &records).await, None);
            assert_eq!(app.app.store.event_counts(9).await.unwrap().predictions, 2);
        }
        let dump = app.dump().await;
        assert_eq!(dump.matches("unreadable").count(), 1);
        assert!(dump.contains("nobody"), "{dump}");
    }

    #[tokio::test]
    async fn other_items_and_empty_batches_are_passed_over() {
        let app = app().await;
        let tally = json!({ "dynamodb": {
            "Keys": { "pk": { "S": "event#9" }, "sk": { "S": "tally" } },
            "NewImage": { "predictions": { "N": "1" } }, "SequenceNumber": "1",
        } });
        assert_eq!(deliver(&app, "a", &[tally]).await, None);
        assert_eq!(deliver(&app, "a", &[]).await, None);
        assert!(super::handle(app.app.clone(), json!("x")).await.is_err());
    }

    /// Where a mapping has no window its events do not name the shard.
    #[tokio::test]
    async fn without_a_shards_name_the_partition_key_serves() {
        let app = app().await;
        let delivery = json!({ "Records": [record(1, 9, 7, None, Some(HOME))] });
        for _ in 0..2 {
            super::handle(app.app.clone(), delivery.clone()).await.unwrap();
        }
        assert_eq!(app.app.store.event_counts(9).await.unwrap().predictions, 1);
    }

    /// Shards come and go, every few hours in the long run. Their marks must not fill the item.
    #[tokio::test]
    async fn marks_of_shards_that_ended_are_forgotten() {
        let app = app().await;
        for n in 0..100_u32 {
            let records = [record(u64::from(n) + 1, 9, n, None, Some(HOME))];
            let opened = app.app.clock.now().timestamp_millis();
            assert_eq!(deliver(&app, &format!("{opened:020}-abcdef"), &records).await, None);
            app.clock.advance(TimeDelta::hours(4));
        }
        assert_eq!(app.app.store.event_counts(9).await.unwrap().predictions, 100);
        let dump = app.dump().await;
        let marks = dump.matches("seen:").count();
        assert!((6..=10).contains(&marks), "{marks} marks are left of a day and a half");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn the_same_batch_many_times_at_once_counts_once() {
        let app = Arc::new(app().await);
        let records: Vec<Value> = (1..=20)
            .map(|n| record(u64::from(n), 9, n, None, Some(Row { points: Some(2), ..HOME })))
            .collect();
        let records = Arc::new(records);
        at_once(16, |n| {
            let (app, records) = (Arc::clone(&app), Arc::clone(&records));
            // Not always from the same place: batches are cut anew.
            async move { deliver(&app, "a", &records[..20 - n]).await }
        })
        .await;
        assert_eq!(deliver(&app, "a", &records).await, None);
        assert_eq!(app.app.store.event_counts(9).await.unwrap().predictions, 20);
        for user in 1..=20 {
            assert_eq!(app.app.store.user_record(UserId(user)).await.unwrap().points, 2);
        }
    }

    /// One seeded life of a stream: what changes, how it is cut into batches, what comes again, what fails.
    struct Schedule {
        /// Each shard's records, in their order.
        shards: [Vec<Value>; 2],
        rows: BTreeMap<(u32, u32), Row>,
    }

    const EVENTS: u32 = 2;
    const USERS: u32 = 3;

    impl Schedule {
        /// Numbers of matches and users start from `first`, so that schedules do not meet.
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
                // A row's changes stay in one shard.
                let shard = &mut shards[((key.0 + key.1) % 2) as usize];
                shard.push(record(100 + sequence, key.0, key.1, old, new));
            }
            Self { shards, rows }
        }

        /// Delivers everything at least once, in the end.
        async fn play(&self, app: &TestApp, random: &(dyn Random + 'static)) {
            let mut done = [0_usize; 2];
            while (0..2).any(|shard| done[shard] < self.shards[shard].len()) {
                let shard = random.below(2) as usize;
                let records = &self.shards[shard];
                // Sometimes from further back: what was done comes again.
                let from = if random.below(3) == 0 {
                    random.below(u32::try_from(done[shard]).unwrap() + 1) as usize
                } else {
                    done[shard]
                };
                let to = records.len().min(from + 1 + random.below(5) as usize);
                let failed = deliver(app, &format!("{shard}"), &records[from..to]).await;
                let up_to = match failed {
                    None => to,
                    Some(number) => {
                        let is_it = |record: &Value| record["dynamodb"]["SequenceNumber"] == number.as_str();
                        from + records[from..to].iter().position(is_it).expect("a record of the batch")
                    }
                };
                done[shard] = done[shard].max(up_to);
            }
        }

        /// Counts all rows there are, and compares.
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
                assert_eq!(app.app.store.event_counts(event).await.unwrap(), expected, "seed {seed}");
            }
            for user in first..first + USERS {
                let mut expected = UserRecord::default();
                for points in
                    self.rows.iter().filter(|((_, of), _)| *of == user).filter_map(|(_, row)| row.points)
                {
                    expected +=
                        UserRecord { settled: 1, correct: i64::from(points > 0), points: i64::from(points) };
                }
                assert_eq!(app.app.store.user_record(UserId(user)).await.unwrap(), expected, "seed {seed}");
            }
        }
    }

    /// Thousands of schedules, each with its seed; one that fails prints it.
    #[tokio::test(flavor = "multi_thread")]
    async fn whatever_comes_again_and_whatever_fails_counts_end_as_a_recount() {
        const SCHEDULES: u32 = 2_000;
        let app = Arc::new(app().await);
        // One write in five fails, half of those after it was done.
        let faults = SeededRandom::new(7);
        app.faults.set(move |attempt| {
            let random: &dyn Random = &faults;
            match random.below(10) {
                0 if attempt.operation == "UpdateItem" => Fault::Refuse,
                1 if attempt.operation == "UpdateItem" => Fault::DoAndRefuse,
                _ => Fault::None,
            }
        });
        at_once(4, |part| {
            let app = Arc::clone(&app);
            async move {
                for n in (0..SCHEDULES).filter(|n| *n as usize % 4 == part) {
                    let (seed, first) = (u64::from(n), 1 + n * 10);
                    let random: &(dyn Random + 'static) = &SeededRandom::new(seed);
                    let schedule = Schedule::draw(random, first);
                    schedule.play(&app, random).await;
                    schedule.check(&app, first, seed).await;
                }
            }
        })
        .await;
    }
}
