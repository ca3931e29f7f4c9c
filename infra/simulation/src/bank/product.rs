use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dynoxide::Database;
use touchline::App;
use touchline::config::{Aws, Config};
use touchline::ports::chat::LocalChat;
use touchline::ports::clock::Clock;
use touchline::ports::random::Random;
use touchline::ports::sms::Console;
use touchline::ports::web::NoWeb;
use touchline::storage::{self, Store};
use touchline_stack::direct::{self, DirectClient};
use touchline_stack::{TEMPLATE, Template, tables};
use touchline_testing::SeededRandom;

use super::runtime;
use crate::clock::VirtualClock;
use crate::dynamodb::DynamoDb;

/// The settings of the product, and an engine with its wallets.
pub struct Product {
    config: Arc<Config>,
    pub engine: Database,
}

impl Product {
    /// Starts an engine and creates the table of the wallets.
    pub fn new() -> Self {
        let mut stack = Template::parse(TEMPLATE)
            .and_then(|template| {
                template.resolve(&BTreeMap::from([("AWS::StackName".into(), "bank".into())]))
            })
            .expect("the template is valid");
        let mut variables = stack.functions[0].environment.clone();
        for (name, value) in [
            ("ENVIRONMENT", "testing"),
            ("AWS_REGION", "bank"),
            ("AWS_ACCESS_KEY_ID", "simulated"),
            ("AWS_SECRET_ACCESS_KEY", "simulated"),
            ("CODE_PEPPER", "a pepper for the bank"),
            ("SMS_PROVIDER", "console"),
            ("AWS_ENDPOINT_URL_DYNAMODB", direct::ENDPOINT),
        ] {
            variables.insert(name.into(), value.into());
        }
        let config = Config::read(|name| variables.get(name).cloned()).expect("the variables are complete");
        let engine = Database::memory().expect("the engine starts");
        let client = storage::connect(&config.aws, DirectClient::new(engine.clone()));
        stack.tables.retain(|table| table.name == config.tables.wallets);
        runtime::new()
            .block_on(tables::create(&client, &stack.tables))
            .expect("the engine creates the table");
        Self { config: Arc::new(config), engine }
    }

    /// Returns an app that calls the engine over the network of `dynamodb`.
    pub fn app(&self, dynamodb: &DynamoDb, clock: VirtualClock, random: SeededRandom) -> App {
        /// Numbers the apps of this process.
        static APPS: AtomicU64 = AtomicU64::new(0);
        let config = Arc::clone(&self.config);
        // The SDK limits the retries of a process for each region. Each app has its own region, so that schedules do not
        // affect each other.
        let region = format!("bank-{}", APPS.fetch_add(1, Ordering::Relaxed));
        let client = storage::connect(&Aws { region, ..config.aws.clone() }, dynamodb.http_client());
        let random: Arc<dyn Random> = Arc::new(random);
        App {
            store: Store::new(client, config.tables.clone()),
            clock: Arc::new(clock) as Arc<dyn Clock>,
            sms: Arc::new(Console),
            chat: Arc::new(LocalChat::new(config.chat.server.clone(), Arc::clone(&random))),
            random,
            web: Arc::new(NoWeb),
            catalog_cache: Arc::default(),
            config,
        }
    }
}
