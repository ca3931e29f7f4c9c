//! Batch reads.

use std::time::Duration;

use aws_sdk_dynamodb::types::KeysAndAttributes;

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
                .send()
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
}
