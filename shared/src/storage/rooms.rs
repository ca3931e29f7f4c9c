//! The `rooms` table: rooms, how they are made, and what the homeserver has told of them. Their members are
//! in [`super::members`], the ways to find them in [`super::directory`].

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::{
    Delete, Put, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::future::try_join_all;
use serde::Deserialize;
use serde_json::Value;

use super::{Item, Reads, Store, StoreError, from_item, keys, made, number, refused_write, text, to_item};
use crate::domain::UserId;
use crate::domain::room::{Member, Room, RoomId};
use crate::domain::tally::{RoomCounts, RoomTotals};

/// How long it is remembered which room a request with a key of its own made.
const KEY_KEPT: TimeDelta = TimeDelta::days(7);

/// How long a homeserver may take to send a transaction again.
const PUSH_KEPT: TimeDelta = TimeDelta::days(7);

/// A room that somebody is about to make.
#[derive(Debug, Clone, Deserialize)]
pub struct Making {
    /// The same for every try at it: the chat network knows the room by it.
    pub nonce: String,
    /// What the room was to be, as a digest.
    pub content: String,
    /// The room, where an earlier request made it.
    pub room_id: Option<RoomId>,
}

/// Which request to make a room this is.
#[derive(Debug, Clone)]
pub struct Intent<'a> {
    pub user: UserId,
    /// By what the request is known: its key, or else what it asks for.
    pub digest: &'a str,
    pub content: &'a str,
    /// Whether it has a key of its own. Then it is remembered; without one, only until it is done.
    pub is_keyed: bool,
}

/// What is counted of a room, as it is stored: counters of teams and days have names of their own.
#[derive(Deserialize)]
struct StoredCounts {
    #[serde(flatten)]
    totals: RoomTotals,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

impl Store {
    /// A room. Looked for twice, the second time truly: one may be asked for as soon as it is made.
    pub async fn room(&self, id: &RoomId) -> Result<Option<Room>, StoreError> {
        match self.get(&self.tables.rooms, keys::room(id), Reads::Eventual).await? {
            None => self.get(&self.tables.rooms, keys::room(id), Reads::Consistent).await,
            room => Ok(room),
        }
    }

    /// Rooms, of those that there are.
    pub async fn rooms(&self, ids: &[RoomId]) -> Result<HashMap<RoomId, Room>, StoreError> {
        self.read_rooms(ids, Reads::Eventual).await
    }

    /// Rooms, with every write that was answered.
    pub async fn rooms_now(&self, ids: &[RoomId]) -> Result<HashMap<RoomId, Room>, StoreError> {
        self.read_rooms(ids, Reads::Consistent).await
    }

    async fn read_rooms(&self, ids: &[RoomId], reads: Reads) -> Result<HashMap<RoomId, Room>, StoreError> {
        let items = self.of_rooms(ids, keys::room, reads).await?;
        items.into_iter().map(|item| from_item(item).map(|room: Room| (room.room_id.clone(), room))).collect()
    }

    /// How many members rooms have, of those that have any.
    pub async fn member_counts(&self, ids: &[RoomId]) -> Result<HashMap<RoomId, i64>, StoreError> {
        #[derive(Deserialize)]
        struct Tally {
            room_id: RoomId,
            #[serde(default)]
            members: i64,
        }
        let items = self.of_rooms(ids, keys::room_tally, Reads::Eventual).await?;
        items
            .into_iter()
            .map(|item| from_item(item).map(|tally: Tally| (tally.room_id, tally.members)))
            .collect()
    }

    async fn of_rooms(
        &self,
        ids: &[RoomId],
        key: fn(&RoomId) -> keys::Key,
        reads: Reads,
    ) -> Result<Vec<Item>, StoreError> {
        let parts = ids.chunks(100).map(|ids| {
            let keys = ids.iter().map(|id| key(id).into()).collect();
            self.batch_get(&self.tables.rooms, keys, reads)
        });
        Ok(try_join_all(parts).await?.into_iter().flatten().collect())
    }

    /// Keeps a room that is not known yet. One that is stays as it is.
    pub async fn put_room(&self, room: &Room) -> Result<(), StoreError> {
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.rooms)
            .set_item(Some(to_item(keys::room(&room.room_id), room)?))
            .condition_expression("attribute_not_exists(pk)")
            .send()
            .await;
        made("PutItem", put).map(|_| ())
    }

    /// Notes that somebody is about to make a room; whoever comes again with the same finds the first note.
    pub async fn begin_making(
        &self,
        intent: &Intent<'_>,
        nonce: &str,
        now: DateTime<Utc>,
    ) -> Result<Making, StoreError> {
        let noted = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::making(intent.user, intent.digest).into()))
            .update_expression(
                "SET nonce = if_not_exists(nonce, :nonce), content = if_not_exists(content, :content), \
                 expires_at = :expires",
            )
            .expression_attribute_values(":nonce", text(nonce))
            .expression_attribute_values(":content", text(intent.content))
            .expression_attribute_values(":expires", number((now + KEY_KEPT).timestamp()))
            .return_values(ReturnValue::AllNew)
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        from_item(noted.attributes.unwrap_or_default())
    }

    /// Keeps a new room with its first member and ends the note of its making, or nothing of it. False where
    /// the room is known already.
    pub async fn make_room(
        &self,
        room: &Room,
        creator: &Member,
        intent: &Intent<'_>,
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
        // They came in through us, whatever the homeserver tells of it afterwards.
        member.insert("entry".into(), text(intent.digest));
        member.insert("since".into(), number(room.created_at.timestamp_millis()));
        let making = keys::making(intent.user, intent.digest);
        let note = if intent.is_keyed {
            let update = Update::builder()
                .table_name(table)
                .set_key(Some(making.into()))
                .update_expression("SET room_id = :room")
                .expression_attribute_values(":room", text(room.room_id.as_str()))
                .build()?;
            TransactWriteItem::builder().update(update).build()
        } else {
            let delete = Delete::builder().table_name(table).set_key(Some(making.into())).build()?;
            TransactWriteItem::builder().delete(delete).build()
        };
        let writes = vec![
            TransactWriteItem::builder().put(put(room_item)?).build(),
            TransactWriteItem::builder().put(put(member)?).build(),
            note,
        ];
        match self.client.transact_write_items().set_transact_items(Some(writes)).send().await {
            Ok(_) => Ok(true),
            Err(error) if refused_write(&error, 0).is_some() => Ok(false),
            Err(error) => Err(StoreError::from_sdk("TransactWriteItems", &error)),
        }
    }

    /// Notes when somebody last wrote in a room, unless a later moment is noted.
    pub async fn note_activity(&self, room: &RoomId, at: DateTime<Utc>) -> Result<(), StoreError> {
        let noted = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::room(room).into()))
            .update_expression("SET last_activity = :at")
            .condition_expression("last_activity < :at")
            .expression_attribute_values(":at", number(at.timestamp_millis()))
            .send()
            .await;
        made("UpdateItem", noted).map(|_| ())
    }

    /// Whether this very transaction of the homeserver's is done with. Its id alone does not say: a
    /// homeserver that starts over counts from one again.
    pub async fn is_push_done(&self, transaction: &str, digest: &str) -> Result<bool, StoreError> {
        #[derive(Deserialize)]
        struct Done {
            digest: String,
        }
        let done: Option<Done> =
            self.get(&self.tables.rooms, keys::push(transaction), Reads::Consistent).await?;
        Ok(done.is_some_and(|done| done.digest == digest))
    }

    pub async fn end_push(
        &self,
        transaction: &str,
        digest: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        self.client
            .put_item()
            .table_name(&self.tables.rooms)
            .set_item(Some(keys::push(transaction).into()))
            .item("digest", text(digest))
            .item("expires_at", number((now + PUSH_KEPT).timestamp()))
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        Ok(())
    }

    /// What is counted of a room.
    pub async fn room_counts(&self, room: &RoomId) -> Result<RoomCounts, StoreError> {
        let stored: Option<StoredCounts> =
            self.get(&self.tables.rooms, keys::room_tally(room), Reads::Eventual).await?;
        let Some(StoredCounts { totals, others }) = stored else { return Ok(RoomCounts::default()) };
        let mut counts = RoomCounts { totals, ..RoomCounts::default() };
        for (name, count) in others {
            if let Some(count) = count.as_i64() {
                counts.set_stored(&name, count);
            }
        }
        Ok(counts)
    }
}
