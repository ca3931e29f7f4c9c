//! The `users` table: limits per UTC hour for large networks.
//!
//! The register of [`super::rate_limit`] has an attribute for each request, so it cannot hold a thousand. Here, an item for
//! each network and hour holds only the number of requests. If the SDK retries a write after a lost response, the write
//! changes the number twice.

use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};

use super::client::Call as _;
use super::condition::condition_held;
use super::error::StoreError;
use super::item::number;
use super::keys;
use super::store::Store;
use super::users::IssueError;
use crate::domain::Address;
use crate::domain::limit::{HourlyAction, Limited};

/// How long an item is stored after its hour.
const KEPT: TimeDelta = TimeDelta::hours(1);

impl Store {
    /// Counts an action of a network, unless there were `limit` of them in this hour.
    pub async fn count_in_hour(
        &self,
        action: HourlyAction,
        network: &Address,
        limit: u32,
        now: DateTime<Utc>,
    ) -> Result<(), IssueError> {
        let end = end_of_hour(now);
        let counted = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::hour_limit(action, network, now).into()))
            .update_expression("ADD requests :one SET expires_at = :expires")
            .condition_expression("attribute_not_exists(requests) OR requests < :limit")
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":limit", number(limit))
            .expression_attribute_values(":expires", number((end + KEPT).timestamp()))
            .call()
            .await;
        if condition_held("UpdateItem", counted)? {
            Ok(())
        } else {
            Err(Limited { retry_after: end - now }.into())
        }
    }

    /// Removes an action from the count of its hour.
    pub async fn release_in_hour(
        &self,
        action: HourlyAction,
        network: &Address,
        counted_at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let released = self
            .client
            .update_item()
            .table_name(&self.tables.users)
            .set_key(Some(keys::hour_limit(action, network, counted_at).into()))
            .update_expression("ADD requests :minus_one")
            // Without this condition, the update would create an item that never expires.
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_values(":minus_one", number(-1))
            .call()
            .await;
        condition_held("UpdateItem", released).map(|_| ())
    }
}

fn end_of_hour(now: DateTime<Utc>) -> DateTime<Utc> {
    let hour = TimeDelta::hours(1);
    now.duration_trunc(hour).unwrap_or(now) + hour
}
