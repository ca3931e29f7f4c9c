//! Direct access to the store behind the API, for tests that read or change what the API does not expose.

use std::collections::HashMap;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_dynamodb::{Client, Config};

pub type Item = HashMap<String, AttributeValue>;

#[derive(Debug)]
pub struct StoreUnderTest {
    pub client: Client,
}

impl StoreUnderTest {
    pub fn connect(url: &str) -> Self {
        let config = Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("eu-west-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "tests"))
            .endpoint_url(url)
            .http_client(touchline::ports::aws_http::client())
            .build();
        Self { client: Client::from_conf(config) }
    }

    /// Returns the names of the tables with this role. The table of the role `users` has a name that ends with
    /// `-users`. There are several such tables if other test runs use the same store.
    pub async fn tables(&self, role: &str) -> Vec<String> {
        let suffix = format!("-{role}");
        let all = self.client.list_tables().send().await.unwrap();
        all.table_names().iter().filter(|table| table.ends_with(&suffix)).cloned().collect()
    }

    /// Returns the items with this partition key and this prefix of the sort key, each with its table's name.
    pub async fn find(&self, role: &str, pk: &str, sk_prefix: &str) -> Vec<(String, Item)> {
        let mut found = Vec::new();
        for table in self.tables(role).await {
            let query = self
                .client
                .query()
                .table_name(&table)
                .key_condition_expression("pk = :pk AND begins_with(sk, :sk)")
                .expression_attribute_values(":pk", AttributeValue::S(pk.into()))
                .expression_attribute_values(":sk", AttributeValue::S(sk_prefix.into()))
                .consistent_read(true);
            let items = query.send().await.unwrap().items.unwrap_or_default();
            found.extend(items.into_iter().map(|item| (table.clone(), item)));
        }
        found
    }

    /// Returns all items of the tables with this role.
    pub async fn all(&self, role: &str) -> Vec<Item> {
        let mut found = Vec::new();
        for table in self.tables(role).await {
            let scan =
                self.client.scan().table_name(&table).consistent_read(true).into_paginator().items().send();
            found.extend(scan.collect::<Result<Vec<_>, _>>().await.unwrap());
        }
        found
    }

    /// Deletes an item.
    pub async fn delete(&self, table: &str, item: &Item) {
        let delete = self.client.delete_item().table_name(table);
        delete.key("pk", item["pk"].clone()).key("sk", item["sk"].clone()).send().await.unwrap();
    }

    /// Sets an attribute of an item that exists.
    pub async fn set(&self, table: &str, item: &Item, attribute: &str, value: AttributeValue) {
        let update = self
            .client
            .update_item()
            .table_name(table)
            .key("pk", item["pk"].clone())
            .key("sk", item["sk"].clone())
            .update_expression("SET #attribute = :value")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_names("#attribute", attribute)
            .expression_attribute_values(":value", value);
        update.send().await.unwrap();
    }
}

/// Reads a number attribute of an item.
#[track_caller]
pub fn number(item: &Item, attribute: &str) -> i64 {
    item[attribute].as_n().unwrap().parse().unwrap()
}
