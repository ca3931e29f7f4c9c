//! The store, and the reads that all tables have in common.

use std::sync::Arc;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use chrono::{DateTime, Utc};
use serde::de::DeserializeOwned;

use super::client::Call as _;
use super::error::StoreError;
use super::item::{Item, Key, from_item};
use super::item_cache::ItemCache;
use super::keys;
use crate::config::Tables;

/// Access to all tables through one DynamoDB client. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    pub(super) client: Client,
    pub(super) tables: Tables,
    /// `None` if nothing is cached.
    recent: Option<Arc<ItemCache>>,
}

/// The consistency of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Eventually consistent: costs half a read unit per 4 KB; the item may be some milliseconds out of date.
    Eventual,
    /// Strongly consistent: costs a whole read unit per 4 KB; sees every acknowledged write.
    Consistent,
}

impl Store {
    /// Creates a store that reads and writes `tables` through `client`.
    #[must_use]
    pub fn new(client: Client, tables: Tables) -> Self {
        Self { client, tables, recent: None }
    }

    /// Caches items that many requests read: the heads of boards and settlements. Then a leaderboard can be two seconds older than
    /// the last build.
    ///
    /// Each request for a board reads its head first, so all readers of a popular board would read the same item. A partition
    /// of DynamoDB takes 3,000 read units a second.
    #[must_use]
    pub fn caching_recent_items(self, now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self { recent: Some(Arc::new(ItemCache::new(now))), ..self }
    }

    /// Reads an item, eventually consistent. It may be two seconds old.
    pub(super) async fn recent_item(&self, table: &str, key: Key) -> Result<Option<Item>, StoreError> {
        if let Some(item) = self.recent.as_deref().and_then(|cache| cache.get(&key)) {
            return Ok(Some(item));
        }
        let found = self.get_item(table, key.clone(), Reads::Eventual).await?;
        if let Some((cache, item)) = self.recent.as_deref().zip(found.as_ref()) {
            cache.put(key, item);
        }
        Ok(found)
    }

    /// Reads an item, strongly consistent, and caches it.
    pub(super) async fn current_item(&self, table: &str, key: Key) -> Result<Option<Item>, StoreError> {
        let found = self.get_item(table, key.clone(), Reads::Consistent).await?;
        if let Some((cache, item)) = self.recent.as_deref().zip(found.as_ref()) {
            cache.put(key, item);
        }
        Ok(found)
    }

    /// Reads a key that does not exist, to open the connection and to check that the `users` table responds.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.get_item(&self.tables.users, keys::never_written(), Reads::Eventual).await.map(|_| ())
    }

    /// Reads and deserializes the item stored under `key`. Returns `None` if there is no such item.
    pub(super) async fn get<T: DeserializeOwned>(
        &self,
        table: &str,
        key: Key,
        reads: Reads,
    ) -> Result<Option<T>, StoreError> {
        self.get_item(table, key, reads).await?.map(from_item).transpose()
    }

    /// Reads an item that may be new: a strongly consistent read follows if an eventually consistent read finds
    /// nothing.
    pub(super) async fn find<T: DeserializeOwned>(
        &self,
        table: &str,
        key: Key,
    ) -> Result<Option<T>, StoreError> {
        match self.get(table, key.clone(), Reads::Eventual).await? {
            None => self.get(table, key, Reads::Consistent).await,
            found => Ok(found),
        }
    }

    /// Reads the item stored under `key`. Returns `None` if there is no such item.
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
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("GetItem", &error))?;
        Ok(found.item)
    }
}

impl Store {
    /// Deletes an item, if it exists.
    pub(super) async fn delete_item(&self, table: &str, key: Key) -> Result<(), StoreError> {
        self.client
            .delete_item()
            .table_name(table)
            .set_key(Some(key.into()))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("DeleteItem", &error))?;
        Ok(())
    }
}

/// Reads all pages of a query and returns all items.
pub(super) async fn every_item(query: QueryFluentBuilder) -> Result<Vec<Item>, StoreError> {
    let found = query.into_paginator().items().send().collect::<Result<Vec<_>, _>>().await;
    found.map_err(|error| StoreError::from_sdk("Query", &error))
}
