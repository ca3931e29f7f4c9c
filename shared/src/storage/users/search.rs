//! The search for users: an item for each username, sorted by username.
//!
//! The transaction that gives a user a username also writes its item. The items of deleted users are deleted by `erasure`. Until
//! then, and if a previous version of a function has renamed a user, an item can have a username that its user does not have
//! any more. So readers compare the username with the profile.

use std::collections::{HashMap, HashSet};

use aws_sdk_dynamodb::types::{Delete, Put, TransactWriteItem, Update};
use serde::Deserialize;

use super::super::client::Call as _;
use crate::domain::username::UsernamePrefix;
use crate::domain::{UserId, Username};
use crate::storage::condition::item_that_failed_in_transaction;
use crate::storage::error::StoreError;
use crate::storage::item::{Item, from_item, number, text};
use crate::storage::keys::{self, Key};
use crate::storage::store::{Reads, Store};

/// A username that a search has found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FoundUsername {
    #[serde(rename = "sk")]
    pub username: Username,
    pub user_id: UserId,
}

/// The result of one step of the indexing of existing users.
#[derive(Debug, Default)]
pub struct UsernamesIndexed {
    pub indexed: usize,
    /// Where the next step begins. `None` if this was the last one.
    pub next: Option<Key>,
}

/// Returns the item of a username.
fn search_item(name: &Username, user: UserId) -> Item {
    let mut item: Item = keys::searched_username(name).into();
    item.insert("user_id".into(), number(user));
    item
}

impl Store {
    /// Finds up to `limit` usernames with this beginning, after the username `after`, in their order. Reads one
    /// partition. Also returns whether more follow. Eventually consistent.
    pub async fn search_usernames(
        &self,
        prefix: &UsernamePrefix,
        after: Option<&Username>,
        limit: usize,
    ) -> Result<(Vec<FoundUsername>, bool), StoreError> {
        let page = self
            .client
            .query()
            .table_name(&self.tables.users)
            .key_condition_expression("pk = :partition AND begins_with(sk, :prefix)")
            .expression_attribute_values(":partition", text(keys::username_search(prefix.as_str())))
            .expression_attribute_values(":prefix", text(prefix.as_str()))
            .set_exclusive_start_key(after.map(|after| keys::searched_username(after).into()))
            .limit(i32::try_from(limit + 1).unwrap_or(i32::MAX))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("Query", &error))?;
        let items = page.items.unwrap_or_default();
        let has_more = items.len() > limit;
        let found = items.into_iter().take(limit).map(from_item).collect::<Result<_, _>>()?;
        Ok((found, has_more))
    }

    /// Returns which of up to 100 users have blocked `user`. Eventually consistent.
    pub async fn blockers(&self, user: UserId, among: &[UserId]) -> Result<HashSet<UserId>, StoreError> {
        let keys = among.iter().map(|one| keys::blocks(*one).into()).collect();
        let items = self.batch_get(&self.tables.users, keys, Reads::Eventual).await?;
        let attribute = super::blocks::attribute_of(user);
        let blocking = items.into_iter().filter(|item| item.contains_key(&attribute));
        Ok(blocking.filter_map(|item| keys::blocks_owner(item.get("pk")?.as_s().ok()?)).collect())
    }

    /// Builds the writes that replace the item of a user's username. A new user has no other one: `from` is `to`.
    pub(super) fn search_writes(
        &self,
        user: UserId,
        from: &Username,
        to: &Username,
    ) -> Result<Vec<TransactWriteItem>, StoreError> {
        let users = &self.tables.users;
        let put = Put::builder().table_name(users).set_item(Some(search_item(to, user))).build()?;
        let mut writes = vec![TransactWriteItem::builder().put(put).build()];
        if from != to {
            let key = keys::searched_username(from);
            let delete = Delete::builder().table_name(users).set_key(Some(key.into())).build()?;
            writes.push(TransactWriteItem::builder().delete(delete).build());
        }
        Ok(writes)
    }

    /// Writes the items of the users in one page of the table. For users of earlier versions, which did not write them.
    pub async fn index_usernames(&self, from: Option<Key>) -> Result<UsernamesIndexed, StoreError> {
        #[derive(Deserialize)]
        struct Named {
            id: UserId,
            username: Username,
        }
        let page = self
            .client
            .scan()
            .table_name(&self.tables.users)
            .filter_expression("sk = :profile")
            .expression_attribute_values(":profile", text(keys::PROFILE))
            .set_exclusive_start_key(from.map(HashMap::from))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("Scan", &error))?;
        let mut result = UsernamesIndexed {
            next: page.last_evaluated_key.map(from_item).transpose()?,
            ..UsernamesIndexed::default()
        };
        for item in page.items.unwrap_or_default() {
            let Named { id, username } = from_item(item)?;
            result.indexed += usize::from(self.index_username(id, &username).await?);
        }
        Ok(result)
    }

    /// Writes the item of a username, unless the user has another one by now. Returns whether it did.
    async fn index_username(&self, user: UserId, name: &Username) -> Result<bool, StoreError> {
        let users = &self.tables.users;
        // This changes nothing. It makes the transaction fail if the user renames themselves or deletes the account meanwhile.
        let unchanged = Update::builder()
            .table_name(users)
            .set_key(Some(keys::profile(user).into()))
            .update_expression("SET username = :name")
            .condition_expression("username = :name")
            .expression_attribute_values(":name", text(name.as_str()))
            .build()?;
        let mut writes = vec![TransactWriteItem::builder().update(unchanged).build()];
        writes.extend(self.search_writes(user, name, name)?);
        match self.client.transact_write_items().set_transact_items(Some(writes)).call().await {
            Ok(_) => Ok(true),
            Err(error) if item_that_failed_in_transaction(&error, 0).is_some() => Ok(false),
            Err(error) => Err(StoreError::from_sdk("TransactWriteItems", &error)),
        }
    }
}
