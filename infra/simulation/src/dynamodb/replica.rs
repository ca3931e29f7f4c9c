//! A second copy of all tables. It gets every change a little later, and eventually consistent reads use it.

use std::collections::VecDeque;

use dynoxide::Database;
use serde_json::json;
use tokio::time::Instant;
use touchline_stack::direct::{self, RequestBody};

use super::changes::Change;

pub struct Replica {
    pub database: Database,
    /// The changes that have not arrived yet, with the time at which they arrive. The times never decrease.
    pending: VecDeque<(Instant, Change)>,
}

impl Replica {
    pub fn new(database: Database) -> Self {
        Self { database, pending: VecDeque::new() }
    }

    /// Adds a change that arrives at `at`, but not before the changes that were added earlier.
    pub fn add(&mut self, at: Instant, change: Change) {
        let at = self.pending.back().map_or(at, |(last, _)| at.max(*last));
        self.pending.push_back((at, change));
    }

    /// Applies the changes that have arrived by now.
    pub fn catch_up(&mut self, now: Instant) {
        while let Some((_, change)) = self.pending.pop_front_if(|(at, _)| *at <= now) {
            let key = json!({ "pk": { "S": change.pk }, "sk": { "S": change.sk } });
            let (operation, request) = match &change.new {
                Some(item) => ("PutItem", json!({ "TableName": change.table, "Item": item })),
                None => ("DeleteItem", json!({ "TableName": change.table, "Key": key })),
            };
            let response = direct::execute(&self.database, operation, RequestBody::Json(&request));
            assert!(response.status().is_success(), "the replica accepts every item: {response:?}");
        }
    }
}
