use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::super::client::Call as _;
use crate::domain::catalog::Pause;
use crate::storage::condition::condition_held;
use crate::storage::error::StoreError;
use crate::storage::item::{from_item, number, to_item};
use crate::storage::keys;
use crate::storage::store::Store;

/// When the first catalog with the pause was published. It is an item of its own: the snapshot cannot hold the time of its
/// publication.
#[derive(Debug, Serialize, Deserialize)]
struct PublishedPause {
    pause: Pause,
    #[serde(with = "ts_milliseconds")]
    published_at: DateTime<Utc>,
}

impl Store {
    /// Notes that a catalog with this pause is published. Returns when this was first noted. A note about an earlier pause
    /// of the match does not count.
    pub async fn note_published_pause(
        &self,
        event: u32,
        pause: Pause,
        now: DateTime<Utc>,
    ) -> Result<DateTime<Utc>, StoreError> {
        let note = PublishedPause { pause, published_at: now };
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.catalog)
            .set_item(Some(to_item(keys::published_pause(event), &note)?))
            .condition_expression("attribute_not_exists(pk) OR pause <> :pause")
            .expression_attribute_values(":pause", number(pause.since().timestamp_millis()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .call()
            .await;
        let Err(error) = put else { return Ok(now) };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(failed)) => {
                let found: PublishedPause = from_item(failed.item().cloned().unwrap_or_default())?;
                Ok(found.published_at)
            }
            _ => Err(StoreError::from_sdk("PutItem", &error)),
        }
    }

    /// Deletes the note about a pause that has ended.
    pub async fn delete_published_pause(&self, event: u32, pause: Pause) -> Result<(), StoreError> {
        let deleted = self
            .client
            .delete_item()
            .table_name(&self.tables.catalog)
            .set_key(Some(keys::published_pause(event).into()))
            .condition_expression("pause = :pause")
            .expression_attribute_values(":pause", number(pause.since().timestamp_millis()))
            .call()
            .await;
        condition_held("DeleteItem", deleted).map(|_| ())
    }
}
