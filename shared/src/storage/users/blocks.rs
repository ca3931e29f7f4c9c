//! The users whom a user has blocked: one item for each user who has blocked somebody.
//!
//! The attribute `at:<user id>` is the time of a block, and `blocked` counts the blocks. `version` counts the changes.
//! `synced` is the version that the user's chat account has, and `synced_as` the username of that account. `unblocked` is
//! the set of the users who were unblocked since.

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::super::client::Call as _;
use crate::domain::block::{Block, Blocks};
use crate::domain::{UserId, Username};
use crate::storage::condition::{condition_held, item_that_failed_condition};
use crate::storage::error::StoreError;
use crate::storage::item::{Item, from_item, number, text};
use crate::storage::keys;
use crate::storage::store::{Reads, Store};

/// The prefix of the attributes with the times of blocks.
const AT: &str = "at:";

/// Returns the attribute that an item has if its user has blocked `user`.
pub(super) fn attribute_of(user: UserId) -> String {
    format!("{AT}{user}")
}

/// The blocks of a user, and what of them the user's chat account has.
#[derive(Debug, Clone, Default)]
pub struct StoredBlocks {
    pub blocks: Blocks,
    /// The users who were unblocked and whom the chat account may still ignore.
    pub unblocked: Vec<UserId>,
    /// How often the blocks were changed.
    pub version: u64,
    synced: Option<u64>,
    synced_as: Option<Username>,
}

impl StoredBlocks {
    fn read(item: Item) -> Result<Self, StoreError> {
        #[derive(Deserialize)]
        struct Rest {
            #[serde(default)]
            version: u64,
            synced: Option<u64>,
            synced_as: Option<Username>,
            #[serde(default)]
            unblocked: Vec<UserId>,
        }
        let block = |(name, value): (&String, &AttributeValue)| {
            let user = name.strip_prefix(AT)?.parse().ok()?;
            let at = DateTime::from_timestamp_millis(value.as_n().ok()?.parse().ok()?)?;
            Some(Block { at, user })
        };
        let blocks = item.iter().filter_map(block).collect();
        let Rest { version, synced, synced_as, unblocked } = from_item(item)?;
        Ok(Self { blocks, unblocked, version, synced, synced_as })
    }

    /// Returns whether the chat account may lack some changes.
    #[must_use]
    pub fn has_unsynced_changes(&self) -> bool {
        self.version > 0 && self.synced != Some(self.version)
    }

    /// Returns whether the chat account of `username` has these blocks.
    #[must_use]
    pub fn is_synced_as(&self, username: &Username) -> bool {
        let is_same_account = self.synced_as.as_ref() == Some(username);
        !self.has_unsynced_changes() && (self.version == 0 || is_same_account)
    }
}

/// The result of [`Store::block`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocked {
    Since(DateTime<Utc>),
    /// The user has blocked as many users as one user can.
    LimitReached,
}

impl Store {
    /// Reads the users whom a user has blocked.
    pub async fn blocks(&self, user: UserId, reads: Reads) -> Result<StoredBlocks, StoreError> {
        let item = self.get_item(&self.tables.users, keys::blocks(user), reads).await?;
        item.map(StoredBlocks::read).transpose().map(Option::unwrap_or_default)
    }

    /// Blocks a user. A block that exists keeps its time.
    pub async fn block(
        &self,
        user: UserId,
        blocked: UserId,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<Blocked, StoreError> {
        let written = self
            .blocks_update(user)
            .update_expression("SET #at = :at ADD blocked :one, version :one DELETE unblocked :user")
            .condition_expression(
                "attribute_not_exists(#at) AND (attribute_not_exists(blocked) OR blocked < :limit)",
            )
            .expression_attribute_names("#at", attribute_of(blocked))
            .expression_attribute_values(":at", number(now.timestamp_millis()))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":user", set_of(blocked))
            .expression_attribute_values(":limit", number(limit))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .call()
            .await;
        let Err(error) = written else { return Ok(Blocked::Since(now)) };
        let Some(item) = item_that_failed_condition(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error));
        };
        let since = StoredBlocks::read(item)?.blocks.since(blocked);
        Ok(since.map_or(Blocked::LimitReached, Blocked::Since))
    }

    /// Unblocks a user. Returns false if the user is not blocked.
    pub async fn unblock(&self, user: UserId, blocked: UserId) -> Result<bool, StoreError> {
        let written = self
            .blocks_update(user)
            .update_expression("REMOVE #at ADD blocked :minus, version :one, unblocked :user")
            .condition_expression("attribute_exists(#at)")
            .expression_attribute_names("#at", format!("{AT}{blocked}"))
            .expression_attribute_values(":minus", number(-1))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":user", set_of(blocked))
            .call()
            .await;
        condition_held("UpdateItem", written)
    }

    /// Stores that the chat account of `username` has the blocks of this version. Returns false and changes nothing if
    /// the blocks have changed since.
    pub async fn save_synced_blocks(
        &self,
        user: UserId,
        version: u64,
        username: &Username,
    ) -> Result<bool, StoreError> {
        let written = self
            .blocks_update(user)
            .update_expression("SET synced = :version, synced_as = :name REMOVE unblocked")
            .condition_expression("version = :version")
            .expression_attribute_values(":version", number(version))
            .expression_attribute_values(":name", text(username.as_str()))
            .return_values(ReturnValue::None)
            .call()
            .await;
        condition_held("UpdateItem", written)
    }

    /// Stores that the user's chat account may lack some blocks.
    pub async fn mark_blocks_unsynced(&self, user: UserId) -> Result<(), StoreError> {
        let written = self
            .blocks_update(user)
            .update_expression("REMOVE synced")
            .condition_expression("attribute_exists(synced)")
            .call()
            .await;
        condition_held("UpdateItem", written).map(|_| ())
    }

    fn blocks_update(&self, user: UserId) -> UpdateItemFluentBuilder {
        self.client.update_item().table_name(&self.tables.users).set_key(Some(keys::blocks(user).into()))
    }
}

fn set_of(user: UserId) -> AttributeValue {
    AttributeValue::Ns(vec![user.to_string()])
}
