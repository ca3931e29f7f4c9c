use dynoxide::Database;
use touchline::storage;
use touchline_stack::direct::DirectClient;
use touchline_stack::tables;

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
}
