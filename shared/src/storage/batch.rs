use std::time::Duration;

use aws_sdk_dynamodb::types::KeysAndAttributes;

use super::{Item, Reads, Retry, Store, StoreError};

/// The wait before unprocessed keys are read again for the first time.
const FIRST_WAIT: Duration = Duration::from_millis(10);

impl Store {
    /// Items by key, in no particular order. Retries the keys that DynamoDB did not process.
    pub(super) async fn batch_get(
        &self,
        table: &str,
        keys: Vec<Item>,
        reads: Reads,
    ) -> Result<Vec<Item>, StoreError> {
        let mut found = Vec::with_capacity(keys.len());
        let mut wanted = keys;
        let mut retry = Retry::doubling("batch read", 8, FIRST_WAIT);
        while !wanted.is_empty() {
            let keys = KeysAndAttributes::builder()
                .set_keys(Some(wanted))
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
            wanted = page.unprocessed_keys.into_iter().flatten().flat_map(|(_, keys)| keys.keys).collect();
            if !wanted.is_empty() {
                retry.again().await?;
            }
        }
        Ok(found)
    }
}
