//! The `rooms` table: rooms, their creation, their counters, and the order of homeserver transactions.
//!
//! Memberships are in [`super::members`]. The lists of public rooms and the search index have their own table:
//! [`super::directory`].

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{
    Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::try_join_all;
use serde::Deserialize;

use super::client::Call as _;
use super::condition::{condition_held, item_that_failed_in_transaction};
use super::error::StoreError;
use super::item::{Item, Key, from_item, number, readable, text, to_item};
use super::keys;
use super::store::{Reads, Store};
use crate::domain::UserId;
use crate::domain::room::{Member, Room, RoomId};
use crate::domain::tally::RoomCounts;

/// How long a [`RoomCreation`] is stored. Its idempotency key is valid for the same time.
const IDEMPOTENCY_KEY_KEPT: TimeDelta = TimeDelta::days(7);

/// How long the number of a homeserver transaction is stored. A redelivery within this time is recognised.
const PUSH_KEPT: TimeDelta = TimeDelta::days(7);

/// The creation of a room, in progress or finished.
#[derive(Debug, Clone, Deserialize)]
pub struct RoomCreation {
    /// A text that is the same for every attempt to create this room, so that a retry does not create a
    /// second room in the chat network.
    pub nonce: String,
    /// A digest of the room's properties, from the request that began the creation.
    pub content: String,
    /// The room's id, if an earlier request created the room.
    pub room_id: Option<RoomId>,
}

/// A request to create a room.
#[derive(Debug, Clone)]
pub struct RoomCreationRequest<'a> {
    pub user: UserId,
    /// Identifies the request: a digest of its idempotency key or, without a key, of its content.
    pub digest: &'a str,
    /// A digest of the room's properties.
    pub content: &'a str,
    /// Whether the request has an idempotency key. Without a key, the item that records this creation is deleted
    /// when the room exists.
    pub has_key: bool,
}

impl Store {
    /// Reads a room. Finds new rooms, too, but not removed ones.
    pub async fn room(&self, id: &RoomId) -> Result<Option<Room>, StoreError> {
        let room: Option<Room> = self.find(&self.tables.rooms, keys::room(id)).await?;
        Ok(room.filter(|room| room.removed_at.is_none()))
    }

    /// Reads the rooms with these ids, also removed ones. Unknown ids are left out.
    pub async fn rooms(&self, ids: &[RoomId], reads: Reads) -> Result<HashMap<RoomId, Room>, StoreError> {
        let items = self.room_items(ids, keys::room, reads).await?;
        items.into_iter().map(|item| from_item(item).map(|room: Room| (room.room_id.clone(), room))).collect()
    }

    /// Reads the rooms among the next `limit` items of the table. Leaves out rooms that cannot be read. Also returns the key
    /// after which the next page begins: `None` on the last page.
    pub async fn rooms_page(
        &self,
        from: Option<Key>,
        limit: usize,
    ) -> Result<(Vec<Room>, Option<Key>), StoreError> {
        let page = self
            .client
            .scan()
            .table_name(&self.tables.rooms)
            .filter_expression("sk = :room")
            .expression_attribute_values(":room", text(keys::ROOM))
            .set_exclusive_start_key(from.map(Item::from))
            .limit(i32::try_from(limit).unwrap_or(i32::MAX))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("Scan", &error))?;
        let rooms = readable(page.items.unwrap_or_default());
        let next = page.last_evaluated_key.map(|key| {
            let part = |name: &str| key.get(name).and_then(|part| part.as_s().ok()).cloned();
            Some(Key { pk: part("pk")?, sk: part("sk")? })
        });
        Ok((rooms, next.flatten()))
    }

    /// Reads the member counts of rooms, eventually consistent. Rooms without counters are left out.
    pub async fn member_counts(&self, ids: &[RoomId]) -> Result<HashMap<RoomId, i64>, StoreError> {
        #[derive(Deserialize)]
        struct Tally {
            room_id: RoomId,
            #[serde(default)]
            members: i64,
        }
        let items = self.room_items(ids, keys::room_tally, Reads::Eventual).await?;
        items
            .into_iter()
            .map(|item| from_item(item).map(|tally: Tally| (tally.room_id, tally.members)))
            .collect()
    }

    async fn room_items(
        &self,
        ids: &[RoomId],
        key: fn(&RoomId) -> Key,
        reads: Reads,
    ) -> Result<Vec<Item>, StoreError> {
        let batches = ids.chunks(100).map(|ids| {
            let keys = ids.iter().map(|id| key(id).into()).collect();
            self.batch_get(&self.tables.rooms, keys, reads)
        });
        Ok(try_join_all(batches).await?.into_iter().flatten().collect())
    }

    /// Stores a new room. Returns false and changes nothing if the room exists already.
    pub async fn put_room(&self, room: &Room) -> Result<bool, StoreError> {
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.rooms)
            .set_item(Some(to_item(keys::room(&room.room_id), room)?))
            .condition_expression("attribute_not_exists(pk)")
            .call()
            .await;
        condition_held("PutItem", put)
    }

    /// Renames a room. Does nothing if the room does not exist or has this name already.
    pub async fn rename_room(&self, room: &RoomId, name: &str) -> Result<(), StoreError> {
        let renamed = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::room(room).into()))
            .update_expression("SET #name = :name")
            .condition_expression("attribute_exists(pk) AND #name <> :name")
            .expression_attribute_names("#name", "name")
            .expression_attribute_values(":name", text(name))
            .call()
            .await;
        condition_held("UpdateItem", renamed).map(|_| ())
    }

    /// Begins the creation of a room, or returns the creation that an earlier request with the same digest
    /// began.
    pub async fn begin_room_creation(
        &self,
        request: &RoomCreationRequest<'_>,
        nonce: &str,
        now: DateTime<Utc>,
    ) -> Result<RoomCreation, StoreError> {
        let begun = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::room_creation(request.user, request.digest).into()))
            .update_expression(
                "SET nonce = if_not_exists(nonce, :nonce), content = if_not_exists(content, :content), \
                 expires_at = :expires",
            )
            .expression_attribute_values(":nonce", text(nonce))
            .expression_attribute_values(":content", text(request.content))
            .expression_attribute_values(":expires", number((now + IDEMPOTENCY_KEY_KEPT).timestamp()))
            .return_values(ReturnValue::AllNew)
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        from_item(begun.attributes.unwrap_or_default())
    }

    /// Stores a new room with its creator as the first member, and finishes the creation, in one transaction.
    /// Returns false and changes nothing if the room exists already.
    pub async fn finish_room_creation(
        &self,
        room: &Room,
        creator: &Member,
        request: &RoomCreationRequest<'_>,
    ) -> Result<bool, StoreError> {
        let table = &self.tables.rooms;
        let put = |item: Item| {
            Put::builder()
                .table_name(table)
                .set_item(Some(item))
                .condition_expression("attribute_not_exists(pk)")
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
                .build()
        };
        let room_item = to_item(keys::room(&room.room_id), room)?;
        let mut member = to_item(keys::member(&room.room_id, room.shards, creator.user_id), creator)?;
        // `entry` and `since` record that the creator joined through our API, and when. The homeserver's join
        // event does not overwrite them.
        member.insert("entry".into(), text(request.digest));
        member.insert("since".into(), number(room.created_at.timestamp_millis()));
        let creation = keys::room_creation(request.user, request.digest);
        let finish = if request.has_key {
            let update = Update::builder()
                .table_name(table)
                .set_key(Some(creation.into()))
                .update_expression("SET room_id = :room")
                .expression_attribute_values(":room", text(room.room_id.as_str()))
                .build()?;
            TransactWriteItem::builder().update(update).build()
        } else {
            let delete = Delete::builder().table_name(table).set_key(Some(creation.into())).build()?;
            TransactWriteItem::builder().delete(delete).build()
        };
        let writes = vec![
            TransactWriteItem::builder().put(put(room_item)?).build(),
            TransactWriteItem::builder().put(put(member)?).build(),
            finish,
        ];
        match self.client.transact_write_items().set_transact_items(Some(writes)).call().await {
            Ok(_) => Ok(true),
            Err(error) if item_that_failed_in_transaction(&error, 0).is_some() => Ok(false),
            Err(error) => Err(StoreError::from_sdk("TransactWriteItems", &error)),
        }
    }

    /// Sets the time of the last message in a room, unless a later time is stored.
    pub async fn touch_activity(&self, room: &RoomId, at: DateTime<Utc>) -> Result<(), StoreError> {
        let touched = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::room(room).into()))
            .update_expression("SET last_activity = :at")
            .condition_expression("last_activity < :at")
            .expression_attribute_values(":at", number(at.timestamp_millis()))
            .call()
            .await;
        condition_held("UpdateItem", touched).map(|_| ())
    }

    /// Returns the number of a homeserver transaction: transactions that the homeserver sent later have higher numbers. A
    /// redelivered transaction keeps its number. `digest` identifies a transaction by its events, because a restored
    /// homeserver gives its transactions other ids, and a reinstalled one uses the same ids again.
    ///
    /// The homeserver normally sends a transaction only after we have accepted the one before. Then a transaction takes its
    /// number before a later transaction can take one, however many deliveries of it overlap.
    pub async fn push_number(&self, digest: &str, now: DateTime<Utc>) -> Result<u64, StoreError> {
        #[derive(Deserialize)]
        struct Numbered {
            pushes: u64,
        }
        let counted = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::pushes().into()))
            .update_expression("ADD pushes :one")
            .expression_attribute_values(":one", number(1))
            .return_values(ReturnValue::AllNew)
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        let Numbered { pushes } = from_item(counted.attributes.unwrap_or_default())?;
        let stored = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::push(digest).into()))
            .update_expression("SET pushes = if_not_exists(pushes, :number), expires_at = :expires")
            .expression_attribute_values(":number", number(pushes))
            .expression_attribute_values(":expires", number((now + PUSH_KEPT).timestamp()))
            .return_values(ReturnValue::AllNew)
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        Ok(from_item::<Numbered>(stored.attributes.unwrap_or_default())?.pushes)
    }

    /// Reads the counters of a room, eventually consistent. All are zero if none are stored.
    pub async fn room_counts(&self, room: &RoomId) -> Result<RoomCounts, StoreError> {
        self.counters(&self.tables.rooms, keys::room_tally(room)).await
    }
}
