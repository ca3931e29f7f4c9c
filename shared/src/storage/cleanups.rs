//! Work that must be finished: one item for each piece of work, in one partition of the `users` table. The function `erasure`
//! gets a stream record when an item is stored, and reads the whole partition every minute.

use aws_sdk_dynamodb::types::{Put, TransactWriteItem};
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::client::Call as _;
use super::condition::condition_held;
use super::error::StoreError;
use super::item::{Item, from_item, number, readable, text, to_item};
use super::keys;
use super::store::{Store, every_item};
use crate::domain::cleanup::Work;

/// A piece of work as stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cleanup {
    #[serde(flatten)]
    pub work: Work,
    #[serde(with = "ts_milliseconds")]
    pub since: DateTime<Utc>,
}

/// Reads a piece of work from its item.
pub(super) fn read(item: Item) -> Result<Cleanup, StoreError> {
    from_item(item)
}

impl Store {
    /// Stores work.
    pub async fn save_cleanup(&self, work: &Work, now: DateTime<Utc>) -> Result<(), StoreError> {
        self.client
            .put_item()
            .table_name(&self.tables.users)
            .set_item(Some(cleanup_item(work, now)?))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        Ok(())
    }

    /// Returns the write that stores work together with the change that it follows from.
    pub(in crate::storage) fn cleanup_write(
        &self,
        work: &Work,
        now: DateTime<Utc>,
    ) -> Result<TransactWriteItem, StoreError> {
        let put =
            Put::builder().table_name(&self.tables.users).set_item(Some(cleanup_item(work, now)?)).build()?;
        Ok(TransactWriteItem::builder().put(put).build())
    }

    /// Reads all work that is not finished.
    pub async fn cleanups(&self) -> Result<Vec<Cleanup>, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.users)
            .key_condition_expression("pk = :cleanup")
            .expression_attribute_values(":cleanup", text(keys::CLEANUP));
        Ok(readable(every_item(query).await?))
    }

    /// Deletes finished work, unless newer work has replaced it.
    pub async fn finish_cleanup(&self, cleanup: &Cleanup) -> Result<(), StoreError> {
        let deleted = self
            .client
            .delete_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::cleanup(&cleanup.work).into()))
            .condition_expression("since = :since")
            .expression_attribute_values(":since", number(cleanup.since.timestamp_millis()))
            .call()
            .await;
        condition_held("DeleteItem", deleted).map(|_| ())
    }
}

fn cleanup_item(work: &Work, now: DateTime<Utc>) -> Result<Item, StoreError> {
    to_item(keys::cleanup(work), &Cleanup { work: work.clone(), since: now })
}
