use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use dynoxide::Database;
use serde_json::json;
use touchline::App;
use touchline::config::Tables;
use touchline::domain::UserId;
use touchline::ports::clock::Clock;
use touchline::storage::{self, keys};
use touchline_stack::direct::{self, DirectClient, RequestBody};
use touchline_stack::resources::StreamMapping;
use touchline_stack::tables;
use touchline_testing::SeededRandom;

use crate::clock::VirtualClock;
use crate::dice::Dice;
use crate::dynamodb::DynamoDb;
use crate::fault::Faults;
use crate::lambda::{Code, Lambda};
use crate::runtime;
use crate::settings::{self, STACK};
use crate::trace::Trace;

/// An engine with the tables that leaderboards need.
pub struct Product {
    pub engine: Database,
}

impl Product {
    /// Starts an engine and creates the tables.
    pub fn new() -> Self {
        let config = settings::config();
        let engine = Database::memory().expect("the engine starts");
        let client = storage::connect(&config.aws, DirectClient::new(engine.clone()));
        let used = used(&config.tables);
        let tables: Vec<_> =
            STACK.tables.iter().filter(|table| used.contains(&&table.name)).cloned().collect();
        runtime::new().block_on(tables::create(&client, &tables)).expect("the engine creates the tables");
        Self { engine }
    }

    /// Deletes the items of a world. This is faster than an engine for each world.
    pub fn clear(&self, dynamodb: &DynamoDb, tables: &Tables) {
        for table in used(tables) {
            for item in dynamodb.items(table) {
                let key = json!({ "pk": item["pk"], "sk": item["sk"] });
                let request = json!({ "TableName": table, "Key": key });
                let deleted = direct::execute(&self.engine, "DeleteItem", RequestBody::Json(&request));
                assert!(deleted.status().is_success(), "the engine deletes every item: {deleted:?}");
            }
        }
    }
}

fn used(tables: &Tables) -> [&String; 6] {
    [&tables.users, &tables.catalog, &tables.predictions, &tables.rooms, &tables.directory, &tables.standings]
}

/// Returns the event source mappings of `tally` that leaderboards need.
pub fn mappings(tables: &Tables) -> Vec<StreamMapping> {
    let tally = STACK.functions.iter().find(|function| function.name == "tally");
    let mappings = &tally.expect("tally is in the template").streams;
    let is_needed = |mapping: &&StreamMapping| [&tables.predictions, &tables.rooms].contains(&&mapping.table);
    mappings.iter().filter(is_needed).cloned().collect()
}

/// A build reads only one in 16 of the 128 shards of the statistics: reading all of them would take most of the time.
const ONE_IN: u8 = 16;

/// Returns whether the statistics of a user are in the shards that builds read.
pub fn is_read(user: UserId) -> bool {
    (0..keys::STATS_SHARDS / ONE_IN).any(|shard| keys::user_stats(user).pk == keys::stats_shard(shard))
}

/// Deploys `points`, `tally` and `standings`. If `by_workers`, builds are divided over workers, as with many users.
pub fn deploy(
    seed: u64,
    app: &App,
    clock: VirtualClock,
    faults: &Arc<Faults>,
    trace: &Arc<Trace>,
    by_workers: bool,
) -> Lambda {
    let app = app.clone();
    let new_app = move |number: u32| {
        let dice = Dice::new(seed, &format!("environment {number}"));
        // Each clock is wrong by up to half a second, so two clocks differ by up to a second.
        let skew = TimeDelta::milliseconds(i64::from(dice.between(0, 1_000)) - 500);
        App {
            clock: Arc::new(clock.skewed(skew)) as Arc<dyn Clock>,
            random: Arc::new(SeededRandom::new(dice.number())),
            ..app.clone()
        }
    };
    let mut lambda = Lambda::new(Box::new(new_app), Arc::clone(faults), Arc::clone(trace));
    let standings = if by_workers { STANDINGS_BY_WORKERS } else { STANDINGS };
    for (name, code) in [("points", POINTS), ("tally", TALLY), ("standings", standings)] {
        let function = STACK.functions.iter().find(|function| function.name == name);
        let function = function.expect("the function is in the template");
        lambda.deploy(name, code, Duration::from_secs(function.timeout_seconds), 100);
    }
    lambda
}

const POINTS: Code = Code::Event(|app, event, deadline| {
    Box::pin(async move { points::handle(app, event, deadline).await.map_err(|error| error.to_string()) })
});

const TALLY: Code = Code::Event(|app, event, deadline| {
    Box::pin(async move { tally::handle(app, event, deadline).await.map_err(|error| error.to_string()) })
});

const STANDINGS: Code = Code::Event(|app, event, deadline| {
    let limits = standings::Limits { one_in: ONE_IN, ..standings::Limits::DEFAULT };
    Box::pin(async move {
        standings::handle_with_limits(app, event, deadline, limits).await.map_err(|error| error.to_string())
    })
});

const STANDINGS_BY_WORKERS: Code = Code::Event(|app, event, deadline| {
    let limits = standings::Limits { users_in_one_process: 1, users_per_worker: 2, one_in: ONE_IN };
    Box::pin(async move {
        standings::handle_with_limits(app, event, deadline, limits).await.map_err(|error| error.to_string())
    })
});
