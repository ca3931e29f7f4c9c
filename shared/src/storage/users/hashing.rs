//! Moves username items to hashed keys. Earlier versions had the plain username in the key.

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::types::{AttributeValue, Delete, TransactWriteItem, Update};
use serde::Deserialize;

use super::super::client::Call as _;
use super::names::NameOwner;
use crate::domain::UserId;
use crate::storage::condition::{condition_held, item_that_failed_in_transaction};
use crate::storage::error::StoreError;
use crate::storage::item::{from_item, number, text};
use crate::storage::keys::{self, Key};
use crate::storage::store::{Reads, Store};

/// The result of one step of the move.
#[derive(Debug, Default)]
pub struct NamesMoved {
    pub moved: usize,
    /// The users whose username another user has taken since.
    pub conflicts: Vec<UserId>,
    /// Where the next step begins. `None` if this was the last one.
    pub next: Option<Key>,
}

#[derive(Deserialize)]
struct Found {
    pk: String,
    #[serde(flatten)]
    owner: NameOwner,
}

impl Store {
    /// Moves the items in one page of the table.
    pub async fn hash_names(&self, from: Option<Key>) -> Result<NamesMoved, StoreError> {
        let page = self
            .client
            .scan()
            .table_name(&self.tables.users)
            .filter_expression("begins_with(pk, :name)")
            .expression_attribute_values(":name", text("name#"))
            .set_exclusive_start_key(from.map(HashMap::from))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("Scan", &error))?;
        let mut result =
            NamesMoved { next: page.last_evaluated_key.map(from_item).transpose()?, ..NamesMoved::default() };
        for item in page.items.unwrap_or_default() {
            let Found { pk, owner } = from_item(item)?;
            let Some(name) = keys::unhashed_name(&pk) else { continue };
            let mut owner = owner;
            if let Some(user) = owner.user_id.or(owner.held_by)
                && self.user(user, Reads::Consistent).await?.is_none()
            {
                // The user has deleted the account. The username stays reserved.
                owner = NameOwner::default();
            }
            if let Some(user) = owner.user_id {
                self.add_former_username(user, name).await?;
            }
            if self.move_name(name, &owner).await? {
                result.moved += 1;
            } else {
                result.conflicts.extend(owner.user_id);
            }
        }
        Ok(result)
    }

    /// Moves one item. Returns false if another user has taken the username.
    async fn move_name(&self, name: &str, owner: &NameOwner) -> Result<bool, StoreError> {
        // An update keeps what a hashed item of the same user has already.
        let mut update = Update::builder()
            .table_name(&self.tables.users)
            .set_key(Some(keys::reserved_name(name).into()))
            .expression_attribute_values(":yes", AttributeValue::Bool(true));
        // An update must set something, also for the username of a deleted user.
        let mut set = "SET moved = :yes".to_owned();
        let mut condition = "attribute_not_exists(pk)".to_owned();
        for (attribute, user) in [("user_id", owner.user_id), ("held_by", owner.held_by)] {
            let Some(user) = user else { continue };
            let _ = write!(set, ", {attribute} = :{attribute}");
            let _ = write!(condition, " OR user_id = :{attribute} OR held_by = :{attribute}");
            update = update.expression_attribute_values(format!(":{attribute}"), number(user));
        }
        let update = update.update_expression(set).condition_expression(condition).build()?;
        let old = Key { pk: format!("name#{name}"), sk: keys::reserved_name(name).sk };
        let delete = Delete::builder().table_name(&self.tables.users).set_key(Some(old.into())).build()?;
        let writes = vec![
            TransactWriteItem::builder().update(update).build(),
            TransactWriteItem::builder().delete(delete).build(),
        ];
        match self.client.transact_write_items().set_transact_items(Some(writes)).call().await {
            Ok(_) => Ok(true),
            Err(error) if item_that_failed_in_transaction(&error, 0).is_some() => Ok(false),
            Err(error) => Err(StoreError::from_sdk("TransactWriteItems", &error)),
        }
    }

    /// Adds a username to the former ones of its user, unless it is the current one. Earlier versions did not store former usernames.
    async fn add_former_username(&self, user: UserId, name: &str) -> Result<(), StoreError> {
        let added = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::profile(user).into()))
            .update_expression(
                "SET former_usernames = list_append(if_not_exists(former_usernames, :none), :names)",
            )
            .condition_expression(
                "attribute_exists(pk) AND username <> :name AND NOT contains(former_usernames, :name)",
            )
            .expression_attribute_values(":none", AttributeValue::L(Vec::new()))
            .expression_attribute_values(":names", AttributeValue::L(vec![text(name)]))
            .expression_attribute_values(":name", text(name))
            .call()
            .await;
        condition_held("UpdateItem", added).map(|_| ())
    }
}
