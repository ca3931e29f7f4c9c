//! The `users` table: limits per UTC day.
//!
//! An item for each user, day and action holds the set of the counted ids. One conditional write checks the size of the
//! set and adds an id. Adding an id twice changes nothing, so a retried write does not count twice, and concurrent
//! requests cannot exceed the limit.

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue};
use chrono::{NaiveDate, TimeDelta};

use super::client::Call as _;
use super::condition::condition_held;
use super::error::StoreError;
use super::item::number;
use super::keys;
use super::store::Store;
use crate::domain::UserId;
use crate::domain::limit::DailyAction;
use crate::domain::time::midnight_after;

/// How long an item is kept after its day.
const KEPT: TimeDelta = TimeDelta::days(1);

/// An action that counts against a limit per day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedAction {
    pub user: UserId,
    pub action: DailyAction,
    pub day: NaiveDate,
    /// Identifies the action. See [`crate::domain::limit::action_id`].
    pub id: u64,
}

/// The result of [`Store::count_action`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// Holds the ids of the actions that were counted before on this day.
    Now(Vec<u64>),
    /// An earlier attempt counted the action already.
    Before,
    /// The action is not counted, because the limit is reached.
    LimitReached,
}

impl Store {
    /// Counts an action, unless the user has done `limit` others on this day.
    pub async fn count_action(&self, counted: &CountedAction, limit: usize) -> Result<Counted, StoreError> {
        let updated = self
            .day_limit_update(counted)
            .update_expression("ADD ids :ids SET expires_at = :expires")
            .condition_expression("attribute_not_exists(ids) OR size(ids) < :limit OR contains(ids, :id)")
            .expression_attribute_values(":id", number(counted.id))
            .expression_attribute_values(":limit", number(limit))
            .expression_attribute_values(":expires", number((midnight_after(counted.day) + KEPT).timestamp()))
            .return_values(ReturnValue::UpdatedOld)
            .call()
            .await;
        let ids = updated.as_ref().ok().and_then(|updated| updated.attributes()?.get("ids")?.as_ns().ok());
        let ids: Vec<u64> = ids.into_iter().flatten().filter_map(|id| id.parse().ok()).collect();
        Ok(if !condition_held("UpdateItem", updated)? {
            Counted::LimitReached
        } else if ids.contains(&counted.id) {
            Counted::Before
        } else {
            Counted::Now(ids)
        })
    }

    /// Removes an action from the count.
    pub async fn release_action(&self, counted: &CountedAction) -> Result<(), StoreError> {
        let released = self
            .day_limit_update(counted)
            .update_expression("DELETE ids :ids")
            // Without this condition, the update would create an item that never expires.
            .condition_expression("attribute_exists(pk)")
            .call()
            .await;
        condition_held("UpdateItem", released).map(|_| ())
    }

    fn day_limit_update(&self, counted: &CountedAction) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::day_limit(counted.user, counted.action, counted.day).into()))
            .expression_attribute_values(":ids", AttributeValue::Ns(vec![counted.id.to_string()]))
    }
}
