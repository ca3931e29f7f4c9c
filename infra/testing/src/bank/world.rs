use std::collections::BTreeMap;
use std::sync::Arc;

use dynoxide::Database;
use touchline::App;
use touchline::config::Config;
use touchline::ports::chat::LocalChat;
use touchline::ports::clock::Clock;
use touchline::ports::random::Random;
use touchline::ports::sms::Console;
use touchline::ports::web::NoWeb;
use touchline::storage::{self, Store};
use touchline_stack::{TEMPLATE, Template, tables};

use super::network::Network;
use super::sabotage::Sabotage;
use crate::{SeededRandom, TestClock};

/// An app that reaches its store over a simulated network. The store is in memory and starts empty.
#[derive(Debug)]
pub struct World {
    pub app: App,
}

impl World {
    pub async fn new(sabotage: Sabotage) -> Self {
        let stack = Template::parse(TEMPLATE)
            .and_then(|template| {
                template.resolve(&BTreeMap::from([("AWS::StackName".into(), "bank".into())]))
            })
            .expect("the template is valid");
        let mut variables = stack.functions[0].environment.clone();
        for (name, value) in [
            ("ENVIRONMENT", "testing"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "bank"),
            ("AWS_SECRET_ACCESS_KEY", "bank"),
            ("CODE_PEPPER", "a pepper for the bank"),
            ("SMS_PROVIDER", "console"),
            ("AWS_ENDPOINT_URL_DYNAMODB", "http://bank.invalid"),
        ] {
            variables.insert(name.into(), value.into());
        }
        let config = Config::read(|name| variables.get(name).cloned()).expect("the variables are complete");
        let store = Database::memory().expect("the embedded store starts");
        let client = storage::connect(&config.aws, Network::new(store, sabotage));
        let wallets: Vec<_> =
            stack.tables.into_iter().filter(|table| table.name == config.tables.wallets).collect();
        tables::create(&client, &wallets).await.expect("the store creates the table");
        let random: Arc<dyn Random> = Arc::new(SeededRandom::default());
        let app = App {
            store: Store::new(client, config.tables.clone()),
            clock: Arc::new(TestClock::default()) as Arc<dyn Clock>,
            sms: Arc::new(Console),
            chat: Arc::new(LocalChat::new(config.chat.server.clone(), Arc::clone(&random))),
            random,
            web: Arc::new(NoWeb),
            catalog_cache: Arc::default(),
            config: Arc::new(config),
        };
        Self { app }
    }
}
