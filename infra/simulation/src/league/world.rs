use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::{BoxFuture, join_all};
use serde_json::json;
use tokio::time::Instant;
use touchline::App;
use touchline::config::Config;
use touchline::domain::UserId;
use touchline::domain::catalog::{Key, Match, Score, Status};
use touchline::domain::prediction::{Confidence, Forecast, Pick, Stamp};
use touchline::domain::room::{League, Room, RoomId};
use touchline::domain::standings::Period;
use touchline::flows::room_table::{Counted, RoomTable};
use touchline::storage::catalog::Replacement;
use touchline::storage::members::MembershipRequest;
use touchline::storage::predictions::NewPrediction;
use touchline::storage::settlements::Due;
use touchline::storage::standings::BuiltBoard;
use touchline::storage::{Reads, Store, StoreError, keys};
use touchline_stack::resources::StreamMapping;
use touchline_testing::SeededRandom;

use super::oracle::{Line, Selection, State, States};
use super::product::{self, Product};
use super::report::Played;
use super::sabotage::Sabotage;
use crate::clock::VirtualClock;
use crate::dice::Dice;
use crate::dynamodb::{DynamoDb, LONGEST_DELAY};
use crate::failure::Failure;
use crate::fault::Faults;
use crate::lambda::Lambda;
use crate::process::Process;
use crate::runtime;
use crate::settings;
use crate::small_app::small_app;
use crate::streams::Streams;
use crate::trace::Trace;
use crate::world::has_due;

/// The ends of days, months, years and seasons around which the matches of a world kick off.
const MIDNIGHTS: [&str; 6] = [
    "2026-11-15T00:00:00Z",
    "2026-12-01T00:00:00Z",
    "2027-01-01T00:00:00Z",
    "2027-07-01T00:00:00Z",
    "2028-02-29T00:00:00Z",
    "2028-03-01T00:00:00Z",
];

/// How long before the midnight of its matches a world begins. The users predict in the first minutes.
const BEFORE: TimeDelta = TimeDelta::hours(6);

/// How long a round may take until nothing is left to do, in virtual time.
const IDLE_WITHIN: Duration = Duration::from_hours(6);

/// After this many runs of `points` and `standings` in a round, the calls have no faults until the next round. With
/// faults, a round could go on for very long.
const RUNS_WITH_FAULTS: u32 = 8;

/// The number of attempts of a client. The last one has no faults, so it succeeds.
const ATTEMPTS: u32 = 6;

/// The functions that can have more faults than the others. A build makes many calls, so with more faults it would
/// never end.
const UNLUCKY: [&str; 2] = ["points", "tally"];

pub struct World {
    pub dice: Dice,
    pub clock: VirtualClock,
    pub config: Arc<Config>,
    pub dynamodb: DynamoDb,
    pub streams: Arc<Streams>,
    mappings: Vec<StreamMapping>,
    faults: Arc<Faults>,
    pub trace: Arc<Trace>,
    lambda: Arc<Lambda>,
    /// The app of the users and operators. Outside of a process, its calls have no faults.
    app: App,
    pub store: Store,
    pub users: Vec<UserId>,
    pub room: Option<Room>,
    truth: Mutex<Truth>,
}

/// What has really happened so far.
#[derive(Debug, Default)]
pub struct Truth {
    /// The stored row of each match.
    pub matches: BTreeMap<u32, Match>,
    pub states: States,
    /// Who has predicted which match: match and user.
    pub predictions: BTreeSet<(u32, u32)>,
    /// The users who are suspended or have deleted the account.
    pub unranked: BTreeSet<u32>,
    pub erased: BTreeSet<u32>,
    pub members: BTreeSet<u32>,
    /// How many results were settled until the last check.
    pub settled: u64,
    /// The final rows of each closed board.
    pub closed: BTreeMap<Selection, Vec<Line>>,
}

/// Plays the world of a seed, and checks its boards after every round.
pub fn play(
    product: &Product,
    seed: u64,
    sabotage: Sabotage,
    keeps_trace: bool,
) -> Result<Played, Box<Failure>> {
    // The SDK takes random retry delays from `fastrand`. The seed makes them reproducible.
    fastrand::seed(seed);
    // Each world has a new runtime, because the order of simultaneous timers depends on the age of the runtime.
    runtime::new().block_on(async {
        let world = Arc::new(World::new(product, seed, sabotage, keeps_trace));
        let result = world.run().await;
        product.clear(&world.dynamodb, &world.config.tables);
        match result {
            Ok(played) => Ok(played),
            Err(what) => Err(Box::new(Failure { seed, what, trace: world.trace.take_lines() })),
        }
    })
}

impl World {
    fn new(product: &Product, seed: u64, sabotage: Sabotage, keeps_trace: bool) -> Self {
        let part = |part: &str| Dice::new(seed, part);
        let dice = part("league");
        let midnight: DateTime<Utc> = dice.choose(&MIDNIGHTS).parse().expect("the time is valid");
        let clock = VirtualClock::starting_at(midnight - BEFORE);
        let trace = Arc::new(Trace::new(keeps_trace));
        // One world in ten has no faults in the store.
        let per_mille = if dice.once_in(10) { 0 } else { dice.between(1, 40) };
        let faults = Faults::uneven_among(&UNLUCKY, part("faults"), per_mille);
        // The parts of a board have no condition. One that is a minute late can replace a part of a later build in
        // the same slot. See the known limits in docs/architecture.md.
        let faults = Arc::new(faults.with_on_time("BatchWriteItem"));
        let config = settings::config();
        let mappings = product::mappings(&config.tables);
        let streamed = [config.tables.predictions.clone(), config.tables.rooms.clone()];
        let streams = Arc::new(Streams::new(&streamed, clock, part("streams")));
        let dynamodb = DynamoDb::on(
            product.engine.clone(),
            Arc::clone(&streams),
            Arc::clone(&faults),
            part("network"),
            Arc::clone(&trace),
        );
        if sabotage != Sabotage::None {
            dynamodb.rewrite_requests(Box::new(move |operation, _, body| sabotage.apply(operation, body)));
        }
        let mut users = BTreeSet::new();
        let count = 2 + dice.below(5) as usize;
        while users.len() < count {
            users.insert(UserId(1 + dice.below(100_000)));
            users.retain(|user| product::is_read(*user));
        }
        let users: Vec<UserId> = users.into_iter().collect();
        let app = small_app(Arc::clone(&config), &dynamodb, clock, SeededRandom::new(part("app").number()));
        let lambda = product::deploy(seed, &app, clock, &faults, &trace, dice.once_in(3));
        let store = app.store.clone();
        let app = App { store: app.store.caching_recent_items(move || clock.time()), ..app };
        Self {
            dice,
            clock,
            config,
            dynamodb,
            streams,
            mappings,
            faults,
            trace,
            lambda: Arc::new(lambda),
            app,
            store,
            users,
            room: None,
            truth: Mutex::default(),
        }
        .with_matches(midnight)
    }

    /// Draws the matches and the room.
    fn with_matches(mut self, midnight: DateTime<Utc>) -> Self {
        let dice = &self.dice;
        let mut truth = Truth::default();
        for id in 1..=*dice.choose(&[1, 1, 2, 2, 3, 4]) {
            let row = Match {
                id,
                tournament_id: dice.between(1, 2),
                home_team_id: 1,
                away_team_id: 2,
                start: midnight + TimeDelta::minutes(i64::from(dice.below(180)) - 90),
                status: Status::Scheduled,
                venue: None,
                score: None,
                room: "!match:touchline.example".into(),
                room_name_hash: 0,
                shards: *dice.choose(&[1, 2, 4]),
                pause: None,
                revision: 0,
                key: Key(u64::from(id)),
                as_of: self.clock.time(),
            };
            truth.matches.insert(id, row);
        }
        if dice.once_in(2) {
            let league = *dice.choose(&[League::All, League::Tournament, League::Match]);
            let now = self.clock.time();
            self.room = Some(Room {
                room_id: RoomId::parse("!league:touchline.example").expect("the room id is valid"),
                name: "League".into(),
                topic: String::new(),
                event_id: (league != League::All).then_some(1),
                league: Some(league),
                creator_id: Some(self.users[0]),
                is_private: true,
                shards: *dice.choose(&[1, 2]),
                created_at: now,
                last_activity: now,
                removed_at: None,
            });
        }
        self.truth = Mutex::new(truth);
        self
    }

    pub fn truth(&self) -> MutexGuard<'_, Truth> {
        self.truth.lock().expect("no holder of the lock panics")
    }

    async fn run(self: &Arc<Self>) -> Result<Played, String> {
        for (number, mapping) in self.mappings.iter().enumerate() {
            tokio::spawn(Arc::clone(&self.streams).deliver(
                number,
                mapping.clone(),
                "tally".into(),
                Arc::clone(&self.lambda),
                Arc::clone(&self.faults),
                Arc::clone(&self.trace),
            ));
        }
        self.prepare().await;
        // All matches that kick off around midnight are over.
        tokio::time::sleep(Duration::from_hours(8)).await;
        let mut played = Played { worlds: 1, ..Played::default() };
        let rounds = *self.dice.choose(&[1, 1, 2, 2, 3]);
        for round in 0..rounds {
            self.play_round(round).await;
            self.run_until_idle().await?;
            played += self.check().await?;
            self.pass_time().await;
        }
        let faults = self.faults.counts();
        let crashes = faults.iter().filter(|(name, _)| name.starts_with("Crash"));
        played.calls = self.faults.calls();
        played.faults = faults.values().sum();
        played.crashes = crashes.map(|(_, count)| count).sum();
        played.hash = self.trace.hash();
        Ok(played)
    }

    /// Stores the matches, the users, the room and the predictions.
    async fn prepare(&self) {
        let matches: Vec<Match> = self.truth().matches.values().cloned().collect();
        let rows: Vec<_> = matches.iter().map(|row| Replacement { row: row.clone(), read: None }).collect();
        self.store.put_rows(&rows).await.expect("the store has no faults");
        for user in &self.users {
            let keys::Key { pk, sk } = keys::profile(*user);
            let item = json!({
                "pk": { "S": pk }, "sk": { "S": sk },
                "phone": { "S": "+447700900123" }, "username": { "S": format!("user{user}") },
            });
            let table = &self.config.tables.users;
            self.dynamodb.execute("PutItem", &json!({ "TableName": table, "Item": item }));
        }
        if let Some(room) = &self.room {
            self.store.put_room(room).await.expect("the store has no faults");
        }
        let mut work: Vec<BoxFuture<'_, ()>> = Vec::new();
        for event in &matches {
            for user in &self.users {
                if !self.dice.once_in(5) {
                    self.truth().predictions.insert((event.id, user.0));
                    work.push(Box::pin(self.predict(event, *user)));
                }
            }
        }
        for user in &self.users {
            if self.room.is_some() && !self.dice.once_in(3) {
                work.push(Box::pin(self.set_member(*user, true)));
            }
        }
        join_all(work).await;
    }

    /// Stores a prediction of a user. Few different scores make many ties.
    async fn predict(&self, event: &Match, user: UserId) {
        let score = random_score(&self.dice);
        let stated = (!self.dice.once_in(4)).then_some(score);
        let nonce = self.dice.below(u32::MAX);
        self.persist("predictions", || async {
            let new = NewPrediction {
                event_id: event.id,
                shards: event.shards,
                user_id: user,
                forecast: Forecast::new(Pick::of(score), stated).expect("the pick agrees with the score"),
                confidence: Confidence::default(),
                stamp: Stamp::new(self.clock.time(), nonce),
            };
            self.app.store.predict(&new).await.map(|_| ())
        })
        .await;
    }

    /// Sends a request until it succeeds. Each attempt has a process of its own. The last one has no faults.
    async fn persist<F>(&self, function: &str, mut request: impl FnMut() -> F)
    where
        F: Future<Output = Result<(), StoreError>>,
    {
        tokio::time::sleep(self.dice.millis(0, 5_000)).await;
        for _ in 1..ATTEMPTS {
            let done = Process::new(function.to_owned()).run(request()).await;
            self.trace.line(format_args!("{function} -> {done:?}"));
            if matches!(done, Some(Ok(()))) {
                return;
            }
            tokio::time::sleep(self.dice.millis(100, 5_000)).await;
        }
        request().await.expect("the store has no faults");
    }

    /// Lets a user join or leave the room.
    async fn set_member(&self, user: UserId, joins: bool) {
        let Some(room) = &self.room else { return };
        if joins {
            self.truth().members.insert(user.0);
        } else {
            self.truth().members.remove(&user.0);
        }
        self.persist("chat", || async {
            let store = &self.app.store;
            let before = store.member(room, user, Reads::Consistent).await?;
            let nonce = self.dice.below(u32::MAX);
            let request = MembershipRequest::new(room, user, before.as_ref(), self.clock.time(), nonce);
            if joins { store.join(&request).await.map(|_| ()) } else { store.leave(&request).await }
        })
        .await;
    }

    /// Suspends a user, restores one, or erases one.
    async fn moderate(&self, user: UserId) {
        let (erases, restores) = {
            let mut truth = self.truth();
            let restores = truth.unranked.contains(&user.0);
            if truth.erased.contains(&user.0) {
                return;
            }
            let erases = !restores && self.dice.once_in(3);
            if restores {
                truth.unranked.remove(&user.0);
            } else {
                truth.unranked.insert(user.0);
            }
            if erases {
                truth.erased.insert(user.0);
            }
            (erases, restores)
        };
        let keys::Key { pk, sk } = keys::profile(user);
        let key = json!({ "pk": { "S": pk }, "sk": { "S": sk } });
        let mut request = json!({ "TableName": self.config.tables.users, "Key": key });
        if erases {
            self.dynamodb.execute("DeleteItem", &request);
        } else if restores {
            request["UpdateExpression"] = json!("REMOVE suspended_at");
            self.dynamodb.execute("UpdateItem", &request);
        } else {
            request["UpdateExpression"] = json!("SET suspended_at = :now");
            request["ExpressionAttributeValues"] =
                json!({ ":now": { "N": self.clock.time().timestamp_millis().to_string() } });
            self.dynamodb.execute("UpdateItem", &request);
        }
        self.trace.line(format_args!("user {user}: erased {erases}, restored {restores}"));
        self.persist("moderation", || self.app.store.sync_ranked(user)).await;
    }

    /// Lets results arrive, users join and leave, and operators act, all at the same time. `points` and `standings` run
    /// meanwhile.
    async fn play_round(&self, round: u32) {
        self.faults.resume();
        let dice = &self.dice;
        let mut work: Vec<BoxFuture<'_, ()>> = Vec::new();
        let ids: Vec<u32> = self.truth().matches.keys().copied().collect();
        let always = *dice.choose(&ids);
        for id in ids {
            let has_result = self.truth().matches[&id].revision > 0;
            let changes = id == always || if has_result { dice.once_in(3) } else { !dice.once_in(3) };
            if changes {
                work.push(Box::pin(self.change_result(id)));
            }
        }
        if round > 0 && self.room.is_some() && dice.once_in(2) {
            let user = *dice.choose(&self.users);
            let joins = !self.truth().members.contains(&user.0);
            work.push(Box::pin(self.set_member(user, joins)));
        }
        // A board is built for some hours after it has closed. A suspension in these hours may or may not change it,
        // so nobody is suspended then.
        if !self.is_a_board_closing() && dice.once_in(3) {
            work.push(Box::pin(self.moderate(*dice.choose(&self.users))));
        }
        for _ in 0..=dice.below(2) {
            work.push(Box::pin(self.invoke_later("points", 8_000)));
        }
        for _ in 0..dice.below(3) {
            work.push(Box::pin(self.invoke_later("standings", 30_000)));
        }
        if self.room.is_some() && dice.once_in(2) {
            work.push(Box::pin(async {
                tokio::time::sleep(self.dice.millis(0, 30_000)).await;
                let read = Process::new("leaderboards".to_owned()).run(self.read_table(Period::All)).await;
                self.trace.line(format_args!("table -> {:?}", read.map(|read| read.is_ok())));
            }));
        }
        join_all(work).await;
    }

    async fn invoke_later(&self, function: &str, within_millis: u32) {
        tokio::time::sleep(self.dice.millis(0, within_millis)).await;
        self.invoke(function).await;
    }

    async fn invoke(&self, function: &str) {
        let result = self.lambda.invoke(function, json!({})).await;
        self.trace.line(format_args!("{function} -> {result:?}"));
    }

    /// Stores the first result of a match or a correction, sometimes two in quick succession.
    async fn change_result(&self, id: u32) {
        let dice = &self.dice;
        tokio::time::sleep(dice.millis(0, 3_000)).await;
        for _ in 0..if dice.once_in(4) { 2 } else { 1 } {
            let (read, row) = {
                let mut truth = self.truth();
                let read = truth.matches[&id].clone();
                let mut row = read.clone();
                self.correct(&mut row);
                let score = row.score.filter(|_| row.status == Status::Finished);
                let state = State {
                    tournament: row.tournament_id,
                    start: row.start,
                    result: score.map(|score| (score.home, score.away)),
                };
                truth.states.insert((id, row.revision), state);
                truth.matches.insert(id, row.clone());
                (read, row)
            };
            self.trace.line(format_args!("match {row:?}"));
            let due = Due {
                event_id: id,
                revision: row.revision,
                // The catalog with the result was published before, so `points` does not wait.
                since: self.clock.time() - TimeDelta::hours(1),
                is_published: true,
            };
            let put = self.store.put_rows(&[Replacement { row, read: Some(read) }]).await;
            put.expect("the store has no faults");
            self.store.put_due(&due).await.expect("the store has no faults");
            tokio::time::sleep(dice.millis(0, 300)).await;
        }
    }

    fn correct(&self, row: &mut Match) {
        let dice = &self.dice;
        (row.status, row.score) = (Status::Finished, Some(random_score(dice)));
        if row.revision > 0 || dice.once_in(8) {
            match dice.below(10) {
                0 | 1 => row.status = Status::Abandoned,
                // The match belongs to another day, and perhaps to another month and season.
                2 | 3 => row.start += TimeDelta::hours(i64::from(dice.below(60)) - 20),
                // The table of the room depends on the tournament of match 1. After a change, closed periods keep the
                // table of the old tournament. The oracle knows only the new one.
                4 if row.id != 1 || self.league() != Some(League::Tournament) => {
                    row.tournament_id = 3 - row.tournament_id;
                }
                // It began before the users predicted it, so no prediction counts.
                5 if dice.once_in(2) => row.start -= TimeDelta::days(2),
                _ => {}
            }
        }
        row.revision += 1;
        row.as_of = self.clock.time();
    }

    pub fn league(&self) -> Option<League> {
        self.room.as_ref().map(Room::league)
    }

    /// Reads the table of the room, as a member does.
    pub async fn read_table(&self, period: Period) -> Result<Option<BuiltBoard>, StoreError> {
        let Some(room) = &self.room else { return Ok(None) };
        let event = room.event_id.map(|id| self.truth().matches[&id].clone());
        let counted = Counted::of(room, event.as_ref());
        RoomTable::read(&self.app, room.clone(), counted, period).await?.refreshed(&self.app).await
    }

    /// Runs the functions until nothing is left to do.
    async fn run_until_idle(&self) -> Result<(), String> {
        let began = Instant::now();
        let mut was_quiet = false;
        let mut runs = 0;
        loop {
            if began.elapsed() > IDLE_WITHIN {
                return Err("the round does not end".into());
            }
            if runs == RUNS_WITH_FAULTS {
                self.faults.stop();
            }
            let store = &self.store;
            if has_due(&self.dynamodb, &self.config.tables.predictions) {
                self.invoke("points").await;
                runs += 1;
            } else if !self.streams.are_drained(&self.mappings) {
                tokio::time::sleep(self.dice.millis(500, 5_000)).await;
            } else if !store.queued_boards().await.map_err(|error| error.to_string())?.is_empty()
                || !store
                    .boards_to_close(self.clock.time())
                    .await
                    .map_err(|error| error.to_string())?
                    .is_empty()
            {
                self.invoke("standings").await;
                runs += 1;
                tokio::time::sleep(self.dice.millis(0, 60_000)).await;
            } else if was_quiet {
                return Ok(());
            } else {
                // Wait for the calls that the network delayed, then look again.
                tokio::time::sleep(LONGEST_DELAY).await;
                was_quiet = true;
                continue;
            }
            was_quiet = false;
        }
    }

    /// Returns whether a board closes within 7 hours, or has closed within the last 13.
    fn is_a_board_closing(&self) -> bool {
        let now = self.clock.time();
        let closes = self.selections().into_iter().filter_map(|selection| selection.period.closes());
        closes
            .into_iter()
            .any(|closes| (closes - TimeDelta::hours(7)..closes + TimeDelta::hours(13)).contains(&now))
    }

    /// Lets some time pass: minutes, days, or until a board is about to close.
    async fn pass_time(&self) {
        let dice = &self.dice;
        let now = self.clock.time();
        let closing: Vec<_> = self
            .selections()
            .into_iter()
            .filter_map(|one| one.period.closes())
            .filter(|at| *at > now)
            .collect();
        match dice.below(4) {
            0 if !closing.is_empty() => {
                let left = *dice.choose(&closing) - now;
                let left = left.to_std().unwrap_or_default();
                tokio::time::sleep(left.saturating_sub(dice.millis(0, 90_000))).await;
            }
            1 => tokio::time::sleep(Duration::from_hours(u64::from(dice.between(20, 200)))).await,
            2 => tokio::time::sleep(Duration::from_hours(24 * u64::from(dice.between(20, 60)))).await,
            _ => tokio::time::sleep(Duration::from_mins(u64::from(dice.between(1, 600)))).await,
        }
        self.close_boards();
    }
}

/// Returns a score with few goals, so that many predictions are exact and many users have the same points.
fn random_score(dice: &Dice) -> Score {
    let goals = || u16::try_from(dice.below(3)).unwrap_or(0);
    Score { home: goals(), away: goals() }
}
