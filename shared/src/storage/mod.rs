//! DynamoDB: keys, items, conditional writes. One file or folder per table.
//!
//! Nothing of DynamoDB leaves this module: a failed condition becomes a word of the domain at the call
//! that set the condition, and every other failure becomes [`StoreError`].

mod batch;
pub mod catalog;
mod client;
pub mod directory;
pub mod keys;
pub mod members;
pub mod meter;
pub mod pages;
pub mod predictions;
mod register;
mod retry;
pub mod rooms;
pub mod settlements;
pub mod sms_logs;
pub mod stream;
pub mod tallies;
pub mod users;
pub mod wallets;

use std::any::type_name;
use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::operation::update_item::UpdateItemError;
use aws_sdk_dynamodb::types::AttributeValue;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use client::connect;
use keys::Key;
pub use retry::Retry;

use crate::config::Tables;

type Item = HashMap<String, AttributeValue>;

/// The tables, through the AWS SDK.
#[derive(Debug, Clone)]
pub struct Store {
    client: Client,
    tables: Tables,
}

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// DynamoDB throttled the call, failed or did not respond, after the SDK's retries. The caller may retry
    /// later.
    #[error("{operation} failed after retries ({code})")]
    Busy { operation: &'static str, code: String },
    /// Other writers kept changing `what`, or DynamoDB kept throttling it, until our retries were exhausted.
    /// The caller may retry later.
    #[error("contention on {what}")]
    Contended { what: &'static str },
    /// Our mistake: a missing table, a missing permission, an invalid expression.
    #[error("{operation} is misconfigured: {code}")]
    Misconfigured { operation: &'static str, code: String },
    /// An item that does not read back as what it should be. Serde's own words are left out: they quote
    /// values.
    #[error("an item could not be read as {0}")]
    Unreadable(&'static str),
}

impl StoreError {
    /// Sorts an SDK error. Messages are dropped: the store repeats values in some of them.
    fn from_sdk<E: ProvideErrorMetadata>(operation: &'static str, error: &SdkError<E>) -> Self {
        let code = error.code().unwrap_or(match error {
            SdkError::TimeoutError(_) => "Timeout",
            SdkError::DispatchFailure(_) => "DispatchFailure",
            SdkError::ConstructionFailure(_) => "ConstructionFailure",
            _ => "Unknown",
        });
        let busy = match error {
            SdkError::TimeoutError(_) | SdkError::DispatchFailure(_) | SdkError::ResponseError(_) => true,
            SdkError::ServiceError(service) => {
                client::CONTENTION.contains(&code) || service.raw().status().is_server_error()
            }
            _ => false,
        };
        let code = code.to_owned();
        if busy { Self::Busy { operation, code } } else { Self::Misconfigured { operation, code } }
    }
}

impl Store {
    #[must_use]
    pub fn new(client: Client, tables: Tables) -> Self {
        Self { client, tables }
    }

    /// One cheap read: proves that the store answers, and opens the connection.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.get::<serde_json::Value>(&self.tables.users, keys::nothing(), Reads::Eventual).await.map(|_| ())
    }

    /// `Ok(None)` where there is no such item; the caller decides what that means.
    async fn get<T: DeserializeOwned>(
        &self,
        table: &str,
        key: Key,
        reads: Reads,
    ) -> Result<Option<T>, StoreError> {
        self.get_item(table, key, reads).await?.map(from_item).transpose()
    }

    async fn get_item(&self, table: &str, key: Key, reads: Reads) -> Result<Option<Item>, StoreError> {
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

/// How true a read has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// Half a unit; may be some milliseconds old.
    Eventual,
    /// A whole unit; sees every write that was answered.
    Consistent,
}

fn from_item<T: DeserializeOwned>(item: Item) -> Result<T, StoreError> {
    serde_dynamo::from_item(item).map_err(|_| StoreError::Unreadable(type_name::<T>()))
}

/// The item at `key` with `value`'s fields.
fn to_item<T: Serialize>(key: Key, value: &T) -> Result<Item, StoreError> {
    let mut item: Item =
        serde_dynamo::to_item(value).map_err(|_| StoreError::Unreadable(type_name::<T>()))?;
    item.extend(Item::from(key));
    Ok(item)
}

fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

fn number(value: impl std::fmt::Display) -> AttributeValue {
    AttributeValue::N(format!("{value}"))
}

/// The item as it was, where an update's condition refused it; empty where there was none.
fn refused_item(error: &SdkError<UpdateItemError>) -> Option<Item> {
    match error.as_service_error()? {
        UpdateItemError::ConditionalCheckFailedException(refused) => {
            Some(refused.item().cloned().unwrap_or_default())
        }
        _ => None,
    }
}

/// Whether a write was made: not, where its condition refused it. For writes whose refusal needs no reason.
fn made<T, E: ProvideErrorMetadata>(
    operation: &'static str,
    written: Result<T, SdkError<E>>,
) -> Result<bool, StoreError> {
    match written {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some("ConditionalCheckFailedException") => Ok(false),
        Err(error) => Err(StoreError::from_sdk(operation, &error)),
    }
}

/// Every item that a query finds, page after page.
async fn every_item(query: QueryFluentBuilder) -> Result<Vec<Item>, StoreError> {
    let found = query.into_paginator().items().send().collect::<Result<Vec<_>, _>>().await;
    found.map_err(|error| StoreError::from_sdk("Query", &error))
}

/// The item as it was, where the condition of a transaction's write at `index` refused it.
fn refused_write(error: &SdkError<TransactWriteItemsError>, index: usize) -> Option<Item> {
    match error.as_service_error()? {
        TransactWriteItemsError::TransactionCanceledException(cancelled) => {
            let reason = cancelled.cancellation_reasons().get(index)?;
            let refused = reason.code() == Some("ConditionalCheckFailed");
            refused.then(|| reason.item().cloned().unwrap_or_default())
        }
        _ => None,
    }
}

impl From<BuildError> for StoreError {
    /// A request that lacks a part that DynamoDB needs: a mistake in this module.
    fn from(_: BuildError) -> Self {
        Self::Misconfigured { operation: "build", code: "IncompleteRequest".into() }
    }
}
