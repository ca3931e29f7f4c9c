use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::TimeDelta;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::prediction::{Confidence, Forecast, SettledIn, Stamp, shard};
use touchline::domain::room::{Membership, Room};
use touchline::domain::standings::Board;
use touchline::domain::tally::{EventCounts, EventTally, RoomCounts, UserStats};
use touchline::domain::{Pick, RoomId, UserId};
use touchline::storage::directory::Directory;
use touchline::storage::keys::{self, Key};
use touchline::storage::predictions::NewPrediction;
use touchline::storage::settlements::Award;
use touchline::storage::{Reads, Store};
use touchline_stack::streams::sequence;
use touchline_testing::{Fault, Function, TestApp, next_position};

use crate::{handle, report};

const MATCH: u32 = 1;
const SHARDS: u8 = 4;

/// A league whose streams are delivered only when a test says so.
#[derive(Clone)]
struct League {
    app: TestApp,
    /// The same app without injected faults, for everything except the recount.
    product: App,
    /// The last record of each stream that `tally` has passed: predictions and rooms.
    passed: Arc<[Mutex<Option<String>>; 2]>,
    delivering: Arc<tokio::sync::Mutex<()>>,
    revision: Arc<AtomicU32>,
}

impl League {
    async fn start() -> Self {
        let app = TestApp::serving(&[]).start().await;
        let text = include_str!("../../../events/feed/touchline.json");
        let mut league: Value = serde_json::from_str(text).unwrap();
        // The matches of a featured tournament have 64 shards.
        league["tournaments"][0]["featured"] = json!(false);
        app.invoke(feed::handle, league).await;
        let store = Store::new(app.client(), app.config.tables.clone());
        let product = App { store, ..App::clone(&app) };
        let league = Self {
            app,
            product,
            passed: Arc::default(),
            delivering: Arc::default(),
            revision: Arc::default(),
        };
        league.deliver().await;
        league
    }

    async fn predict(&self, user: u32, pick: Pick) {
        self.app.clock.advance(TimeDelta::seconds(1));
        let new = NewPrediction {
            event_id: MATCH,
            shards: SHARDS,
            user_id: UserId(user),
            forecast: Forecast::new(pick, None).unwrap(),
            confidence: Confidence::new(50).unwrap(),
            stamp: Stamp::new(self.app.clock.now(), user),
        };
        self.product.store.predict(&new).await.unwrap();
    }

    /// Gives a prediction points, or other points.
    async fn award(&self, user: u32, points: u32) {
        let row = self.product.store.prediction(MATCH, SHARDS, UserId(user), Reads::Consistent).await;
        let award = Award { row: row.unwrap().unwrap(), points: Some(points) };
        let revision = self.revision.fetch_add(1, Ordering::Relaxed) + 1;
        let now = self.app.clock.now();
        let settled_in = SettledIn { tournament: 1, kick_off: now, at: now };
        let changed = self.product.store.award(SHARDS, revision, &settled_in, &[award]).await.unwrap();
        assert_eq!(changed, []);
    }

    /// Invokes `tally` with a batch.
    async fn tally(&self, batch: Value) -> Value {
        let deadline = self.app.clock.now() + TimeDelta::minutes(1);
        Function::invoke(tally::handle, self.product.clone(), batch, deadline).await.unwrap()
    }

    /// Delivers the records of both streams, and those that these deliveries cause.
    async fn deliver(&self) {
        let _one_at_a_time = self.delivering.lock().await;
        while self.pass(true).await {}
    }

    /// Skips the records that are not delivered yet, as Lambda does when it gives them up.
    async fn lose(&self) {
        self.pass(false).await;
    }

    /// Passes the records of both streams that were not passed yet. Returns whether there were any.
    async fn pass(&self, delivers: bool) -> bool {
        let tables = &self.app.config.tables;
        let mut is_any = false;
        for (table, passed) in [&tables.predictions, &tables.rooms].into_iter().zip(&*self.passed) {
            let after = passed.lock().unwrap().clone();
            let event = self.app.changes_after(table, after.as_deref()).await;
            let records: Vec<String> = event["Records"]
                .as_array()
                .unwrap()
                .iter()
                .map(|record| sequence(record).to_owned())
                .collect();
            let mut done = records.len();
            if delivers && done > 0 {
                // If the clock advances, `tally` can run out of time. The rest of the batch is redelivered.
                let report = self.tally(event).await;
                if let Some(failed) = report["batchItemFailures"][0]["itemIdentifier"].as_str() {
                    done = records.iter().position(|record| record == failed).unwrap();
                    assert!(done > 0, "every delivery makes progress");
                }
            }
            if let Some(last) = done.checked_sub(1).and_then(|last| records.get(last)) {
                // Only now: the end of a recount cancels the delivery that is under way.
                *passed.lock().unwrap() = Some(last.clone());
                is_any = true;
            }
        }
        is_any
    }

    /// Runs a recount while the streams are delivered.
    async fn recount(&self, order: Value) -> Value {
        self.try_recount(order).await.unwrap()
    }

    async fn try_recount(&self, order: Value) -> Result<Value, crate::RecountError> {
        let deliveries = async {
            loop {
                self.deliver().await;
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            result = self.app.try_invoke(handle, json!({ "recount": order })) => result,
            () = deliveries => unreachable!("the streams do not end"),
        }
    }

    async fn counts(&self) -> EventTally {
        self.product.store.event_tally(MATCH).await.unwrap()
    }

    /// Adds up the rows of the match, independently of the counters.
    async fn rows(&self) -> EventTally {
        let mut rows = EventTally::default();
        for shard in 0..SHARDS {
            for row in self.product.store.shard_page(MATCH, shard, None, 1_000).await.unwrap().0 {
                rows += EventTally::of(&row, shard);
            }
        }
        rows
    }

    async fn stats(&self, user: u32) -> UserStats {
        self.product.store.user_stats(UserId(user)).await.unwrap()
    }

    async fn join(&self, room: &Room, user: u32) {
        let (id, now) = (UserId(user), self.app.clock.now());
        self.product
            .store
            .apply_homeserver_membership(room, id, (Membership::Join, now), next_position())
            .await
            .unwrap();
    }

    /// Stores the room that is about the match.
    async fn room(&self) -> Room {
        let now = self.app.clock.now();
        let room = Room {
            room_id: RoomId::parse("!stand:touchline.local").unwrap(),
            name: "North Stand".into(),
            topic: String::new(),
            event_id: Some(MATCH),
            creator_id: Some(UserId(1)),
            is_private: false,
            shards: 4,
            created_at: now,
            last_activity: now,
            league: None,
            removed_at: None,
        };
        self.product.store.put_room(&room).await.unwrap();
        room
    }

    /// Writes into an item that `tally` maintains. Without a value, deletes the item.
    async fn tamper(&self, table: &str, pk: &str, sk: &str, attribute: &str, value: Option<i64>) {
        let (pk, sk) = (AttributeValue::S(pk.into()), AttributeValue::S(sk.into()));
        let client = self.app.client();
        let Some(value) = value else {
            client.delete_item().table_name(table).key("pk", pk).key("sk", sk).send().await.unwrap();
            return;
        };
        let update = client.update_item().table_name(table).key("pk", pk).key("sk", sk);
        let update = update
            .update_expression("SET #attribute = :value")
            .expression_attribute_names("#attribute", attribute)
            .expression_attribute_values(":value", AttributeValue::N(value.to_string()));
        update.send().await.unwrap();
    }
}

/// Returns users whose predictions and memberships are in the same shard.
fn neighbours() -> impl Iterator<Item = u32> {
    (1..).filter(|user| shard(UserId(*user), SHARDS) == 2)
}

fn this_match() -> Value {
    json!({ "match": MATCH })
}

fn nothing_repaired(checked: u64) -> Value {
    json!({ "checked": checked, "repaired": [], "busy": [], "copied": 0, "next": null })
}

#[tokio::test]
async fn a_match_whose_stream_records_were_lost_is_counted_again() {
    let league = League::start().await;
    let users: Vec<u32> = neighbours().take(3).collect();
    league.predict(users[0], Pick::Home).await;
    league.deliver().await;
    assert_eq!(league.recount(this_match()).await, nothing_repaired(4));

    league.predict(users[1], Pick::Away).await;
    league.predict(users[0], Pick::Draw).await;
    league.lose().await;
    league.predict(users[2], Pick::Away).await;
    league.deliver().await;
    assert_eq!(league.counts().await.counts.predictions, 2);
    let report = league.recount(this_match()).await;
    let difference = |stored, counted| json!({ "stored": stored, "counted": counted });
    let differences = json!({
        "predictions": difference(2, 3), "home": difference(1, 0), "draw": difference(0, 1),
        "away": difference(1, 2), "confidence": difference(100, 150), "in:2": difference(2, 3),
    });
    assert_eq!(report["repaired"], json!([{ "counters": "match 1, shard 2", "differences": differences }]));
    let expected = EventCounts { predictions: 3, home: 0, draw: 1, away: 2, confidence: 150 };
    assert_eq!(league.counts().await.counts, expected);
    assert_eq!(league.counts().await, league.rows().await);

    // Later changes are counted on top of the repaired counters.
    league.predict(users[1], Pick::Home).await;
    league.deliver().await;
    assert_eq!(league.counts().await, league.rows().await);
    assert_eq!(league.recount(this_match()).await, nothing_repaired(4));
}

#[tokio::test]
async fn counters_that_were_changed_or_deleted_by_hand_are_repaired() {
    let league = League::start().await;
    for user in 1..=12 {
        league.predict(user, Pick::Home).await;
    }
    league.deliver().await;
    let right = league.counts().await;
    let table = &league.app.config.tables.predictions;
    for (sk, attribute, value) in [
        ("tally#2", "home", Some(7)),
        ("tally#2", "", None),
        // Only the sums are wrong.
        ("tally", "away", Some(3)),
        ("tally", "summed", Some(1_000)),
        ("tally", "", None),
    ] {
        league.tamper(table, "event#1", sk, attribute, value).await;
        league.recount(this_match()).await;
        assert_eq!(league.counts().await, right, "{sk} {attribute}");
        // The sums follow the next change, too.
        league.predict(13, if value.is_some() { Pick::Draw } else { Pick::Away }).await;
        league.deliver().await;
        assert_eq!(league.counts().await, league.rows().await, "{sk} {attribute}");
        league.tamper(table, &format!("event#1#{}", shard(UserId(13), 4)), "user#13", "", None).await;
        league.deliver().await;
        assert_eq!(league.counts().await, right, "{sk} {attribute}");
    }
}

/// The change comes before each call of the recount in turn: before and after each marker, while the rows are read, and
/// before the repair. Half of the times, `tally` counts it at once.
#[tokio::test]
async fn a_change_at_any_moment_of_a_recount_is_counted_once() {
    let league = League::start().await;
    let mut users = neighbours();
    let rival = users.next().unwrap();
    league.predict(rival, Pick::Home).await;
    league.deliver().await;
    for is_counted_at_once in [false, true] {
        for interrupted in 1.. {
            league.predict(users.next().unwrap(), Pick::Home).await;
            league.lose().await;
            let calls = Arc::new(AtomicUsize::new(0));
            let (other, count) = (league.clone(), Arc::clone(&calls));
            let newcomer = users.next().unwrap();
            league.app.faults.interrupt(move |_| {
                let league = other.clone();
                (count.fetch_add(1, Ordering::Relaxed) + 1 == interrupted).then(|| {
                    async move {
                        league.predict(newcomer, Pick::Draw).await;
                        league.predict(rival, Pick::Away).await;
                        if is_counted_at_once {
                            league.deliver().await;
                        }
                    }
                    .boxed()
                })
            });
            let report = league.recount(this_match()).await;
            league.app.faults.clear();
            league.deliver().await;
            assert_eq!(report["busy"], json!([]), "call {interrupted}");
            assert_eq!(league.counts().await, league.rows().await, "call {interrupted}: {report}");
            if calls.load(Ordering::Relaxed) < interrupted {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_recount_that_fails_at_any_call_leaves_the_counters_as_they_were_or_repaired() {
    let league = League::start().await;
    let mut users = neighbours();
    for fault in [Fault::FailBefore, Fault::FailAfter, Fault::LoseResponse] {
        for failing in 1.. {
            league.predict(users.next().unwrap(), Pick::Home).await;
            league.deliver().await;
            let right = league.counts().await;
            let lost = users.next().unwrap();
            league.predict(lost, Pick::Away).await;
            league.lose().await;
            let calls = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&calls);
            league.app.faults.set(move |_| {
                if count.fetch_add(1, Ordering::Relaxed) + 1 == failing { fault } else { Fault::None }
            });
            let result = league.try_recount(this_match()).await;
            league.app.faults.clear();
            if fault == Fault::LoseResponse {
                // The SDK repeats a call whose response was lost, and the recount reports what it has repaired.
                assert_eq!(result.unwrap()["repaired"].as_array().unwrap().len(), 1, "call {failing}");
            }
            league.deliver().await;
            let (counts, rows) = (league.counts().await, league.rows().await);
            assert!(counts == rows || counts == right, "call {failing}: {counts:?}, rows {rows:?}");
            league.recount(this_match()).await;
            assert_eq!(league.counts().await, rows, "call {failing}");
            if calls.load(Ordering::Relaxed) < failing {
                break;
            }
        }
    }
}

#[tokio::test]
async fn redelivered_markers_and_changes_count_once() {
    let league = League::start().await;
    for user in 1..=8 {
        league.predict(user, Pick::Home).await;
        if user == 4 {
            league.lose().await;
        }
    }
    league.recount(this_match()).await;
    let right = league.rows().await;
    assert_eq!(league.counts().await, right);
    // The whole stream again, with the lost records: the position is after them.
    for _ in 0..2 {
        let changes = league.app.changes(&league.app.config.tables.predictions).await;
        league.tally(changes).await;
    }
    assert_eq!(league.counts().await, right);
    assert_eq!(league.recount(this_match()).await, nothing_repaired(4));
}

/// No stream is delivered in this test.
#[tokio::test]
async fn counters_behind_their_stream_are_reported_as_busy_and_not_changed() {
    let league = League::start().await;
    league.predict(1, Pick::Home).await;
    let order = json!({ "recount": this_match() });
    let report = league.app.invoke(handle, order).await;
    let busy = report["busy"].as_array().unwrap();
    assert_eq!((busy.len(), &report["repaired"]), (1, &json!([])), "{report}");
    assert!(busy[0]["reason"].as_str().unwrap().contains("behind"), "{report}");
    assert_eq!(league.counts().await, EventTally::default());
    // The change is counted once, although the recount saw it first.
    league.deliver().await;
    assert_eq!(league.counts().await, league.rows().await);
}

/// If DynamoDB has split the partition, its changes come from several stream shards, and markers at its ends do not
/// show that all of them are counted.
#[tokio::test]
async fn a_partition_in_several_stream_shards_is_busy() {
    let league = League::start().await;
    let user = neighbours().next().unwrap();
    league.predict(user, Pick::Home).await;
    league.lose().await;
    let deliveries = async {
        loop {
            let event = league.app.changes(&league.app.config.tables.predictions).await;
            for record in event["Records"].as_array().unwrap() {
                let shard = match record["dynamodb"]["Keys"]["sk"]["S"].as_str().unwrap() {
                    "!marker" => "shardId-00000001794744000000-a",
                    "~marker" => "shardId-00000001794744000000-b",
                    _ => continue,
                };
                let event = json!({ "Records": [record], "shardId": shard });
                league.tally(event).await;
            }
            tokio::task::yield_now().await;
        }
    };
    let report = tokio::select! {
        report = league.app.invoke(handle, json!({ "recount": this_match() })) => report,
        () = deliveries => unreachable!("the streams do not end"),
    };
    assert!(report["busy"][0]["reason"].as_str().unwrap().contains("several shards"), "{report}");
    assert_eq!(league.counts().await, EventTally::default());
}

#[tokio::test]
async fn statistics_whose_stream_records_were_lost_are_counted_again_and_copied() {
    let league = League::start().await;
    let room = league.room().await;
    league.join(&room, 7).await;
    league.predict(7, Pick::Home).await;
    league.award(7, 4).await;
    league.deliver().await;
    assert_eq!(league.stats(7).await, UserStats { settled: 1, correct: 1, points: 4, exact: 1 });
    league.award(7, 0).await;
    league.lose().await;
    let report = league.recount(json!({ "user": 7 })).await;
    assert_eq!(report["repaired"][0]["counters"], "user 7", "{report}");
    let right = UserStats { settled: 1, ..UserStats::default() };
    assert_eq!(league.stats(7).await, right);
    // The membership has a copy, and accepts it only with a higher version.
    league.deliver().await;
    let standings = league.product.store.standings(&room, 10, &[(shard(UserId(7), 4), 1)]).await.unwrap();
    assert_eq!((standings[0].stats.settled, standings[0].stats.correct), (1, 0));
    assert_eq!(league.recount(json!({ "user": 7 })).await, nothing_repaired(1));
}

#[tokio::test]
async fn points_at_any_moment_of_a_recount_of_statistics_count_once() {
    let league = League::start().await;
    league.predict(7, Pick::Home).await;
    league.deliver().await;
    for is_counted_at_once in [false, true] {
        for interrupted in 1.. {
            let points = u32::try_from(interrupted).unwrap();
            league.award(7, points).await;
            league.lose().await;
            let calls = Arc::new(AtomicUsize::new(0));
            let (other, count) = (league.clone(), Arc::clone(&calls));
            league.app.faults.interrupt(move |_| {
                let league = other.clone();
                (count.fetch_add(1, Ordering::Relaxed) + 1 == interrupted).then(|| {
                    async move {
                        league.award(7, points + 100).await;
                        if is_counted_at_once {
                            league.deliver().await;
                        }
                    }
                    .boxed()
                })
            });
            let report = league.recount(json!({ "user": 7 })).await;
            league.app.faults.clear();
            league.deliver().await;
            let has_ended = calls.load(Ordering::Relaxed) < interrupted;
            let expected = if has_ended { points } else { points + 100 };
            let exact = i64::from(expected == 4);
            let expected = UserStats { settled: 1, correct: 1, points: i64::from(expected), exact };
            assert_eq!(league.stats(7).await, expected, "call {interrupted}: {report}");
            if has_ended {
                break;
            }
        }
    }
}

#[tokio::test]
async fn leaderboards_of_statistics_whose_record_was_lost_are_built_again() {
    let league = League::start().await;
    league.predict(7, Pick::Home).await;
    league.predict(8, Pick::Home).await;
    league.deliver().await;
    league.award(7, 4).await;
    // `tally` counts the points. The record of the statistics, which queues the leaderboards, is lost.
    league.pass(true).await;
    league.lose().await;
    let queued = async || {
        let queues = league.product.store.queued_boards().await.unwrap();
        queues.into_iter().flat_map(|queue| queue.boards).collect::<BTreeSet<Board>>()
    };
    assert_eq!(queued().await, BTreeSet::new());
    assert_eq!(league.recount(json!({ "user": 8 })).await, nothing_repaired(1));
    assert_eq!(queued().await, BTreeSet::new(), "no leaderboard has user 8");
    assert_eq!(league.recount(json!({ "user": 7 })).await, nothing_repaired(1));
    let boards = Board::of_match(1, league.app.clock.now()).collect::<BTreeSet<Board>>();
    assert_eq!(queued().await, boards);
}

#[tokio::test]
async fn a_room_gets_its_counters_copies_and_directory_entries_back() {
    let league = League::start().await;
    league.predict(7, Pick::Home).await;
    league.award(7, 2).await;
    league.deliver().await;
    let room = league.room().await;
    for user in [7, 8, 9] {
        league.join(&room, user).await;
    }
    league.lose().await;
    let listed = || async {
        let page = league.product.store.directory_page(&Directory::About(MATCH), None, 10).await.unwrap();
        page.entries.iter().any(|entry| entry.room_id == room.room_id)
    };
    assert!(!listed().await);
    let order = json!({ "room": room.room_id });
    let report = league.recount(order.clone()).await;
    assert_eq!((&report["copied"], &report["busy"]), (&json!(1), &json!([])), "{report}");
    league.deliver().await;
    assert!(listed().await);
    let mut expected = RoomCounts::default();
    for shard in 0..room.shards {
        for found in league.product.store.copied_members(&room.room_id, shard, None).await.unwrap().0 {
            expected += RoomCounts::of(&found.member, shard);
        }
    }
    assert_eq!((expected.totals.members, expected.totals.home), (3, 1));
    assert_eq!(league.product.store.room_counts(&room.room_id).await.unwrap(), expected);
    let standings = league.product.store.standings(&room, 10, &[(shard(UserId(7), 4), 1)]).await.unwrap();
    assert_eq!(standings[0].user_id, UserId(7));
    assert_eq!(league.recount(order).await, nothing_repaired(4));
}

/// Each read of an item advances the clock by ten seconds. A recount has 180: five minutes until its deadline, minus the
/// `RESERVE`.
#[tokio::test]
async fn a_recount_of_a_large_room_continues_where_it_stopped() {
    let league = League::start().await;
    let room = league.room().await;
    for user in 1..=8 {
        league.predict(user, Pick::Home).await;
        league.join(&room, user).await;
    }
    league.deliver().await;
    for is_everything in [false, true] {
        for user in 1..=8 {
            league.predict(user, Pick::Away).await;
        }
        league.lose().await;
        let mut order = if is_everything {
            json!({ "everything": { "next": { "rooms": { "after": null } } } })
        } else {
            json!({ "room": room.room_id })
        };
        let (mut copied, mut stops) = (0, Vec::new());
        loop {
            let clock = Arc::clone(&league.app.clock);
            league.app.faults.set(move |attempt| {
                if attempt.operation == "GetItem" {
                    clock.advance(TimeDelta::seconds(10));
                }
                Fault::None
            });
            let report = league.recount(order).await;
            league.app.faults.clear();
            copied += report["copied"].as_u64().unwrap();
            let next = report["next"].clone();
            if next.is_null() {
                break;
            }
            stops.push(next.to_string());
            assert!(stops.len() < 10, "{stops:?}");
            order = if is_everything { json!({ "everything": { "next": next } }) } else { next };
        }
        assert!(stops.iter().any(|next| next.contains("members")), "{stops:?}");
        assert_eq!(copied, 8, "{stops:?}");
        league.deliver().await;
    }
    let counts = league.product.store.room_counts(&room.room_id).await.unwrap();
    assert_eq!((counts.totals.members, counts.totals.away), (8, 8));
}

#[tokio::test]
async fn a_recount_of_everything_gets_past_what_it_cannot_read() {
    let league = League::start().await;
    let room = league.room().await;
    let other = Room { room_id: RoomId::parse("!other:touchline.local").unwrap(), ..room.clone() };
    league.product.store.put_room(&other).await.unwrap();
    league.app.user("fan.one").await;
    for user in [1, 7, 8] {
        league.predict(user, Pick::Home).await;
        league.join(&room, user).await;
    }
    for user in [1, 7] {
        league.award(user, 2).await;
    }
    league.deliver().await;
    let tables = &league.app.config.tables;
    let rows = [
        // A room, a member, and the statistics that a recount copies into a membership.
        (&tables.rooms, keys::room(&other.room_id), "name"),
        (&tables.rooms, keys::member(&room.room_id, 4, UserId(8)), "membership"),
        (&tables.predictions, keys::user_stats(UserId(7)), "version"),
    ];
    for (table, Key { pk, sk }, attribute) in rows {
        league.tamper(table, &pk, &sk, attribute, Some(-1)).await;
    }
    league.tamper(&tables.predictions, "event#1", "tally#2", "home", Some(7)).await;
    let Key { pk, sk } = keys::user_stats(UserId(1));
    league.tamper(&tables.predictions, &pk, &sk, "points", Some(9)).await;
    let report = league.recount(json!({ "everything": {} })).await;
    assert_eq!(report["next"], Value::Null, "{report}");
    let counters = "membership of user 7 in room !stand:touchline.local";
    let busy = json!([{ "counters": counters, "reason": report::UNREADABLE }]);
    assert_eq!(report["busy"], busy, "{report}");
    league.deliver().await;
    assert_eq!(league.counts().await, league.rows().await);
    assert_eq!(league.stats(1).await.points, 2);
}

/// Each query advances the clock by 30 seconds. A recount has 180: five minutes until its deadline, minus the `RESERVE`.
#[tokio::test]
async fn a_recount_of_everything_stops_before_its_deadline_and_the_next_one_resumes() {
    let league = League::start().await;
    let room = league.room().await;
    for user in 1..=40 {
        league.app.user(&format!("fan.{user}")).await;
    }
    league.deliver().await;
    for user in 1..=40 {
        league.predict(user, Pick::Home).await;
    }
    league.award(33, 4).await;
    league.join(&room, 5).await;
    league.lose().await;
    let (mut runs, mut checked, mut repaired, mut next) = (0, 0, Vec::new(), Value::Null);
    loop {
        let clock = Arc::clone(&league.app.clock);
        let mut queries = 0;
        league.app.faults.set(move |attempt| {
            queries += u32::from(attempt.operation == "Query");
            if attempt.operation == "Query" && queries % 5 == 0 {
                clock.advance(TimeDelta::seconds(30));
            }
            Fault::None
        });
        let report = league.recount(json!({ "everything": { "next": next } })).await;
        league.app.faults.clear();
        runs += 1;
        checked += report["checked"].as_u64().unwrap();
        repaired.extend(report["repaired"].as_array().unwrap().clone());
        next = report["next"].clone();
        if next.is_null() {
            break;
        }
        assert!(runs < 100, "{report}");
    }
    assert!(runs > 1);
    assert!(checked >= 40, "{checked}");
    league.deliver().await;
    assert_eq!(league.counts().await, league.rows().await);
    assert_eq!(league.counts().await.counts.predictions, 40);
    assert_eq!(league.stats(33).await.points, 4);
    assert_eq!(league.product.store.room_counts(&room.room_id).await.unwrap().totals.members, 1);
    let names: Vec<&str> = repaired.iter().filter_map(|repair| repair["counters"].as_str()).collect();
    assert!(names.contains(&"user 33") && names.contains(&"match 1, shard 0"), "{names:?}");
}

#[tokio::test]
async fn the_markers_of_a_recount_are_no_predictions() {
    let league = League::start().await;
    let user = neighbours().next().unwrap();
    league.predict(user, Pick::Home).await;
    league.lose().await;
    league.recount(this_match()).await;
    let table = &league.app.config.tables.predictions;
    league.tamper(table, "event#1#2", &format!("user#{user}"), "", None).await;
    let dump = league.app.dump().await;
    assert!(dump.contains("!marker") && dump.contains("~marker"), "{dump}");
    assert!(!league.product.store.has_predictions(MATCH, SHARDS).await.unwrap());
    let (rows, is_last) = league.product.store.shard_page(MATCH, 2, None, 1).await.unwrap();
    assert_eq!((rows.len(), is_last), (0, true));
}

#[tokio::test]
async fn invalid_payloads_fail_with_the_reason() {
    let league = League::start().await;
    for (payload, reason) in [
        (json!({}), "payload"),
        (json!({ "recount": {} }), "payload"),
        (json!({ "recount": { "match": "x" } }), "payload"),
        (json!({ "recount": { "everything": { "next": 7 } } }), "payload"),
        (json!({ "recount": { "match": 99 } }), "no match 99"),
        (json!({ "recount": { "room": "x" } }), "no room x"),
        (json!({ "recount": { "room": "!x:y" } }), "no room !x:y"),
    ] {
        let error = league.app.try_invoke(handle, payload.clone()).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{payload}: {error}");
    }
}
