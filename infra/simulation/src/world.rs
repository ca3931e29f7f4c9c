//! One world: everything that a seed determines.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use serde_json::{Value, json};
use touchline::App;
use touchline::config::{Aws, Config};
use touchline::ports::chat::{Chat, LocalChat};
use touchline::ports::clock::Clock;
use touchline::ports::random::Random;
use touchline::ports::sms::Sms;
use touchline::ports::web::NoWeb;
use touchline::storage::{self, Store};
use touchline_stack::resources::{Function, StreamMapping};
use touchline_stack::{Stack, tables};
use touchline_testing::SeededRandom;

use crate::checks::Settled;
use crate::clock::VirtualClock;
use crate::dice::Dice;
use crate::dynamodb::{DynamoDb, Guards, LONGEST_DELAY};
use crate::fault::Faults;
use crate::gateway::Gateway;
use crate::homeserver::Homeserver;
use crate::lambda::{Code, Lambda};
use crate::operator::Operator;
use crate::person::{Person, Shared};
use crate::runtime;
use crate::season::Season;
use crate::settings::{self, STACK};
use crate::signal::Signal;
use crate::sms::Texts;
use crate::streams::Streams;
use crate::trace::Trace;

/// How large a world is and how much goes wrong in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub seed: u64,
    pub people: u32,
    /// The people stop when the API has received this many requests, those of the homeserver included.
    pub requests: u32,
    pub matches: u32,
    /// How many of 1,000 calls to the store have a fault. One function can have more.
    pub faults: u32,
}

impl Plan {
    /// Returns the plan of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let dice = Dice::new(seed, "plan");
        Self {
            seed,
            people: dice.between(4, 8),
            requests: dice.between(300, 340),
            matches: dice.between(1, 4),
            // One world in ten has no faults in the store. In the others, few or many calls have faults.
            faults: if dice.once_in(10) { 0 } else { dice.between(1, 60) },
        }
    }

    /// Returns whether Lambda gives up some records of the streams, as if `tally` had failed for a day. An operator then
    /// counts again at the end of the world.
    #[must_use]
    pub fn loses_records(&self) -> bool {
        self.faults > 0 && Dice::new(self.seed, "losses").once_in(3)
    }
}

/// What happened in a world.
#[derive(Debug, Clone)]
pub struct Report {
    pub plan: Plan,
    pub hash: u64,
    pub requests: u64,
    pub faults: BTreeMap<String, u64>,
    pub guards: Guards,
    pub violations: Vec<String>,
    pub trace: Vec<String>,
}

/// How long the people and the matches of a world may take, in virtual time.
const LONGEST_WORLD: Duration = Duration::from_hours(24 * 8);

/// How long a world may take to settle after the last fault, in virtual time.
const SETTLES_WITHIN: Duration = Duration::from_hours(1);

/// The schedule of the function `points` in the template.
const POINTS_INTERVAL: Duration = Duration::from_mins(1);

/// After these times, Lambda repeats an asynchronous invocation that failed.
const ASYNC_RETRY_DELAYS: [Duration; 2] = [Duration::from_secs(61), Duration::from_secs(122)];

/// Plays the world of a plan.
///
/// # Panics
///
/// If the runtime or the engine does not start.
#[must_use]
pub fn play(plan: Plan, keeps_trace: bool) -> Report {
    // The SDK takes random retry delays from `fastrand`. The seed makes them reproducible.
    fastrand::seed(plan.seed);
    let runtime = runtime::new();
    SEED.set(Some(plan.seed));
    let report = runtime.block_on(async { World::new(plan, keeps_trace).await.play().await });
    SEED.set(None);
    report
}

thread_local! {
    static SEED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Returns the seed of the world that this thread plays, for the message about a panic.
#[must_use]
pub fn current_seed() -> Option<u64> {
    SEED.get()
}

struct World {
    plan: Plan,
    config: Arc<Config>,
    dynamodb: DynamoDb,
    store: Store,
    streams: Arc<Streams>,
    mappings: Vec<StreamMapping>,
    faults: Arc<Faults>,
    trace: Arc<Trace>,
    shared: Arc<Shared>,
}

impl World {
    async fn new(plan: Plan, keeps_trace: bool) -> Self {
        let clock = VirtualClock::starting_now();
        let trace = Arc::new(Trace::new(keeps_trace));
        let dice = |part: &str| Dice::new(plan.seed, part);
        let faults = Arc::new(Faults::uneven(dice("faults"), plan.faults));
        let stack = &*STACK;
        let config = settings::config();
        let tally = stack
            .functions
            .iter()
            .find(|function| function.name == "tally")
            .expect("tally is in the template");
        let mappings = tally.streams.clone();
        let mut streamed: Vec<String> = mappings.iter().map(|mapping| mapping.table.clone()).collect();
        streamed.sort();
        streamed.dedup();
        let streams = Streams::new(&streamed, clock, dice("streams"));
        let streams = Arc::new(if plan.loses_records() { streams.losing_records() } else { streams });
        let dynamodb =
            DynamoDb::new(Arc::clone(&streams), Arc::clone(&faults), dice("network"), Arc::clone(&trace));
        let store = Store::new(storage::connect(&config.aws, dynamodb.http_client()), config.tables.clone());
        let client = storage::connect(&config.aws, dynamodb.http_client());
        tables::create(&client, &stack.tables).await.expect("the engine creates the tables");

        let texts = Arc::new(Texts::new(Arc::clone(&faults)));
        let server = config.chat.server.clone();
        let ids = LocalChat::new(server.clone(), Arc::new(SeededRandom::new(plan.seed)));
        let skew = TimeDelta::milliseconds(i64::from(dice("homeserver").between(0, 4_000)) - 2_000);
        let homeserver = Arc::new(Homeserver::new(ids, server, clock.skewed(skew), Arc::clone(&faults)));
        let new_app = {
            let (config, dynamodb, texts) = (Arc::clone(&config), dynamodb.clone(), Arc::clone(&texts));
            let homeserver = Arc::clone(&homeserver);
            move |number: u32| {
                let dice = Dice::new(plan.seed, &format!("environment {number}"));
                // Each clock is wrong by up to half a second, so two clocks differ by up to a second.
                let skew = TimeDelta::milliseconds(i64::from(dice.between(0, 1_000)) - 500);
                let random: Arc<dyn Random> = Arc::new(SeededRandom::new(dice.number()));
                // The SDK limits the retries of a process for each region. Each environment is a process, so each has its own
                // region.
                let aws = Aws { region: format!("{}-{number}", config.aws.region), ..config.aws.clone() };
                App {
                    store: Store::new(storage::connect(&aws, dynamodb.http_client()), config.tables.clone()),
                    clock: Arc::new(clock.skewed(skew)) as Arc<dyn Clock>,
                    random,
                    sms: Arc::clone(&texts) as Arc<dyn Sms>,
                    chat: Arc::clone(&homeserver) as Arc<dyn Chat>,
                    web: Arc::new(NoWeb),
                    catalog_cache: Arc::default(),
                    config: Arc::clone(&config),
                }
            }
        };
        let lambda =
            Arc::new(deploy(Lambda::new(Box::new(new_app), Arc::clone(&faults), Arc::clone(&trace)), stack));
        let gateway = Gateway {
            lambda,
            clock,
            texts,
            faults: Arc::clone(&faults),
            trace: Arc::clone(&trace),
            requests: Arc::new(AtomicU64::new(0)),
            given_up_requests: Arc::default(),
            suspicious: Arc::default(),
            limits: None,
        };
        let season = Season::new(plan.matches, dice("season"), &gateway, store.clone());
        let shared = Arc::new(Shared {
            gateway,
            homeserver,
            season: Arc::new(season),
            rooms: std::sync::Mutex::default(),
            usernames: std::sync::Mutex::default(),
            dynamodb: dynamodb.clone(),
            tables: config.tables.clone(),
            violations: std::sync::Mutex::default(),
            predicted: std::sync::Mutex::default(),
            prediction: Signal::default(),
        });
        Self { plan, config, dynamodb, store, streams, mappings, faults, trace, shared }
    }

    async fn play(self) -> Report {
        let Self { plan, shared, .. } = &self;
        let lambda = &shared.gateway.lambda;
        for (number, mapping) in self.mappings.iter().enumerate() {
            let delivery = Arc::clone(&self.streams).deliver(
                number,
                mapping.clone(),
                "tally".into(),
                Arc::clone(lambda),
                Arc::clone(&self.faults),
                Arc::clone(&self.trace),
            );
            tokio::spawn(delivery);
        }
        tokio::spawn(Arc::clone(&shared.homeserver).push_all(shared.gateway.clone()));
        shared.season.import().await;
        tokio::spawn(self.points_on_schedule());
        tokio::spawn(self.standings_on_schedule());
        tokio::spawn(self.expire_items());
        tokio::spawn(self.operator("operator").recount_now_and_then());
        let season = tokio::spawn(Arc::clone(&shared.season).play());
        let people: Vec<_> = (1..=plan.people)
            .map(|number| {
                let dice = Dice::new(plan.seed, &format!("person {number}"));
                tokio::spawn(Person::new(number, Arc::clone(shared), dice).live(plan.requests))
            })
            .collect();
        let everybody = async {
            let mut histories = Vec::new();
            for person in people {
                histories.push(person.await.expect("no person panics"));
            }
            season.await.expect("the season does not panic");
            histories
        };
        let mut violations = Vec::new();
        let histories = tokio::time::timeout(LONGEST_WORLD, everybody).await.unwrap_or_else(|_| {
            violations.push("a request or an import does not end".into());
            Vec::new()
        });
        self.trace.line(format_args!("all faults end"));
        self.faults.stop();
        let world = Settled {
            shared,
            histories: &histories,
            dynamodb: &self.dynamodb,
            tables: &self.config.tables,
            store: self.store.clone(),
        };
        let settled = tokio::time::timeout(4 * SETTLES_WITHIN, self.settle_and_recount(&world)).await;
        match settled.unwrap_or_else(|_| Err(vec!["not settled: the import does not end".into()])) {
            Ok(()) => violations.extend(world.check().await),
            Err(wrong) => violations.extend(wrong),
        }
        for seen in [&shared.violations, &shared.season.violations] {
            let seen = std::mem::take(&mut *seen.lock().expect("no holder of the lock panics"));
            violations.splice(0..0, seen);
        }
        for violation in &violations {
            self.trace.line(format_args!("VIOLATION {violation}"));
        }
        Report {
            plan: *plan,
            hash: self.trace.hash(),
            requests: shared.gateway.requests.load(Ordering::Relaxed),
            faults: self.faults.counts(),
            guards: self.dynamodb.guards(),
            violations,
            trace: self.trace.take_lines(),
        }
    }

    fn operator(&self, dice: &str) -> Operator {
        Operator {
            shared: Arc::clone(&self.shared),
            dice: Dice::new(self.plan.seed, dice),
            loses_records: self.plan.loses_records(),
            people: self.plan.people,
        }
    }

    /// Waits until nothing is left to do. Then counts everything again. In a world that loses no record, everything is right
    /// before the recount. In the others, the recount must repair everything.
    async fn settle_and_recount(&self, world: &Settled<'_>) -> Result<(), Vec<String>> {
        let stuck = |stuck: String| vec![stuck];
        self.settle().await.map_err(stuck)?;
        if !self.plan.loses_records() {
            let wrong = world.check_counted().await;
            if !wrong.is_empty() {
                return Err(wrong);
            }
        }
        self.operator("last recount").recount_everything().await.map_err(stuck)?;
        self.settle().await.map_err(stuck)
    }

    /// Invokes `points` every minute while a match waits for points.
    fn points_on_schedule(&self) -> impl Future<Output = ()> + Send + 'static {
        let (dynamodb, table) = (self.dynamodb.clone(), self.config.tables.predictions.clone());
        let (lambda, faults) = (Arc::clone(&self.shared.gateway.lambda), Arc::clone(&self.faults));
        let (season, trace) = (Arc::clone(&self.shared.season), Arc::clone(&self.trace));
        async move {
            loop {
                tokio::time::sleep(POINTS_INTERVAL).await;
                if !has_due(&dynamodb, &table) {
                    continue;
                }
                season.points_run.change();
                // A run can take longer than a minute, and the schedule does not wait for it.
                let runs = if faults.occurs("PointsTwice", 50) { 2 } else { 1 };
                for _ in 0..runs {
                    let (lambda, trace) = (Arc::clone(&lambda), Arc::clone(&trace));
                    tokio::spawn(async move {
                        for delay in ASYNC_RETRY_DELAYS {
                            let result = lambda.invoke("points", json!({})).await;
                            trace.line(format_args!("points -> {result:?}"));
                            if result.is_ok() {
                                return;
                            }
                            tokio::time::sleep(delay).await;
                        }
                        let result = lambda.invoke("points", json!({})).await;
                        trace.line(format_args!("points, last attempt -> {result:?}"));
                    });
                }
            }
        }
    }

    /// Invokes `standings` every minute while leaderboards have changed.
    fn standings_on_schedule(&self) -> impl Future<Output = ()> + Send + 'static {
        let (dynamodb, table) = (self.dynamodb.clone(), self.config.tables.standings.clone());
        let (lambda, faults) = (Arc::clone(&self.shared.gateway.lambda), Arc::clone(&self.faults));
        let trace = Arc::clone(&self.trace);
        async move {
            loop {
                tokio::time::sleep(POINTS_INTERVAL).await;
                if !has_queued_boards(&dynamodb, &table) {
                    continue;
                }
                let runs = if faults.occurs("StandingsTwice", 50) { 2 } else { 1 };
                for _ in 0..runs {
                    let (lambda, trace) = (Arc::clone(&lambda), Arc::clone(&trace));
                    tokio::spawn(async move {
                        let result = lambda.invoke("standings", json!({})).await;
                        trace.line(format_args!("standings -> {result:?}"));
                    });
                }
            }
        }
    }

    /// Deletes expired items every few hours, up to two days late.
    fn expire_items(&self) -> impl Future<Output = ()> + Send + 'static {
        let (dynamodb, tables) = (self.dynamodb.clone(), self.config.tables.clone());
        let (clock, dice) = (self.shared.gateway.clock, Dice::new(self.plan.seed, "expiry"));
        async move {
            loop {
                tokio::time::sleep(dice.millis(3_600_000, 36_000_000)).await;
                let until = clock.time().timestamp() - i64::from(dice.below(2 * 86_400));
                for table in
                    [&tables.users, &tables.sms_logs, &tables.catalog, &tables.predictions, &tables.rooms]
                {
                    dynamodb.expire(table, until);
                }
            }
        }
    }

    /// Waits until nothing is left to do. If that takes too long, returns what has not ended.
    async fn settle(&self) -> Result<(), String> {
        let began = tokio::time::Instant::now();
        // Wait for the calls that the network delayed.
        tokio::time::sleep(LONGEST_DELAY).await;
        self.shared.season.import().await;
        loop {
            let is_drained = self.streams.are_drained(&self.mappings);
            let is_pushed = self.shared.homeserver.is_idle();
            let is_settled = !has_due(&self.dynamodb, &self.config.tables.predictions);
            let is_ranked = !has_queued_boards(&self.dynamodb, &self.config.tables.standings);
            let have_requests_ended = self.shared.gateway.given_up().values().all(Option::is_some);
            if is_drained && is_pushed && is_settled && is_ranked && have_requests_ended {
                // Wait until indexes have everything, then look again.
                tokio::time::sleep(LONGEST_DELAY).await;
                if self.streams.are_drained(&self.mappings)
                    && self.shared.homeserver.is_idle()
                    && !has_due(&self.dynamodb, &self.config.tables.predictions)
                    && !has_queued_boards(&self.dynamodb, &self.config.tables.standings)
                {
                    return Ok(());
                }
            }
            if began.elapsed() > SETTLES_WITHIN {
                return Err(format!(
                    "not settled: streams drained {is_drained}, homeserver idle {is_pushed}, points awarded {is_settled}, \
                     leaderboards built {is_ranked}, requests ended {have_requests_ended}"
                ));
            }
            tokio::time::sleep(Duration::from_secs(5)).await;
        }
    }
}

/// Returns whether a match waits for points.
pub fn has_due(dynamodb: &DynamoDb, table: &str) -> bool {
    let query = json!({
        "TableName": table,
        "KeyConditionExpression": "pk = :due",
        "ExpressionAttributeValues": { ":due": { "S": "due" } },
        "ConsistentRead": true,
        "Select": "COUNT",
    });
    let response = dynamodb.execute("Query", &query);
    let body: Value =
        response.body().bytes().and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
    body["Count"].as_u64().unwrap_or(0) > 0
}

/// Returns whether leaderboards have changed since they were built.
fn has_queued_boards(dynamodb: &DynamoDb, table: &str) -> bool {
    dynamodb.items(table).iter().any(|item| !item["since"].is_null())
}

/// Deploys every function of the template that the simulation uses.
fn deploy(lambda: Lambda, stack: &Stack) -> Lambda {
    deploy_with(lambda, stack, |_| 100)
}

/// Deploys every function, with the concurrency that `concurrency` returns for it.
pub fn deploy_with(mut lambda: Lambda, stack: &Stack, concurrency: fn(&Function) -> usize) -> Lambda {
    let codes: [(&str, Code); 14] = [
        ("chat", Code::Http(chat::router)),
        ("coins", Code::Http(coins::router)),
        ("login", Code::Http(login::router)),
        ("matches", Code::Http(matches::router)),
        ("predictions", Code::Http(predictions::router)),
        ("profile", Code::Http(profile::router)),
        ("teams", Code::Http(teams::router)),
        ("leaderboards", Code::Http(leaderboards::router)),
        (
            "feed",
            Code::Event(|app, event, deadline| {
                Box::pin(async move {
                    feed::handle(app, event, deadline).await.map_err(|error| error.to_string())
                })
            }),
        ),
        (
            "points",
            Code::Event(|app, event, deadline| {
                Box::pin(async move {
                    points::handle(app, event, deadline).await.map_err(|error| error.to_string())
                })
            }),
        ),
        (
            "standings",
            Code::Event(|app, event, deadline| {
                Box::pin(async move {
                    standings::handle(app, event, deadline).await.map_err(|error| error.to_string())
                })
            }),
        ),
        (
            "tally",
            Code::Event(|app, event, deadline| {
                Box::pin(async move {
                    tally::handle(app, event, deadline).await.map_err(|error| error.to_string())
                })
            }),
        ),
        (
            "recount",
            Code::Event(|app, event, deadline| {
                Box::pin(async move {
                    recount::handle(app, event, deadline).await.map_err(|error| error.to_string())
                })
            }),
        ),
        (
            "treasury",
            Code::Event(|app, event, deadline| {
                Box::pin(async move {
                    treasury::handle(app, event, deadline).await.map_err(|error| error.to_string())
                })
            }),
        ),
    ];
    for (name, code) in codes {
        let function = stack.functions.iter().find(|function| function.name == name);
        let function = function.expect("the function is in the template");
        let timeout = Duration::from_secs(function.timeout_seconds);
        lambda.deploy(name, code, timeout, concurrency(function));
    }
    lambda
}
