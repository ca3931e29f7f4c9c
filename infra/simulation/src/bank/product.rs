use std::sync::Arc;

use dynoxide::Database;
use touchline::App;
use touchline::ports::chat::LocalChat;
use touchline::ports::clock::Clock;
use touchline::ports::random::Random;
use touchline::ports::sms::Console;
use touchline::ports::web::NoWeb;
use touchline::storage::{self, Store};
use touchline_stack::direct::DirectClient;
use touchline_stack::tables;
use touchline_testing::SeededRandom;

use crate::clock::VirtualClock;
use crate::dynamodb::DynamoDb;
use crate::runtime;
use crate::settings::{self, STACK};

/// An engine with the table of the wallets.
pub struct Product {
    pub engine: Database,
}

impl Product {
    /// Starts an engine and creates the table of the wallets.
    pub fn new() -> Self {
        let config = settings::config();
        let engine = Database::memory().expect("the engine starts");
        let client = storage::connect(&config.aws, DirectClient::new(engine.clone()));
        let wallets: Vec<_> =
            STACK.tables.iter().filter(|table| table.name == config.tables.wallets).cloned().collect();
        runtime::new().block_on(tables::create(&client, &wallets)).expect("the engine creates the table");
        Self { engine }
    }

    /// Returns an app that calls the engine over the network of `dynamodb`.
    pub fn app(dynamodb: &DynamoDb, clock: VirtualClock, random: SeededRandom) -> App {
        let config = settings::config();
        let client = storage::connect(&config.aws, dynamodb.http_client());
        let random: Arc<dyn Random> = Arc::new(random);
        App {
            store: Store::new(client, config.tables.clone()),
            clock: Arc::new(clock) as Arc<dyn Clock>,
            sms: Arc::new(Console),
            chat: Arc::new(LocalChat::new(config.chat.server.clone(), Arc::clone(&random))),
            random,
            web: Arc::new(NoWeb),
            catalog_cache: Arc::default(),
            sms_counts: Arc::default(),
            config,
        }
    }
}
