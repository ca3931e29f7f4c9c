//! The `rooms` table: rooms, and their members spread over the room's shards.

use serde::Deserialize;

use super::keys::Key;
use super::pages::{self, Page, Wanted};
use super::{Item, Reads, Store, StoreError, every_item, from_item, keys, made, number, text, to_item};
use crate::domain::room::{Member, Membership, Room, RoomId};
use crate::domain::tally::RoomCounts;
use crate::domain::{Prediction, UserId};

/// The index by user: a member's user, and the room.
const BY_USER: &str = "by_user";

pub(super) fn read_member(item: Item) -> Result<Member, StoreError> {
    from_item(item)
}

impl Store {
    pub async fn room(&self, id: &RoomId) -> Result<Option<Room>, StoreError> {
        self.get(&self.tables.rooms, keys::room(id), Reads::Eventual).await
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

    pub async fn member(&self, room: &Room, user: UserId) -> Result<Option<Member>, StoreError> {
        self.get(&self.tables.rooms, keys::member(&room.room_id, room.shards, user), Reads::Eventual).await
    }

    /// Makes somebody a member, in one write. What they predict is noted by `tally`.
    pub async fn set_membership(
        &self,
        room: &Room,
        user: UserId,
        membership: Membership,
    ) -> Result<(), StoreError> {
        let mut update = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(keys::member(&room.room_id, room.shards, user).into()))
            .expression_attribute_values(":room", text(room.room_id.as_str()))
            .expression_attribute_values(":user", number(user))
            .expression_attribute_values(":membership", text(membership.as_str()));
        let mut set = "SET room_id = :room, user_id = :user, membership = :membership".to_owned();
        if let Some(event) = room.event_id {
            set.push_str(", event_id = :event");
            update = update.expression_attribute_values(":event", number(event));
        }
        update
            .update_expression(set)
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        Ok(())
    }

    /// Members who have joined and predict the room's match, a page of them.
    pub async fn predictors_page(
        &self,
        room: &Room,
        after: Option<UserId>,
        most: usize,
        about: usize,
    ) -> Result<Page<Member>, StoreError> {
        let wanted = Wanted { shards: room.shards, after, most, about, is_filtered: true };
        pages::page(
            wanted,
            |shard, after, most| self.members_page(room, shard, after, most),
            |member| member.user_id,
            |member| member.has_joined() && member.pick.is_some(),
        )
        .await
    }

    async fn members_page(
        &self,
        room: &Room,
        shard: u8,
        after: Option<UserId>,
        most: usize,
    ) -> Result<(Vec<Member>, bool), StoreError> {
        let partition = keys::room_shard(&room.room_id, shard);
        let after = after.map(keys::member_of);
        let (items, ended) = self.partition_page(&self.tables.rooms, &partition, after, most).await?;
        Ok((items.into_iter().map(read_member).collect::<Result<_, _>>()?, ended))
    }

    /// A user's places in rooms about a match that they have joined.
    pub async fn joined_rooms(&self, user: UserId, event: u32) -> Result<Vec<Key>, StoreError> {
        #[derive(Deserialize)]
        struct Place {
            pk: String,
            sk: String,
        }
        let query = self
            .client
            .query()
            .table_name(&self.tables.rooms)
            .index_name(BY_USER)
            .key_condition_expression("user_id = :user")
            .filter_expression("membership = :join AND event_id = :event")
            .expression_attribute_values(":user", number(user))
            .expression_attribute_values(":join", text(Membership::Join.as_str()))
            .expression_attribute_values(":event", number(event));
        let place = |item| from_item(item).map(|Place { pk, sk }| Key { pk, sk });
        every_item(query).await?.into_iter().map(place).collect()
    }

    /// Notes with a member what they predict for the room's match, unless a later version is noted.
    pub async fn note_pick(&self, member: Key, row: &Prediction) -> Result<(), StoreError> {
        let noted = self
            .client
            .update_item()
            .table_name(&self.tables.rooms)
            .set_key(Some(member.into()))
            .update_expression("SET pick = :pick, edits = :edits")
            .condition_expression("attribute_exists(pk) AND (attribute_not_exists(edits) OR edits < :edits)")
            .expression_attribute_values(":pick", text(row.forecast.pick().as_str()))
            .expression_attribute_values(":edits", number(row.edits))
            .send()
            .await;
        made("UpdateItem", noted).map(|_| ())
    }

    /// What is counted of a room.
    pub async fn room_counts(&self, room: &RoomId) -> Result<RoomCounts, StoreError> {
        let counts = self.get(&self.tables.rooms, keys::room_tally(room), Reads::Eventual).await?;
        Ok(counts.unwrap_or_default())
    }
}
