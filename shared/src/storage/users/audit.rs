//! The audit of what operators do. Entries are never changed and never expire.
//!
//! An action with an id has a second item, which makes a repeated invocation return the result of the first one.

use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure};
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::super::client::Call as _;
use super::monthly::{MonthlyPosition, MonthlyQuery};
use crate::domain::audit::AuditEntry;
use crate::storage::condition::{condition_held, item_that_failed_condition};
use crate::storage::error::StoreError;
use crate::storage::item::{from_item, number, text, to_item};
use crate::storage::keys;
use crate::storage::store::Store;

/// How long the id of an action is kept.
const ID_KEPT: TimeDelta = TimeDelta::days(180);

/// An action that was begun, now or by an earlier invocation with the same id.
#[derive(Debug, Clone, Deserialize)]
pub struct BegunAction {
    /// When the action was begun first.
    #[serde(with = "ts_milliseconds")]
    pub at: DateTime<Utc>,
    /// The result, as JSON, if an earlier invocation finished the action.
    pub result: Option<String>,
}

impl Store {
    /// Begins an action with an id. Returns `None` if the id belongs to an action with other `content`.
    pub async fn begin_action(
        &self,
        id: &str,
        content: &str,
        now: DateTime<Utc>,
    ) -> Result<Option<BegunAction>, StoreError> {
        let begun = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::operator_action(id).into()))
            .update_expression(
                "SET #at = if_not_exists(#at, :now), content = :content, expires_at = :expires",
            )
            .condition_expression("attribute_not_exists(pk) OR content = :content")
            .expression_attribute_names("#at", "at")
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .expression_attribute_values(":content", text(content))
            .expression_attribute_values(":expires", number((now + ID_KEPT).timestamp()))
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::None)
            .call()
            .await;
        match begun {
            Ok(begun) => from_item(begun.attributes.unwrap_or_default()).map(Some),
            Err(error) if item_that_failed_condition(&error).is_some() => Ok(None),
            Err(error) => Err(StoreError::from_sdk("UpdateItem", &error)),
        }
    }

    /// Stores the result of an action, unless an earlier invocation has stored one.
    pub async fn finish_action(&self, id: &str, result: &str) -> Result<(), StoreError> {
        let finished = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::operator_action(id).into()))
            .update_expression("SET #result = if_not_exists(#result, :result)")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_names("#result", "result")
            .expression_attribute_values(":result", text(result))
            .call()
            .await;
        condition_held("UpdateItem", finished).map(|_| ())
    }

    /// Adds an entry to the audit. Changes nothing if an earlier invocation has added it.
    pub async fn add_audit_entry(&self, entry: &AuditEntry) -> Result<(), StoreError> {
        let added = self
            .client
            .put_item()
            .table_name(&self.tables.users)
            .set_item(Some(to_item(keys::audit_entry(entry.at, &entry.id), entry)?))
            .condition_expression("attribute_not_exists(pk)")
            .call()
            .await;
        condition_held("PutItem", added).map(|_| ())
    }

    /// Reads up to `limit` entries of the audit, newest first, and the position of the next page.
    pub async fn audit_page(
        &self,
        after: Option<MonthlyPosition>,
        limit: usize,
        now: DateTime<Utc>,
    ) -> Result<(Vec<AuditEntry>, Option<MonthlyPosition>), StoreError> {
        let query = MonthlyQuery {
            partition: keys::audit_of,
            prefix: keys::AUDIT_ENTRY,
            is_newest_first: true,
            after,
            limit,
        };
        let (items, next) = self.monthly_page(&query, now).await?;
        Ok((items.into_iter().map(from_item).collect::<Result<_, _>>()?, next))
    }
}
