//! DynamoDB items, their primary keys and attribute values.

use std::any::type_name;
use std::collections::HashMap;
use std::fmt::Display;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::StoreError;

/// An item: attribute values by attribute name.
pub(super) type Item = HashMap<String, AttributeValue>;

/// A primary key: the partition key and the sort key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
pub struct Key {
    pub pk: String,
    pub sk: String,
}

impl From<Key> for Item {
    fn from(key: Key) -> Self {
        [("pk".to_owned(), text(key.pk)), ("sk".to_owned(), text(key.sk))].into()
    }
}

/// Deserializes an item into a `T`.
pub(super) fn from_item<T: DeserializeOwned>(item: Item) -> Result<T, StoreError> {
    serde_dynamo::from_item(item).map_err(|_| StoreError::Unreadable(type_name::<T>()))
}

/// Deserializes items. Logs those that cannot be read, and leaves them out.
pub(super) fn readable<T: DeserializeOwned>(items: Vec<Item>) -> Vec<T> {
    let read = |item: Item| {
        let [pk, sk] = ["pk", "sk"].map(|name| item.get(name).cloned());
        from_item(item).inspect_err(|error| tracing::error!(%error, ?pk, ?sk, "left out an item"))
    };
    items.into_iter().filter_map(|item| read(item).ok()).collect()
}

/// Builds the item that stores the fields of `value` under `key`.
pub(super) fn to_item<T: Serialize>(key: Key, value: &T) -> Result<Item, StoreError> {
    let mut item: Item =
        serde_dynamo::to_item(value).map_err(|_| StoreError::Unreadable(type_name::<T>()))?;
    item.extend(Item::from(key));
    Ok(item)
}

/// Builds a string attribute.
pub(super) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

/// Builds a number attribute.
pub(super) fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(format!("{value}"))
}
