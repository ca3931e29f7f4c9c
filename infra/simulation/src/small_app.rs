//! The app of a small world, which has no homeserver and sends no text messages.

use std::sync::Arc;

use touchline::App;
use touchline::config::Config;
use touchline::ports::chat::LocalChat;
use touchline::ports::random::Random;
use touchline::ports::sms::Console;
use touchline::ports::web::NoWeb;
use touchline::storage::{self, Store};
use touchline_testing::SeededRandom;

use crate::clock::VirtualClock;
use crate::dynamodb::DynamoDb;

/// Returns an app that calls the engine over the network of `dynamodb`.
pub fn small_app(config: Arc<Config>, dynamodb: &DynamoDb, clock: VirtualClock, random: SeededRandom) -> App {
    let client = storage::connect(&config.aws, dynamodb.http_client());
    let random: Arc<dyn Random> = Arc::new(random);
    App {
        store: Store::new(client, config.tables.clone()),
        clock: Arc::new(clock),
        sms: Arc::new(Console),
        chat: Arc::new(LocalChat::new(config.chat.server.clone(), Arc::clone(&random))),
        random,
        web: Arc::new(NoWeb),
        catalog_cache: Arc::default(),
        config,
    }
}
