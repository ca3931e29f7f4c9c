use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{Put, TransactWriteItem, Update};
use serde::Deserialize;

use super::super::client::Call as _;
use crate::domain::catalog::{Key, Kind};
use crate::storage::condition::{condition_held, item_that_failed_in_transaction};
use crate::storage::conflict_retry::Retry;
use crate::storage::error::StoreError;
use crate::storage::item::{Item, from_item, number};
use crate::storage::keys;
use crate::storage::store::{Reads, Store};

/// The maximum number of ids that one transaction assigns. A transaction has at most 100 writes, and one of
/// them updates the counter.
const IDS_PER_TRANSACTION: usize = 99;

impl Store {
    /// Reads the ids that were assigned to `wanted` keys. Keys without an id are left out.
    pub async fn known_ids(&self, kind: Kind, wanted: &[Key]) -> Result<BTreeMap<Key, u32>, StoreError> {
        #[derive(Deserialize)]
        struct Known {
            id: u32,
            key: Key,
        }
        let keys: Vec<Item> = wanted.iter().map(|key| keys::catalog_external(kind, *key).into()).collect();
        let mut known = BTreeMap::new();
        for batch in keys.chunks(100) {
            for item in self.batch_get(&self.tables.catalog, batch.to_vec(), Reads::Consistent).await? {
                let Known { id, key } = from_item(item)?;
                known.insert(key, id);
            }
        }
        Ok(known)
    }

    /// Assigns the next free ids above `above` to the keys that have no id yet. Returns the ids of all
    /// `wanted` keys. Each transaction writes the new ids together with the counter, so a crash leaves no gap
    /// in the ids. A retry after a crash assigns the ids that the crashed run would have assigned.
    pub async fn assign_ids(
        &self,
        kind: Kind,
        wanted: &[Key],
        above: u32,
    ) -> Result<BTreeMap<Key, u32>, StoreError> {
        let mut assigned = self.known_ids(kind, wanted).await?;
        let mut retry = Retry::immediate("catalog ids", 10);
        loop {
            let missing: Vec<Key> = wanted
                .iter()
                .filter(|key| !assigned.contains_key(key))
                .copied()
                .take(IDS_PER_TRANSACTION)
                .collect();
            if missing.is_empty() {
                return Ok(assigned);
            }
            let last = self.last_id(kind).await?;
            let first = last.unwrap_or(0).max(above) + 1;
            let ids: Vec<(Key, u32)> = missing.iter().copied().zip(first..).collect();
            let end = ids.last().map_or(first, |(_, id)| *id);
            let mut writes = vec![self.counter_write(kind, last, end)?];
            for (key, id) in &ids {
                let put = Put::builder()
                    .table_name(&self.tables.catalog)
                    .set_item(Some(keys::catalog_external(kind, *key).into()))
                    .item("id", number(id))
                    .item("key", number(key.0))
                    .condition_expression("attribute_not_exists(pk)")
                    .build()?;
                writes.push(TransactWriteItem::builder().put(put).build());
            }
            match self.client.transact_write_items().set_transact_items(Some(writes)).call().await {
                Ok(_) => assigned.extend(ids),
                // A concurrent import changed the counter or assigned an id to one of the keys.
                Err(error)
                    if (0..=missing.len())
                        .any(|at| item_that_failed_in_transaction(&error, at).is_some()) =>
                {
                    retry.again().await?;
                    assigned.extend(self.known_ids(kind, &missing).await?);
                }
                Err(error) => return Err(StoreError::from_sdk("TransactWriteItems", &error)),
            }
        }
    }

    /// Removes the assignment of `id` to `key`, because a row of another source has this id. The next import
    /// assigns another id to the key.
    pub async fn release_id(&self, kind: Kind, key: Key, id: u32) -> Result<(), StoreError> {
        let released = self
            .client
            .delete_item()
            .table_name(&self.tables.catalog)
            .set_key(Some(keys::catalog_external(kind, key).into()))
            .condition_expression("id = :id")
            .expression_attribute_values(":id", number(id))
            .call()
            .await;
        condition_held("DeleteItem", released).map(|_| ())
    }

    async fn last_id(&self, kind: Kind) -> Result<Option<u32>, StoreError> {
        #[derive(Deserialize)]
        struct Counter {
            last_id: u32,
        }
        let counter: Option<Counter> =
            self.get(&self.tables.catalog, keys::catalog_counter(kind), Reads::Consistent).await?;
        Ok(counter.map(|counter| counter.last_id))
    }

    fn counter_write(&self, kind: Kind, from: Option<u32>, to: u32) -> Result<TransactWriteItem, StoreError> {
        let update = Update::builder()
            .table_name(&self.tables.catalog)
            .set_key(Some(keys::catalog_counter(kind).into()))
            .update_expression("SET last_id = :to")
            .expression_attribute_values(":to", number(to));
        let update = match from {
            None => update.condition_expression("attribute_not_exists(pk)"),
            Some(from) => update
                .condition_expression("last_id = :from")
                .expression_attribute_values(":from", number(from)),
        };
        Ok(TransactWriteItem::builder().update(update.build()?).build())
    }
}
