//! Plays a match: reports its goals to `feed` as a results service would, then invokes `points` and
//! `standings`. The open console pages follow the match.

mod script;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use chrono::{DateTime, SecondsFormat, SubsecRound as _, TimeDelta, Utc};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use touchline::domain::catalog::{Match, Score, Status};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::storage::{Store, catalog};

use crate::calls;
use crate::draw::draw;
use crate::host::Host;
use crate::traffic::Traffic;
use script::{Course, FULL_TIME, Phase, Side, Step};

const LOCK: &str = "no holder of the lock panics";

/// The default length of a match, and the maximum.
const SECONDS: u64 = 60;
const MAX_SECONDS: u64 = 600;

/// A match that is live already continues at this minute at the latest, so that something is left to see.
const LAST_START: i64 = 60;

/// How often `points` is invoked until all predictions of a match are settled.
const MAX_SETTLEMENTS: u32 = 20;

/// The pause between two reads of the queue of leaderboards.
const QUEUE_PAUSE: Duration = Duration::from_millis(50);

/// A request that cannot be carried out: the status, and a message for people.
pub(crate) type Rejection = (StatusCode, String);

/// Plays matches in the background.
#[derive(Debug)]
pub(crate) struct Player {
    host: Arc<Host>,
    store: Store,
    traffic: Traffic,
    stopped: watch::Receiver<bool>,
    /// The matches that are being played.
    playing: Mutex<BTreeSet<u32>>,
    tasks: Mutex<JoinSet<()>>,
}

/// What `feed` needs to know of a match in each report.
#[derive(Debug, Clone, Copy)]
struct Fixture {
    event: u32,
    tournament: u32,
    home: u32,
    away: u32,
    start: DateTime<Utc>,
}

impl Player {
    pub(crate) fn new(
        host: Arc<Host>,
        store: Store,
        traffic: Traffic,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        Self { host, store, traffic, stopped, playing: Mutex::default(), tasks: Mutex::default() }
    }

    /// Starts a match. Returns how many seconds it takes.
    pub(crate) async fn play(self: &Arc<Self>, event: u32, body: &[u8]) -> Result<u64, Rejection> {
        let order = Order::read(body).map_err(unprocessable)?;
        let loaded = catalog::load_latest(&self.store, None).await;
        let loaded = loaded.map_err(|error| (StatusCode::SERVICE_UNAVAILABLE, error.to_string()))?;
        let catalog = loaded.map(|loaded| loaded.catalog).unwrap_or_default();
        let Some(row) = catalog.event(event) else {
            return Err((StatusCode::NOT_FOUND, format!("There is no match {event}.")));
        };
        if !is_live(row) && !matches!(row.status, Status::Scheduled | Status::Postponed) {
            let message = "The match is over. Choose a match that is scheduled or live.";
            return Err((StatusCode::CONFLICT, message.into()));
        }
        let already =
            || (StatusCode::CONFLICT, "This match is already being played. Wait until it is over.".into());
        if self.playing.lock().expect(LOCK).contains(&event) {
            return Err(already());
        }
        let course = course(row, &order).map_err(unprocessable)?;
        // Start times have whole seconds. If the match started in the current second, a prediction from the same second
        // would count as late. So the match starts one to two seconds from now.
        let now = (SystemClock.now() + TimeDelta::seconds(2)).trunc_subsecs(0);
        let fixture = Fixture {
            event,
            tournament: row.tournament_id,
            home: row.home_team_id,
            away: row.away_team_id,
            start: row.start.min(now),
        };
        if !self.playing.lock().expect(LOCK).insert(event) {
            return Err(already());
        }
        let (player, mut stopped) = (Arc::clone(self), self.stopped.clone());
        let mut tasks = self.tasks.lock().expect(LOCK);
        // Forget the matches that have ended.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let outcome = player.run(fixture, &course, &mut stopped).await;
            let last = match outcome {
                Ok(Some(settled)) => settled,
                Ok(None) => return,
                Err(message) => json!({ "event_id": event, "phase": "failed", "message": message }),
            };
            player.playing.lock().expect(LOCK).remove(&event);
            player.traffic.publish_last_of_match(event, &last);
        });
        Ok(order.seconds)
    }

    /// Waits for the matches that are being played. They end early, because the stack stops.
    pub(crate) async fn finish(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().expect(LOCK));
        tasks.join_all().await;
    }

    /// Plays a match to its end. Returns the last message for the pages, or `None` if the stack stops before the end.
    async fn run(
        &self,
        fixture: Fixture,
        course: &Course,
        stopped: &mut watch::Receiver<bool>,
    ) -> Result<Option<Value>, String> {
        #[expect(clippy::disallowed_methods, reason = "measures steps; no code reads the time")]
        let began = Instant::now();
        let steps = course.steps();
        for (at, step) in steps.iter().enumerate() {
            tokio::select! {
                () = sleep_until(began + step.at) => {}
                _ = stopped.wait_for(|stop| *stop) => return Ok(None),
            }
            let is_news = step.phase != Phase::Playing || step.scorer.is_some();
            let is_late = steps.get(at + 1).is_some_and(|next| began.elapsed() >= next.at);
            if is_late && !is_news {
                continue;
            }
            match step.phase {
                Phase::FullTime => self.report(fixture, "finished", step.score).await?,
                Phase::KickOff | Phase::Playing if is_news => {
                    self.report(fixture, "live", step.score).await?;
                }
                Phase::KickOff | Phase::Playing | Phase::HalfTime => {}
            }
            self.traffic.publish_match(fixture.event, &message(fixture.event, step));
        }
        let mut settled = message(fixture.event, steps.last().ok_or("the match has no end")?);
        settled["scored"] = self.settle(fixture.event).await?.into();
        settled["phase"] = "settled".into();
        Ok(Some(settled))
    }

    /// Reports the score to `feed`.
    async fn report(&self, fixture: Fixture, status: &str, score: Score) -> Result<(), String> {
        let Fixture { event, tournament, home, away, start } = fixture;
        let row = json!({
            "id": event, "tournament_id": tournament, "home_team_id": home, "away_team_id": away,
            "start_time": start.to_rfc3339_opts(SecondsFormat::Secs, true),
            "status": status, "home_score": score.home, "away_score": score.away,
        });
        let report = self.invoke("feed", json!({ "format": "touchline", "events": [row] })).await?;
        match report["reasons"][0]["reason"].as_str() {
            Some(reason) => Err(format!("feed rejected the score: {reason}")),
            None => Ok(()),
        }
    }

    /// Calculates the points and builds the leaderboards. Returns the number of predictions with points.
    async fn settle(&self, event: u32) -> Result<u64, String> {
        let mut scored = 0;
        for _ in 0..MAX_SETTLEMENTS {
            let mut settled = self.invoke("points", json!({ "event_id": event })).await?["matches"][0].take();
            scored = settled["scored"].as_u64().unwrap_or_default();
            if settled["finished"].take() == true {
                break;
            }
        }
        self.build_boards().await?;
        Ok(scored)
    }

    /// Builds the leaderboards. After a build, `standings` waits some seconds for further points, so this returns as
    /// soon as the queue is empty.
    async fn build_boards(&self) -> Result<(), String> {
        let is_built = async {
            while !self.store.queued_boards().await.map_err(|error| error.to_string())?.is_empty() {
                tokio::time::sleep(QUEUE_PAUSE).await;
            }
            Ok(())
        };
        tokio::select! {
            built = self.invoke("standings", json!({})) => built.map(drop),
            built = is_built => built,
        }
    }

    /// Invokes a function, and waits until its writes are delivered to the functions that read the streams.
    async fn invoke(&self, function: &str, event: Value) -> Result<Value, String> {
        let (outcome, observed) = calls::observe(false, self.host.invoke(function, event)).await;
        observed.tickets.delivered().await;
        match outcome {
            Some(Ok(payload)) => Ok(payload),
            Some(Err(error)) => {
                Err(format!("{function} failed: {}", error["errorMessage"].as_str().unwrap_or("see the log")))
            }
            None => Err(format!("the template has no function {function}")),
        }
    }
}

/// Returns the message about a step for the pages.
fn message(event: u32, step: &Step) -> Value {
    json!({
        "event_id": event,
        "phase": step.phase.name(),
        "minute": step.minute,
        "home_score": step.score.home,
        "away_score": step.score.away,
        "scorer": step.scorer.map(|side| match side { Side::Home => "home", Side::Away => "away" }),
    })
}

fn unprocessable(message: String) -> Rejection {
    (StatusCode::UNPROCESSABLE_ENTITY, message)
}

/// The body of a request to play a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Order {
    seconds: u64,
    home: Option<u16>,
    away: Option<u16>,
}

impl Order {
    fn read(body: &[u8]) -> Result<Self, String> {
        let fields: Map<String, Value> = match body {
            [] => Map::new(),
            body => serde_json::from_slice(body).map_err(|_| "Send a JSON object.".to_owned())?,
        };
        let number = |name: &str| match fields.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or(format!("{name} must be a whole number.")),
        };
        let seconds = number("seconds")?.unwrap_or(SECONDS);
        if !(1..=MAX_SECONDS).contains(&seconds) {
            return Err(format!("seconds must be from 1 to {MAX_SECONDS}."));
        }
        let goals =
            |name| number(name).map(|goals| goals.map(|goals| u16::try_from(goals).unwrap_or(u16::MAX)));
        Ok(Self { seconds, home: goals("home_score")?, away: goals("away_score")? })
    }
}

/// Returns whether a match has begun and can go on.
fn is_live(row: &Match) -> bool {
    matches!(row.status, Status::Live | Status::Interrupted | Status::Suspended)
}

/// The maximum number of goals that a request can set for a side.
const MAX_GOALS: u16 = 20;

/// Returns the course of a football match, with the final score of the request or a usual one.
fn course(row: &Match, order: &Order) -> Result<Course, String> {
    let is_live = is_live(row);
    let from = row.score.filter(|_| is_live).unwrap_or(Score { home: 0, away: 0 });
    let goals = |wanted: Option<u16>, scored: u16, salt: u32| {
        let drawn = u16::try_from(draw(row.id, salt) % 1_000).unwrap_or_default();
        match wanted {
            Some(wanted) if wanted > MAX_GOALS => Err(format!("A score must be from 0 to {MAX_GOALS}.")),
            Some(wanted) if wanted < scored => {
                Err(format!("This side already has {scored}, so it cannot end with {wanted}."))
            }
            Some(wanted) => Ok(wanted),
            None if is_live => Ok(scored + drawn % 2),
            None => Ok(drawn % 4),
        }
    };
    let to = Score {
        home: goals(order.home, from.home, FULL_TIME)?,
        away: goals(order.away, from.away, FULL_TIME + 1)?,
    };
    let age = (SystemClock.now() - row.start).num_minutes();
    let from_minute = if is_live { u32::try_from(age.clamp(1, LAST_START)).unwrap_or(1) } else { 0 };
    Ok(Course { event: row.id, from_minute, from, to, length: Duration::from_secs(order.seconds) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_defaults_and_limits() {
        let read = |body: &str| Order::read(body.as_bytes());
        assert_eq!(read(""), Ok(Order { seconds: 60, home: None, away: None }));
        let all = r#"{"seconds": 600, "home_score": 2, "away_score": 0}"#;
        assert_eq!(read(all), Ok(Order { seconds: 600, home: Some(2), away: Some(0) }));
        for body in [
            "[]",
            "{",
            r#"{"seconds": 0}"#,
            r#"{"seconds": 601}"#,
            r#"{"seconds": 1.5}"#,
            r#"{"home_score": -1}"#,
        ] {
            assert!(read(body).is_err(), "{body}");
        }
    }
}
