//! The `rooms` table: the removal of rooms by operators.
//!
//! A removed room stays stored with the attribute `removed_at`. `tally` gets the stream record of this change and deletes the
//! room's directory entries. Memberships are ended one by one, and `tally` counts them as usual.

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use chrono::serde::ts_milliseconds_option;
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::client::Call as _;
use super::condition::condition_held;
use super::error::StoreError;
use super::item::number;
use super::keys;
use super::store::Store;
use crate::domain::room::{Room, RoomId};

/// A room that may be removed.
#[derive(Debug, Clone, Deserialize)]
pub struct AnyRoom {
    #[serde(flatten)]
    pub room: Room,
    /// When the homeserver finished the removal. `None` if it has not.
    #[serde(default, with = "ts_milliseconds_option")]
    pub chat_closed_at: Option<DateTime<Utc>>,
}

impl Store {
    /// Reads a room, even if it is removed. Finds new rooms, too.
    pub async fn any_room(&self, id: &RoomId) -> Result<Option<AnyRoom>, StoreError> {
        self.find(&self.tables.rooms, keys::room(id)).await
    }

    /// Removes a room from all lists. From now on, nobody can join it. Returns false if it is removed already.
    pub async fn remove_room(&self, id: &RoomId, now: DateTime<Utc>) -> Result<bool, StoreError> {
        self.set_room_time(id, "removed_at", now).await
    }

    /// Stores that the homeserver has closed a room and removed its members.
    pub async fn save_closed_in_chat(&self, id: &RoomId, now: DateTime<Utc>) -> Result<(), StoreError> {
        self.set_room_time(id, "chat_closed_at", now).await.map(|_| ())
    }

    /// Sets a time of a room, unless it is set. Returns whether it was not set.
    async fn set_room_time(
        &self,
        id: &RoomId,
        attribute: &str,
        now: DateTime<Utc>,
    ) -> Result<bool, StoreError> {
        let update: UpdateItemFluentBuilder =
            self.client.update_item().table_name(&self.tables.rooms).set_key(Some(keys::room(id).into()));
        let marked = update
            .update_expression("SET #attribute = :now")
            .condition_expression("attribute_exists(pk) AND attribute_not_exists(#attribute)")
            .expression_attribute_names("#attribute", attribute)
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .call()
            .await;
        condition_held("UpdateItem", marked)
    }
}
