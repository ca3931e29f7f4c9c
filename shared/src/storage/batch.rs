//! Batch reads and writes.

use std::time::Duration;

use aws_sdk_dynamodb::types::{KeysAndAttributes, WriteRequest};

use super::client::Call as _;
use super::conflict_retry::Retry;
use super::error::StoreError;
use super::item::Item;
use super::store::{Reads, Store};

impl Store {
    /// Reads the items at up to 100 keys and returns them in any order. Retries keys that DynamoDB left
    /// unprocessed.
    pub(super) async fn batch_get(
        &self,
        table: &str,
        keys: Vec<Item>,
        reads: Reads,
    ) -> Result<Vec<Item>, StoreError> {
        let mut found = Vec::with_capacity(keys.len());
        let mut unread = keys;
        let mut retry = Retry::doubling("batch read", 8, Duration::from_millis(10));
        if unread.is_empty() {
            return Ok(found);
        }
        loop {
            let keys = KeysAndAttributes::builder()
                .set_keys(Some(unread))
                .consistent_read(reads == Reads::Consistent)
                .build()?;
            let page = self
                .client
                .batch_get_item()
                .request_items(table, keys)
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("BatchGetItem", &error))?;
            found.extend(page.responses.into_iter().flatten().flat_map(|(_, items)| items));
            unread = page.unprocessed_keys.into_iter().flatten().flat_map(|(_, keys)| keys.keys).collect();
            if unread.is_empty() {
                return Ok(found);
            }
            retry.again().await?;
        }
    }

    /// Makes up to 25 writes to a table. Retries writes that DynamoDB left unprocessed.
    pub(super) async fn batch_write(
        &self,
        table: &str,
        mut writes: Vec<WriteRequest>,
    ) -> Result<(), StoreError> {
        let mut retry = Retry::doubling("batch write", 8, Duration::from_millis(20));
        loop {
            let written = self
                .client
                .batch_write_item()
                .request_items(table, writes)
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("BatchWriteItem", &error))?;
            writes =
                written.unprocessed_items.and_then(|mut tables| tables.remove(table)).unwrap_or_default();
            if writes.is_empty() {
                return Ok(());
            }
            retry.again().await?;
        }
    }
}
