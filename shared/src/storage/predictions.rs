//! The `predictions` table: so far, what is counted of each match.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Item, Reads, Store, StoreError, from_item, keys};

#[derive(Debug, Deserialize)]
struct Tally {
    event_id: u32,
    predictions: u64,
}

impl Store {
    /// How many predictions each of these matches has. At most 100 at once.
    pub async fn prediction_counts(&self, events: &[u32]) -> Result<BTreeMap<u32, u64>, StoreError> {
        let keys: Vec<Item> = events.iter().map(|event| keys::event_tally(*event).into()).collect();
        let mut counts = BTreeMap::new();
        for item in self.batch_get(&self.tables.predictions, keys, Reads::Eventual).await? {
            let Tally { event_id, predictions } = from_item(item)?;
            counts.insert(event_id, predictions);
        }
        Ok(counts)
    }
}
