//! A final as a scale model: all fans predict in the five minutes before kick-off, through the real functions and within
//! AWS's limits. See [`crate::limits`] for what is at scale.

mod arrivals;
mod preparation;
mod recount;
pub mod storm;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use chrono::{DateTime, TimeDelta, Utc};
use points::Rate;
use serde_json::{Value, json};
use tokio::time::Instant;
use touchline::App;
use touchline::config::{Aws, Config};
use touchline::domain::promotion::SHARDS;
use touchline::domain::{Token, UserId};
use touchline::ports::chat::{Chat, LocalChat};
use touchline::ports::clock::Clock;
use touchline::ports::random::Random;
use touchline::ports::sms::Sms;
use touchline::ports::web::NoWeb;
use touchline::storage::users::Session;
use touchline::storage::{self, Store};
use touchline_stack::resources::StreamMapping;
use touchline_stack::tables;
use touchline_testing::{Persona, Response, SeededRandom};

pub use arrivals::{Arrivals, LASTS};
pub use preparation::{PREPARATIONS, Preparation};
use recount::{RESULT, Recount};

use crate::clock::VirtualClock;
use crate::dice::Dice;
use crate::dynamodb::DynamoDb;
use crate::fault::Faults;
use crate::gateway::Gateway;
use crate::lambda::{Lambda, UNRESERVED};
use crate::limits::{Limits, Observed, Settings};
use crate::runtime;
use crate::settings::{self, STACK};
use crate::sms::Texts;
use crate::streams::Streams;
use crate::trace::Trace;
use crate::world::{deploy_with, has_due};

/// A final to play.
#[derive(Debug, Clone)]
pub struct Setup {
    pub seed: u64,
    /// The number of fans in the model. Each stands for as many as the scale of the settings says.
    pub fans: u32,
    /// The number of shards of the match.
    pub shards: u8,
    pub arrivals: Arrivals,
    pub settings: Settings,
}

impl Setup {
    /// Returns how many predictions `points` settles in a second of the model.
    fn points_per_second(&self, at_full_scale: u32) -> u32 {
        (at_full_scale / self.settings.scale).max(1)
    }

    /// Returns how many pages of a shard one page of the model stands for.
    fn stored_progress(&self, points_per_second: u32) -> u32 {
        let pages = |fans: u32, per_second| {
            let page = Rate::of(fans.into(), per_second).page(self.shards);
            let page = u32::try_from(page).unwrap_or(u32::MAX);
            fans.div_ceil(u32::from(self.shards)).div_ceil(page)
        };
        let at_full_scale = pages(self.fans.saturating_mul(self.settings.scale), points_per_second);
        at_full_scale.div_ceil(pages(self.fans, self.points_per_second(points_per_second)).max(1))
    }
}

/// What happened. The counts are those of the model, except for `observed`, which is at full scale.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Requests, retries included.
    pub requests: u64,
    pub accepted: u64,
    /// Fans whose prediction was never accepted, by the status of the last response.
    pub lost: BTreeMap<u16, u64>,
    /// From the last accepted prediction until the counts of the match are exact. `None` if they never were.
    pub counts_after: Option<Duration>,
    /// From the import of the result until every prediction has its points.
    pub points_after: Option<Duration>,
    /// From the import of the result until `tally` has counted everything.
    pub stats_after: Option<Duration>,
    pub observed: Observed,
    /// What is not exact after everything has settled.
    pub inexact: Vec<String>,
    /// The hash of the trace.
    pub hash: u64,
}

/// The id of the match.
const EVENT: u32 = 64;

/// From the start of the world until the first prediction.
const BEFORE: Duration = Duration::from_mins(2);

/// From kick-off until the result.
const MATCH: Duration = Duration::from_mins(110);

/// How often a fan's app sends a prediction that is throttled.
const TRIES: u32 = 6;

/// How long the points and statistics may take.
const SETTLES_WITHIN: Duration = Duration::from_hours(6);

/// Returns the settings of a new account and of the template as it is.
#[must_use]
pub fn as_deployed(scale: u32) -> Settings {
    Settings::of_stack(&STACK, scale)
}

/// Plays a final.
///
/// # Panics
///
/// If the runtime or the engine does not start.
#[must_use]
pub fn play(setup: &Setup) -> Outcome {
    fastrand::seed(setup.seed);
    runtime::new().block_on(async { Final::new(setup.clone()).await.play().await })
}

struct Final {
    setup: Setup,
    config: Arc<Config>,
    dynamodb: DynamoDb,
    store: Store,
    streams: Arc<Streams>,
    mappings: Vec<StreamMapping>,
    gateway: Gateway,
    limits: Arc<Limits>,
    kick_off: DateTime<Utc>,
}

/// What the fans saw.
#[derive(Debug, Default)]
struct Seen {
    accepted: u64,
    lost: BTreeMap<u16, u64>,
    last_accepted: Option<Instant>,
}

impl Final {
    async fn new(setup: Setup) -> Self {
        let clock = VirtualClock::starting_now();
        let dice = |part: &str| Dice::new(setup.seed, part);
        let trace = Arc::new(Trace::new(false));
        // Faults are the subject of the other worlds. Here, only the limits of AWS stand in the way.
        let faults = Arc::new(Faults::new(dice("faults"), 0));
        faults.stop();
        let stack = &*STACK;
        let defaults = settings::config();
        let config = Arc::new(Config {
            featured_shards: setup.shards,
            points_per_second: setup.points_per_second(defaults.points_per_second),
            ..Config::clone(&defaults)
        });
        let stored_progress = setup.stored_progress(defaults.points_per_second);
        let limits = Settings { stored_progress, ..setup.settings.clone() };
        let limits = Arc::new(Limits::new(limits, stack));
        let tally = stack.functions.iter().find(|function| function.name == "tally");
        let mut mappings = tally.expect("tally is in the template").streams.clone();
        for mapping in &mut mappings {
            mapping.batch_size = (mapping.batch_size / setup.settings.scale as usize).max(1);
        }
        // A stream has a shard for each partition of its table.
        let shards =
            mappings.iter().map(|mapping| (mapping.table.clone(), limits.partitions(&mapping.table)));
        let streams = Arc::new(Streams::steady(&shards.collect(), clock, dice("streams")));
        let dynamodb =
            DynamoDb::new(Arc::clone(&streams), Arc::clone(&faults), dice("network"), Arc::clone(&trace));
        dynamodb.limit(Arc::clone(&limits));
        let client = storage::connect(&config.aws, dynamodb.http_client());
        tables::create(&client, &stack.tables).await.expect("the engine creates the tables");
        let store = Store::new(client, config.tables.clone());
        let texts = Arc::new(Texts::new(Arc::clone(&faults)));
        let lambda = Lambda::new(
            new_app(setup.seed, &config, &dynamodb, &texts, clock),
            Arc::clone(&faults),
            Arc::clone(&trace),
        )
        .limited(Arc::clone(&limits));
        let lambda = deploy_with(lambda, stack, |function| {
            function.reserved_concurrency.map_or(UNRESERVED, |reserved| reserved as usize)
        });
        let gateway = Gateway {
            lambda: Arc::new(lambda),
            clock,
            texts,
            faults,
            trace,
            requests: Arc::new(AtomicU64::new(0)),
            given_up_requests: Arc::default(),
            suspicious: Arc::default(),
            limits: Some(Arc::clone(&limits)),
        };
        let before = TimeDelta::from_std(BEFORE + LASTS).expect("minutes");
        let kick_off = clock.time() + before;
        Self { setup, config, dynamodb, store, streams, mappings, gateway, limits, kick_off }
    }

    async fn play(self) -> Outcome {
        let began = Instant::now();
        let tokens = self.sign_in().await;
        for (number, mapping) in self.mappings.iter().enumerate() {
            tokio::spawn(Arc::clone(&self.streams).deliver(
                number,
                mapping.clone(),
                "tally".into(),
                Arc::clone(&self.gateway.lambda),
                Arc::clone(&self.gateway.faults),
                Arc::clone(&self.gateway.trace),
            ));
        }
        self.import("scheduled").await;
        let mut seen = self.predict(tokens, began + BEFORE).await;
        self.report("the fans have predicted");
        let kick_off = began + BEFORE + LASTS;
        tokio::time::sleep_until(kick_off).await;
        self.import("live").await;

        let expected = self.recount().counts;
        let mut outcome = Outcome::default();
        let last = seen.last_accepted.take().unwrap_or(kick_off);
        let exact = self.wait(kick_off + MATCH, async || {
            self.store.event_counts(EVENT).await.is_ok_and(|counts| counts == expected)
        });
        outcome.counts_after = exact.await.map(|at| at.saturating_duration_since(last));
        self.report("the counts are exact");

        tokio::time::sleep_until(kick_off + MATCH).await;
        self.import("finished").await;
        let result = Instant::now();
        let points = tokio::spawn(award_points(Arc::clone(&self.gateway.lambda), result));
        let until = result + SETTLES_WITHIN;
        let table = &self.config.tables.predictions;
        let awarded = self.wait(until, async || !has_due(&self.dynamodb, table)).await;
        outcome.points_after = awarded.map(|at| at.duration_since(result));
        self.report("all have their points");
        let drained = self.wait(until, async || self.streams.are_drained(&self.mappings)).await;
        outcome.stats_after = drained.map(|at| at.duration_since(result));
        points.abort();

        // Until indexes and replicas have everything.
        tokio::time::sleep(crate::dynamodb::LONGEST_DELAY).await;
        outcome.inexact = self.inexact(&seen).await;
        let Outcome { counts_after, points_after, stats_after, inexact, .. } = outcome;
        Outcome { counts_after, points_after, stats_after, inexact, ..self.outcome(seen) }
    }

    /// Says how far a final is, because it takes minutes.
    #[expect(clippy::print_stderr, reason = "a final is played by a program for the terminal")]
    fn report(&self, what: &str) {
        let Observed { throttles, most_throttled, busiest, .. } = self.limits.observed();
        let now = self.gateway.clock.time().format("%H:%M:%S");
        eprintln!("{now}: {what}; {throttles:?}, {most_throttled:?}, {busiest:?}");
    }

    /// Returns what the fans saw and what the limits observed.
    fn outcome(&self, seen: Seen) -> Outcome {
        Outcome {
            requests: self.gateway.requests.load(Ordering::Relaxed),
            accepted: seen.accepted,
            lost: seen.lost,
            observed: self.limits.observed(),
            hash: self.gateway.trace.hash(),
            ..Outcome::default()
        }
    }

    /// Signs all fans in. A session is all that the product reads of a fan who predicts.
    async fn sign_in(&self) -> Vec<Token> {
        let now = self.gateway.clock.time();
        let mut tokens = Vec::new();
        for number in 1..=self.setup.fans {
            let mut secret = [7; 32];
            secret[..4].copy_from_slice(&number.to_le_bytes());
            let token = Token::new(UserId(number), secret);
            let session = Session::starting("PHONE".into(), self.config.sessions.unused, now);
            self.store.save_session(&token, &session).await.expect("no limits apply outside of a function");
            tokens.push(token);
        }
        tokens
    }

    /// Lets every fan predict, the first at `from`. Returns when the last fan has succeeded or given up.
    async fn predict(&self, tokens: Vec<Token>, from: Instant) -> Seen {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let kick_off = from + LASTS;
        let mut fans = Vec::new();
        for number in 0..self.setup.fans {
            tokio::time::sleep_until(from + self.setup.arrivals.at(number, self.setup.fans)).await;
            // The step is not divisible by 2 or 5. So each of a round number of fans predicts once, in scattered order.
            let fan = u64::from(number) * 2_147_483 % u64::from(self.setup.fans);
            let token = &tokens[usize::try_from(fan).expect("a fan's number is small")];
            let fan = Persona::with_token(&self.gateway, token.as_str());
            let dice = Dice::new(self.setup.seed, token.as_str());
            fans.push(tokio::spawn(predict(fan, dice, kick_off, Arc::clone(&seen))));
        }
        for fan in fans {
            fan.await.expect("no fan panics");
        }
        let mut seen = seen.lock().expect("no holder of the lock panics");
        std::mem::take(&mut *seen)
    }

    async fn import(&self, status: &str) {
        let score = (status == "finished").then_some(RESULT);
        let document = json!({
            "format": "touchline",
            "as_of": self.gateway.clock.time().to_rfc3339(),
            "sports": [{ "id": 1, "name": "Football" }],
            "tournaments": [{ "id": 1, "name": "World Cup", "featured": self.setup.shards > SHARDS }],
            "teams": [{ "id": 1, "name": "Reds", "sport_id": 1 }, { "id": 2, "name": "Blues", "sport_id": 1 }],
            "events": [{
                "id": EVENT, "tournament_id": 1, "home_team_id": 1, "away_team_id": 2,
                "start_time": self.kick_off.to_rfc3339(), "status": status,
                "home_score": score.map(|score| score.home), "away_score": score.map(|score| score.away),
            }],
        });
        loop {
            let imported = self.gateway.lambda.invoke("feed", document.clone()).await;
            if imported.is_ok_and(|report| report["rejected"] == 0) {
                return;
            }
            // The template's schedule.
            tokio::time::sleep(Duration::from_mins(1)).await;
        }
    }

    /// Waits until a condition holds, and returns when it did. Returns `None` if it does not hold by `until`.
    async fn wait(&self, until: Instant, holds: impl AsyncFn() -> bool) -> Option<Instant> {
        while !holds().await {
            if Instant::now() >= until {
                return None;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Some(Instant::now())
    }

    fn recount(&self) -> Recount {
        Recount::of(&self.dynamodb.items(&self.config.tables.predictions))
    }

    /// Returns what differs from a recount.
    async fn inexact(&self, seen: &Seen) -> Vec<String> {
        let recount = self.recount();
        let mut inexact = Vec::new();
        let counts = self.store.event_counts(EVENT).await.expect("no limits apply outside of a function");
        if counts != recount.counts {
            inexact.push(format!("the match has {counts:?}, and the recount {:?}", recount.counts));
        }
        let stored = u64::try_from(recount.counts.predictions).unwrap_or(0);
        if stored < seen.accepted {
            inexact.push(format!("{} predictions were accepted, and {stored} are stored", seen.accepted));
        }
        if recount.wrong_points > 0 {
            inexact.push(format!("{} predictions have wrong points", recount.wrong_points));
        }
        let mut wrong = 0;
        for (user, expected) in &recount.stats {
            let stats = self.store.user_stats(UserId(*user)).await;
            wrong += u32::from(!stats.is_ok_and(|stats| stats == *expected));
        }
        if wrong > 0 {
            inexact.push(format!("{wrong} users have wrong statistics"));
        }
        inexact
    }
}

/// Sends a prediction as an app does: while the service is busy, again until kick-off, with growing waits.
async fn predict(fan: Persona<Gateway>, dice: Dice, kick_off: Instant, seen: Arc<Mutex<Seen>>) {
    let pick = ["home", "draw", "away"][dice.below(3) as usize];
    let mut request = fan.predicts(EVENT).pick(pick).confidence(dice.below(101));
    if pick == "home" {
        let away = dice.below(2);
        request = request.score(away + 1 + dice.below(2), away);
    }
    for attempt in 1.. {
        let response = request.clone().await;
        let status = response.status.as_u16();
        let wait = retry_after(&response).max(Duration::from_millis(500) * 2_u32.pow(attempt));
        let wait = wait.mul_f64(f64::from(dice.between(50, 150)) / 100.0);
        let may_retry = attempt < TRIES && Instant::now() + wait < kick_off;
        if matches!(status, 429 | 503) && may_retry {
            tokio::time::sleep(wait).await;
            continue;
        }
        let mut seen = seen.lock().expect("no holder of the lock panics");
        if matches!(status, 200 | 201) {
            seen.accepted += 1;
            seen.last_accepted = Some(Instant::now());
        } else {
            *seen.lost.entry(status).or_default() += 1;
        }
        return;
    }
}

fn retry_after(response: &Response) -> Duration {
    let seconds = response.headers.get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
    Duration::from_secs(seconds.unwrap_or(0))
}

/// Invokes `points` every minute, as the template does. A run that lasts longer skips minutes.
async fn award_points(lambda: Arc<Lambda>, from: Instant) {
    for minute in 1_u32.. {
        let due = from + Duration::from_mins(1) * minute;
        if Instant::now() <= due {
            tokio::time::sleep_until(due).await;
            // A failed run is the same as one that has not finished: the next run resumes.
            let _: Result<Value, _> = lambda.invoke("points", json!({})).await;
        }
    }
}

/// Returns the same client without timeouts. One call of `tally` or `points` stands for many that follow each other, so it
/// takes longer than each of them.
fn without_timeouts(client: &Client) -> Client {
    Client::from_conf(client.config().to_builder().timeout_config(TimeoutConfig::disabled()).build())
}

fn new_app(
    seed: u64,
    config: &Arc<Config>,
    dynamodb: &DynamoDb,
    texts: &Arc<Texts>,
    clock: VirtualClock,
) -> Box<dyn Fn(u32) -> App + Send + Sync> {
    let random: Arc<dyn Random> = Arc::new(SeededRandom::new(seed));
    let chat: Arc<dyn Chat> = Arc::new(LocalChat::new(config.chat.server.clone(), random));
    let (config, dynamodb, texts) = (Arc::clone(config), dynamodb.clone(), Arc::clone(texts));
    Box::new(move |number| {
        // The SDK limits the retries of a process for each region. Each environment is a process, so each has its own
        // region.
        let aws = Aws { region: format!("{}-{number}", config.aws.region), ..config.aws.clone() };
        App {
            store: Store::new(
                without_timeouts(&storage::connect(&aws, dynamodb.http_client())),
                config.tables.clone(),
            ),
            clock: Arc::new(clock) as Arc<dyn Clock>,
            random: Arc::new(SeededRandom::new(Dice::new(seed, &format!("environment {number}")).number())),
            sms: Arc::clone(&texts) as Arc<dyn Sms>,
            chat: Arc::clone(&chat),
            web: Arc::new(NoWeb),
            catalog_cache: Arc::default(),
            config: Arc::clone(&config),
        }
    })
}
