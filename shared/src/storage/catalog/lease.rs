use chrono::{DateTime, Utc};

use super::super::client::Call as _;
use crate::storage::condition::condition_held;
use crate::storage::error::StoreError;
use crate::storage::item::{number, text};
use crate::storage::keys;
use crate::storage::store::Store;

impl Store {
    /// Takes the lease of `feed` until a time, unless another run holds it. Returns whether `holder` has the lease.
    ///
    /// The lease saves work that two runs would do twice. It protects no data: it can end while its holder still works, and
    /// every write of an import is safe in overlapping runs.
    pub async fn take_feed_lease(
        &self,
        holder: &str,
        now: DateTime<Utc>,
        until: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.catalog)
            .set_item(Some(keys::feed_lease().into()))
            .item("holder", text(holder))
            .item("held_until", number(until.timestamp_millis()))
            // The SDK retries the write if its response is lost. `holder = :holder` lets the retry succeed.
            .condition_expression("attribute_not_exists(pk) OR held_until <= :now OR holder = :holder")
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .expression_attribute_values(":holder", text(holder))
            .call()
            .await;
        condition_held("PutItem", put)
    }

    /// Gives the lease back, if `holder` still has it.
    pub async fn release_feed_lease(&self, holder: &str) -> Result<(), StoreError> {
        let deleted = self
            .client
            .delete_item()
            .table_name(&self.tables.catalog)
            .set_key(Some(keys::feed_lease().into()))
            .condition_expression("holder = :holder")
            .expression_attribute_values(":holder", text(holder))
            .call()
            .await;
        condition_held("DeleteItem", deleted).map(|_| ())
    }

    /// Ends the lease, whoever holds it. For a stack on one machine, in which no run survives a restart, and for tests.
    pub async fn end_feed_lease(&self) -> Result<(), StoreError> {
        self.client
            .delete_item()
            .table_name(&self.tables.catalog)
            .set_key(Some(keys::feed_lease().into()))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("DeleteItem", &error))?;
        Ok(())
    }
}
