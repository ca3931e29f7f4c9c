use std::time::Duration;

use aws_sdk_dynamodb::types::KeysAndAttributes;

use super::{Item, Reads, Store, StoreError};

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
        for attempt in 0..8 {
            if wanted.is_empty() {
                return Ok(found);
            }
            if attempt > 0 {
                // Unprocessed keys were throttled: wait 10 ms, then twice as long each time.
                tokio::time::sleep(Duration::from_millis(5 << attempt)).await;
            }
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
        }
        Err(StoreError::Busy { operation: "BatchGetItem", code: "UnprocessedKeys".into() })
    }
}
