//! The store, and the reads that every table shares.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use serde::de::DeserializeOwned;

use super::error::StoreError;
use super::item::{Item, Key, from_item};
use super::keys;
use crate::config::Tables;

/// All tables, through one DynamoDB client. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pub(super) client: Client,
    pub(super) tables: Tables,
}

/// The consistency of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Eventually consistent: half a read unit, may be some milliseconds stale.
    Eventual,
    /// Strongly consistent: a whole read unit, sees every acknowledged write.
    Consistent,
}

impl Store {
    /// A store over `client`.
    #[must_use]
    pub fn new(client: Client, tables: Tables) -> Self {
        Self { client, tables }
    }

    /// Reads a key that does not exist, to check the table and to open the connection.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.get_item(&self.tables.users, keys::never_written(), Reads::Eventual).await.map(|_| ())
    }

    /// The item at `key`, deserialized. `None` if there is no item.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        table: &str,
        key: Key,
        reads: Reads,
    ) -> Result<Option<T>, StoreError> {
        self.get_item(table, key, reads).await?.map(from_item).transpose()
    }

    /// The item at `key`.
    pub(super) async fn get_item(
        &self,
        table: &str,
        key: Key,
        reads: Reads,
    ) -> Result<Option<Item>, StoreError> {
        let found = self
            .client
            .get_item()
            .table_name(table)
            .set_key(Some(key.into()))
            .consistent_read(reads == Reads::Consistent)
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("GetItem", &error))?;
        Ok(found.item)
    }
}

/// All items that a query matches, over all pages.
pub(super) async fn every_item(query: QueryFluentBuilder) -> Result<Vec<Item>, StoreError> {
    let found = query.into_paginator().items().send().collect::<Result<Vec<_>, _>>().await;
    found.map_err(|error| StoreError::from_sdk("Query", &error))
}
