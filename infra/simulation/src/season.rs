//! The matches of a world: what really happens, and the feed that reports it late, twice, or out of date.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline::domain::catalog::{Match, Score};
use touchline::storage::{Store, catalog};

use crate::clock::VirtualClock;
use crate::dice::Dice;
use crate::fault::{Faults, Moment};
use crate::gateway::Gateway;
use crate::lambda::{Failed, Lambda};
use crate::signal::Signal;
use crate::trace::Trace;

/// A match as it really is.
#[derive(Debug, Clone)]
pub struct TrueMatch {
    pub id: u32,
    pub home: u32,
    pub away: u32,
    pub start: DateTime<Utc>,
    pub status: &'static str,
    pub score: Option<Score>,
    /// Whether the match has begun, even if it was interrupted later. Then its predictions stay closed.
    pub has_begun: bool,
    /// When the match last changed.
    pub changed: DateTime<Utc>,
}

impl TrueMatch {
    /// Returns the score that decides about points: only a finished match has one.
    #[must_use]
    pub fn result(&self) -> Option<Score> {
        self.score.filter(|_| self.status == "finished")
    }
}

/// The season of a world.
#[derive(Debug)]
pub struct Season {
    matches: Mutex<Vec<TrueMatch>>,
    /// The documents that the feed has sent, oldest first.
    sent: Mutex<Vec<Value>>,
    /// The imports that succeeded: the time of the document, and the time at which the import ended.
    imports: Mutex<Vec<(DateTime<Utc>, DateTime<Utc>)>>,
    /// Descriptions of what must never happen, but did.
    pub violations: Mutex<Vec<String>>,
    /// The match that all people predict next, because its result is about to arrive.
    closing: Mutex<Option<u32>>,
    /// Wakes all people when `closing` changes.
    pub last_call: Signal,
    /// Changes when `points` begins a run.
    pub points_run: Signal,
    dice: Dice,
    clock: VirtualClock,
    lambda: Arc<Lambda>,
    faults: Arc<Faults>,
    trace: Arc<Trace>,
    /// A store without faults.
    store: Store,
}

/// If a world has several matches, the last one begins this much later, after the end of the world. So people predict a
/// match that never gets a result.
const NEXT_SEASON: TimeDelta = TimeDelta::days(30);

/// How long a correction waits for a run of `points`.
const LONGEST_WAIT: Duration = Duration::from_mins(3);

/// The number of teams.
pub const TEAMS: u32 = 6;

impl Season {
    #[must_use]
    pub fn new(count: u32, dice: Dice, gateway: &Gateway, store: Store) -> Self {
        let Gateway { clock, lambda, faults, trace, .. } = gateway.clone();
        let begin = clock.time();
        // Some seasons last so long that sessions, positions in streams and expired items become old.
        let hours = if dice.once_in(4) { 72 } else { 24 };
        let list = (1..=count).map(|id| {
            let home = 1 + dice.below(TEAMS);
            TrueMatch {
                id,
                home,
                away: 1 + (home + dice.below(TEAMS - 1)) % TEAMS,
                start: begin
                    + if id > 1 && id == count {
                        NEXT_SEASON
                    } else {
                        TimeDelta::minutes(i64::from(dice.between(30, hours * 60)))
                    },
                status: "scheduled",
                score: None,
                has_begun: false,
                changed: begin - TimeDelta::milliseconds(1),
            }
        });
        let matches = Mutex::new(list.collect());
        Self {
            matches,
            sent: Mutex::default(),
            imports: Mutex::default(),
            violations: Mutex::default(),
            closing: Mutex::default(),
            last_call: Signal::default(),
            points_run: Signal::default(),
            dice,
            clock,
            lambda,
            faults,
            trace,
            store,
        }
    }

    /// Returns the matches as they are now.
    #[must_use]
    pub fn matches(&self) -> Vec<TrueMatch> {
        self.matches.lock().expect("no holder of the lock panics").clone()
    }

    /// Returns a match as it is now.
    ///
    /// # Panics
    ///
    /// If there is no such match.
    #[must_use]
    pub fn one(&self, id: u32) -> TrueMatch {
        self.matches().into_iter().find(|one| one.id == id).expect("the match exists")
    }

    /// Returns the match that all people predict next.
    pub fn closing(&self) -> Option<u32> {
        *self.closing.lock().expect("no holder of the lock panics")
    }

    /// Makes all people predict a match within the next seconds.
    fn call_for_predictions(&self, index: usize) {
        *self.closing.lock().expect("no holder of the lock panics") = Some(self.matches()[index].id);
        self.last_call.change();
    }

    /// Returns when the first import with the current state of a match ended. `None` if there is none yet.
    #[must_use]
    pub fn known_since(&self, one: &TrueMatch) -> Option<DateTime<Utc>> {
        let imports = self.imports.lock().expect("no holder of the lock panics");
        imports.iter().find(|(as_of, _)| *as_of > one.changed).map(|(_, ended)| *ended)
    }

    /// Returns the document that describes the season now.
    fn document(&self) -> Value {
        let teams: Vec<Value> = (1..=TEAMS)
            .map(|id| json!({ "id": id, "name": format!("Team {}", char::from(b'@' + u8::try_from(id).unwrap_or(0))), "sport_id": 1 }))
            .collect();
        let events: Vec<Value> = self
            .matches()
            .iter()
            .map(|one| {
                json!({
                    "id": one.id, "tournament_id": 1, "home_team_id": one.home, "away_team_id": one.away,
                    "start_time": one.start.to_rfc3339(), "status": one.status,
                    "home_score": one.score.map(|score| score.home), "away_score": one.score.map(|score| score.away),
                })
            })
            .collect();
        json!({
            "format": "touchline",
            "as_of": self.clock.time().to_rfc3339(),
            "sports": [{ "id": 1, "name": "Football" }],
            "tournaments": [{ "id": 1, "name": "Harbour League" }],
            "teams": teams,
            "events": events,
        })
    }

    /// Imports the season as it is now. Retries until an import succeeds completely.
    pub async fn import(&self) {
        self.check_stored().await;
        loop {
            let as_of = self.clock.time();
            let document = self.document();
            self.sent.lock().expect("no holder of the lock panics").push(document.clone());
            let imported = self.send(document).await;
            self.trace.line(format_args!("feed -> {imported:?}"));
            match imported {
                Ok(report) if report["rejected"] == 0 => {
                    let import = (as_of, self.clock.time());
                    self.imports.lock().expect("no holder of the lock panics").push(import);
                    self.check_published(as_of).await;
                    return self.check_stored().await;
                }
                Ok(_) | Err(Failed::Error(_) | Failed::Crashed | Failed::TimedOut | Failed::Throttled) => {
                    tokio::time::sleep(self.dice.millis(1_000, 60_000)).await;
                }
            }
        }
    }

    /// Checks that no stored match is older than the document of an import that has succeeded.
    async fn check_stored(&self) {
        let latest = {
            let imports = self.imports.lock().expect("no holder of the lock panics");
            imports.iter().map(|(as_of, _)| as_of.timestamp_millis()).max()
        };
        let Some(latest) = latest else { return };
        let rows = self.stored_matches().await;
        for one in self.matches() {
            let row = rows.get(&one.id);
            if row.is_none_or(|row| row.as_of.timestamp_millis() < latest) {
                self.violation(format!(
                    "an import of {latest} has succeeded, but match {} is {row:?}",
                    one.id
                ));
            }
        }
    }

    /// Checks that people see the matches of a document after its import has succeeded.
    async fn check_published(&self, as_of: DateTime<Utc>) {
        // Load the catalog before the rows: a concurrent import stores a row first and publishes it later.
        let catalog = catalog::Cache::default().get_latest(&self.store, self.clock.time()).await;
        let catalog = catalog.expect("the store has no faults").expect("an import has succeeded").catalog;
        for (id, row) in self.stored_matches().await {
            let shown = catalog.event(id);
            let is_same = shown.is_some_and(|shown| {
                (shown.status, shown.start, shown.score) == (row.status, row.start, row.score)
            });
            if row.as_of.timestamp_millis() == as_of.timestamp_millis() && !is_same {
                self.violation(format!("{row:?} is imported, but the catalog has {shown:?}"));
            }
        }
    }

    async fn stored_matches(&self) -> BTreeMap<u32, Match> {
        let ids: Vec<u32> = self.matches().iter().map(|one| one.id).collect();
        self.store.catalog_rows(&ids).await.expect("the store has no faults")
    }

    fn violation(&self, what: String) {
        self.trace.line(format_args!("VIOLATION {what}"));
        self.violations.lock().expect("no holder of the lock panics").push(what);
    }

    /// Imports an old document again, as can happen with a feed that has several servers.
    async fn import_old(&self) {
        let old = {
            let sent = self.sent.lock().expect("no holder of the lock panics");
            self.dice.choose(&sent).clone()
        };
        let imported = self.send(old).await;
        self.trace.line(format_args!("old feed -> {imported:?}"));
    }

    /// Invokes `feed` with a document. One run works at a time, as long as its lease lasts. In half of the cases the lease
    /// of an earlier run ends first, although that run may still work: Lambda can suspend an environment. So imports overlap.
    async fn send(&self, document: Value) -> Result<Value, Failed> {
        if self.dice.once_in(2) {
            self.store.end_feed_lease().await.expect("the store has no faults");
        }
        self.lambda.invoke("feed", document).await
    }

    /// Plays all matches.
    pub async fn play(self: Arc<Self>) {
        let count = self.matches().len();
        let matches = (0..count).map(|index| tokio::spawn(Arc::clone(&self).play_match(index)));
        for played in matches.collect::<Vec<_>>() {
            played.await.expect("no match panics");
        }
    }

    /// Gives a match 64 shards, unless somebody has predicted it. In half of the cases, the first prediction is on its way
    /// to the store in this moment.
    async fn promote(self: Arc<Self>, event: u32, dice: Dice) {
        if dice.once_in(2) {
            let mut seen = self.faults.prediction_held.count();
            self.faults.hold_prediction(event);
            self.faults.prediction_held.changed(&mut seen).await;
            tokio::time::sleep(dice.millis(0, 500)).await;
        } else {
            tokio::time::sleep(dice.millis(0, 60_000)).await;
        }
        for _ in 0..30 {
            let promoted = self.lambda.invoke("feed", json!({ "promote": event })).await;
            self.trace.line(format_args!("promote {event} -> {promoted:?}"));
            match promoted {
                Ok(promotion) if promotion["shards"] == 64 => return,
                Err(Failed::Error(reason)) if reason.contains("cannot be promoted") => return,
                _ => tokio::time::sleep(dice.millis(1_000, 60_000)).await,
            }
        }
    }

    async fn play_match(self: Arc<Self>, index: usize) {
        let dice = Dice::new(self.dice.number(), "match");
        if dice.once_in(3) {
            let dice = Dice::new(dice.number(), "promotion");
            tokio::spawn(Arc::clone(&self).promote(self.matches()[index].id, dice));
        }
        if self.matches()[index].start - self.clock.time() > NEXT_SEASON / 2 {
            return;
        }
        // Some kick-offs are moved, in both directions.
        for _ in 0..dice.below(3) {
            self.sleep_until_before(index, &dice).await;
            let by = TimeDelta::minutes(i64::from(dice.between(0, 240)) - 60);
            let now = self.clock.time();
            self.change(index, |one| one.start = whole((one.start + by).max(now + TimeDelta::minutes(2))))
                .await;
        }
        match dice.below(12) {
            0 => {
                self.sleep_until_before(index, &dice).await;
                self.change(index, |one| one.status = "cancelled").await;
                return;
            }
            1 => {
                self.sleep_until_before(index, &dice).await;
                self.change(index, |one| one.status = "postponed").await;
                tokio::time::sleep(dice.millis(60_000, 7_200_000)).await;
                let start = whole(self.clock.time() + TimeDelta::minutes(i64::from(dice.between(10, 300))));
                self.change(index, |one| (one.status, one.start) = ("scheduled", start)).await;
            }
            2..5 => {
                // The kick-off in the feed was wrong. The result arrives while people still predict the match.
                self.sleep_until_before(index, &dice).await;
                if dice.once_in(2) {
                    self.faults.begin(Moment::EarlyResult, Duration::from_secs(90));
                }
                self.call_for_predictions(index);
                tokio::time::sleep(dice.millis(0, 4_000)).await;
                let score = random_score(&dice);
                let change =
                    self.change_at_once(index, |one| (one.status, one.score) = ("finished", Some(score)));
                // The scheduled run of `points` can begin at any time, for example during the import.
                let run = async {
                    for _ in 0..dice.below(3) {
                        tokio::time::sleep(dice.millis(0, 800)).await;
                        let result = self.lambda.invoke("points", json!({})).await;
                        self.trace.line(format_args!("points -> {result:?}"));
                    }
                };
                futures_util::future::join(change, run).await;
                // A correction would repair what goes wrong here, so only half of these results are corrected.
                if dice.once_in(2) {
                    self.correct(index, &dice).await;
                }
                return;
            }
            _ => {}
        }
        self.sleep_until_start(index).await;
        self.change(index, |one| (one.status, one.score) = ("live", Some(Score { home: 0, away: 0 }))).await;
        for _ in 0..dice.below(5) {
            tokio::time::sleep(dice.millis(60_000, 1_200_000)).await;
            let is_home = dice.once_in(2);
            self.change(index, |one| {
                let score = one.score.get_or_insert(Score { home: 0, away: 0 });
                if is_home { score.home += 1 } else { score.away += 1 }
            })
            .await;
        }
        if dice.once_in(8) {
            // The match is interrupted and goes on another day, with the same score.
            let score = self.matches()[index].score;
            self.change(index, |one| (one.status, one.score) = ("postponed", None)).await;
            tokio::time::sleep(dice.millis(60_000, 7_200_000)).await;
            let start = whole(self.clock.time() + TimeDelta::minutes(i64::from(dice.between(10, 300))));
            self.change(index, |one| (one.status, one.start) = ("scheduled", start)).await;
            self.sleep_until_start(index).await;
            self.change(index, |one| (one.status, one.score) = ("live", score)).await;
        }
        tokio::time::sleep(dice.millis(600_000, 2_400_000)).await;
        self.maybe_disturb_import(&dice);
        match dice.below(10) {
            0 => self.change(index, |one| one.status = "abandoned").await,
            1 => {
                self.change(index, |one| {
                    (one.status, one.score) = ("awarded", Some(Score { home: 3, away: 0 }));
                })
                .await;
            }
            _ => self.change(index, |one| one.status = "finished").await,
        }
        self.correct(index, &dice).await;
    }

    /// Corrects some results, some more than once, some within seconds, some while `points` runs.
    async fn correct(&self, index: usize, dice: &Dice) {
        for _ in 0..dice.below(4) {
            let interrupts = dice.once_in(4);
            match dice.below(3) {
                _ if interrupts => {
                    self.faults.begin(Moment::Correction, LONGEST_WAIT);
                    self.sleep_until(&self.faults.points_frozen).await;
                }
                0 => {
                    self.sleep_until(&self.points_run).await;
                    tokio::time::sleep(dice.millis(0, 400)).await;
                }
                _ => tokio::time::sleep(dice.millis(1_000, 600_000)).await,
            }
            let score = random_score(dice);
            let is_abandoned = dice.once_in(5);
            // Some matches began earlier than the feed said.
            let earlier = if dice.once_in(4) { i64::from(dice.below(120)) } else { 0 };
            if !interrupts {
                self.maybe_disturb_import(dice);
            }
            let correct = |one: &mut TrueMatch| {
                one.start -= TimeDelta::minutes(earlier);
                (one.status, one.score) =
                    if is_abandoned { ("abandoned", one.score) } else { ("finished", Some(score)) };
            };
            if dice.once_in(3) {
                // Another correction follows while the first one is imported.
                let next = random_score(dice);
                futures_util::future::join(self.change_at_once(index, correct), async {
                    tokio::time::sleep(dice.millis(1, 60)).await;
                    self.change_at_once(index, |one| one.score = Some(next)).await;
                })
                .await;
            } else {
                self.change_at_once(index, correct).await;
            }
            // A later correction would repair what the interrupted run does wrong.
            if interrupts && dice.once_in(2) {
                return;
            }
        }
    }

    /// Makes the next import fail more often than others, in half of the cases.
    fn maybe_disturb_import(&self, dice: &Dice) {
        if dice.once_in(2) {
            self.faults.begin(Moment::Result, Duration::from_secs(30));
        }
    }

    /// Changes a match and reports the change some seconds later.
    async fn change(&self, index: usize, change: impl FnOnce(&mut TrueMatch)) {
        self.set(index, change);
        tokio::time::sleep(self.dice.millis(0, 5_000)).await;
        self.report().await;
    }

    /// Changes a match and reports the change immediately.
    async fn change_at_once(&self, index: usize, change: impl FnOnce(&mut TrueMatch)) {
        self.set(index, change);
        self.report().await;
    }

    fn set(&self, index: usize, change: impl FnOnce(&mut TrueMatch)) {
        let mut matches = self.matches.lock().expect("no holder of the lock panics");
        change(&mut matches[index]);
        matches[index].changed = self.clock.time();
        matches[index].has_begun |=
            matches!(matches[index].status, "live" | "finished" | "abandoned" | "awarded");
        self.trace.line(format_args!("match {:?}", matches[index]));
    }

    async fn report(&self) {
        if self.faults.occurs("OldDocument", 100) {
            futures_util::future::join(self.import(), self.import_old()).await;
        } else {
            self.import().await;
        }
    }

    /// Sleeps until some time before the start of a match.
    async fn sleep_until_before(&self, index: usize, dice: &Dice) {
        let left = self.matches()[index].start - self.clock.time();
        let left = u32::try_from(left.num_seconds()).unwrap_or(0);
        if left > 60 {
            tokio::time::sleep(Duration::from_secs(u64::from(dice.below(left - 30)))).await;
        }
    }

    /// Sleeps until a signal changes, at most a few minutes.
    async fn sleep_until(&self, signal: &Signal) {
        let mut seen = signal.count();
        let _ = tokio::time::timeout(LONGEST_WAIT, signal.changed(&mut seen)).await;
    }

    async fn sleep_until_start(&self, index: usize) {
        loop {
            let left = self.matches()[index].start - self.clock.time();
            match left.to_std() {
                Ok(left) if !left.is_zero() => tokio::time::sleep(left).await,
                _ => return,
            }
        }
    }
}

fn random_score(dice: &Dice) -> Score {
    let goals = || u16::try_from(dice.below(3)).unwrap_or(0);
    Score { home: goals(), away: goals() }
}

/// Returns a time without fractions of seconds. Feeds have none.
fn whole(at: DateTime<Utc>) -> DateTime<Utc> {
    at.trunc_subsecs(0)
}
