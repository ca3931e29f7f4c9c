//! The `standings` table: the tables of rooms.
//!
//! The table of a room is a board ([`super::standings`]) with the members of the room. It is built when a user reads it
//! and it is out of date, because most rooms are not read after most matches.

use std::collections::{BTreeSet, HashMap};

use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::client::Call as _;
use super::condition::condition_held;
use super::error::StoreError;
use super::item::{Item, number, text};
use super::keys;
use super::predictions;
use super::standings::{BuiltBoard, read_head, read_ranked};
use super::store::{Reads, Store};
use super::tallies::{SUMMED, integer, read_counters};
use crate::domain::room::{Member, Room, RoomId};
use crate::domain::standings::{Board, Period, UserTally};
use crate::domain::tally::RoomCounts;
use crate::domain::{Prediction, UserId};

/// The number of queues of rooms whose tables must be built.
const QUEUES: u8 = 8;

/// The number of memberships in a page.
const PAGE: usize = 1_000;

/// The maximum number of concurrent batches and pages.
const CONCURRENT: usize = 16;

/// The table of a room as it is stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoomTableState {
    /// `None` if the table was never built.
    pub built: Option<BuiltBoard>,
    /// When a reader last claimed a build. See [`Store::claim_room_build`].
    pub claimed_at: Option<DateTime<Utc>>,
}

/// The table of a room that must be built.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuedRoom {
    pub room: RoomId,
    pub period: Period,
}

impl QueuedRoom {
    fn to_text(&self) -> String {
        let Self { room, period } = self;
        format!("{period} {}", room.as_str())
    }

    fn parse(text: &str) -> Option<Self> {
        let (period, room) = text.split_once(' ')?;
        Some(Self { room: RoomId::parse(room)?, period: period.parse().ok()? })
    }

    fn queue(&self) -> u8 {
        keys::spread(self.room.as_str(), QUEUES)
    }
}

impl Store {
    /// Reads the state of a room's table.
    pub async fn room_table(&self, board: Board, reads: Reads) -> Result<RoomTableState, StoreError> {
        let found = self.get_item(&self.tables.standings, keys::board_head(board), reads).await?;
        let Some(item) = found else { return Ok(RoomTableState::default()) };
        let claimed_at = integer(&item, "claimed_at").and_then(DateTime::from_timestamp_millis);
        Ok(RoomTableState { built: read_head(board, &item)?, claimed_at })
    }

    /// Claims the build of a room's table, so that only one of many readers builds it. Returns false if another reader has
    /// claimed it within `pause`.
    pub async fn claim_room_build(
        &self,
        board: Board,
        now: DateTime<Utc>,
        pause: TimeDelta,
    ) -> Result<bool, StoreError> {
        let claimed = self
            .client
            .update_item()
            .table_name(&self.tables.standings)
            .set_key(Some(keys::board_head(board).into()))
            .update_expression("SET claimed_at = :now")
            .condition_expression("attribute_not_exists(claimed_at) OR claimed_at <= :before")
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .expression_attribute_values(":before", number((now - pause).timestamp_millis()))
            .call()
            .await;
        condition_held("UpdateItem", claimed)
    }

    /// Queues the table of a room, to be built by the Lambda function `standings`.
    pub async fn queue_room(&self, queued: &QueuedRoom) -> Result<(), StoreError> {
        self.room_queue_update(queued)
            .update_expression("ADD rooms :rooms")
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        Ok(())
    }

    /// Removes the table of a room from its queue. If the table is not built after that, a later reader queues it again. Returns
    /// false if another run has removed it.
    pub async fn unqueue_room(&self, queued: &QueuedRoom) -> Result<bool, StoreError> {
        let removed = self
            .room_queue_update(queued)
            .update_expression("DELETE rooms :rooms")
            .condition_expression("contains(rooms, :room)")
            .expression_attribute_values(":room", text(queued.to_text()))
            .call()
            .await;
        condition_held("UpdateItem", removed)
    }

    fn room_queue_update(&self, queued: &QueuedRoom) -> UpdateItemFluentBuilder {
        self.client
            .update_item()
            .table_name(&self.tables.standings)
            .set_key(Some(keys::queued_rooms(queued.queue()).into()))
            .expression_attribute_values(":rooms", AttributeValue::Ss(vec![queued.to_text()]))
    }

    /// Reads which tables of rooms must be built.
    pub async fn queued_rooms(&self) -> Result<BTreeSet<QueuedRoom>, StoreError> {
        let keys = (0..QUEUES).map(|queue| keys::queued_rooms(queue).into()).collect();
        let items = self.batch_get(&self.tables.standings, keys, Reads::Eventual).await?;
        let rooms = items.iter().filter_map(|item| item.get("rooms")?.as_ss().ok()).flatten();
        Ok(rooms.filter_map(|queued| QueuedRoom::parse(queued)).collect())
    }

    /// Reads the counters of a room and their version, eventually consistent. The version grows with every change of them.
    pub async fn versioned_room_counts(&self, room: &RoomId) -> Result<(RoomCounts, i64), StoreError> {
        let found = self.get_item(&self.tables.rooms, keys::room_tally(room), Reads::Eventual).await?;
        let item = found.unwrap_or_default();
        Ok((read_counters(&item), integer(&item, SUMMED).unwrap_or(0)))
    }

    /// Reads the ids of all joined members of a room. Reads the shards in `used`.
    pub async fn member_ids(&self, room: &Room, used: &[(u8, usize)]) -> Result<Vec<UserId>, StoreError> {
        let used: Vec<u8> = used.iter().map(|(shard, _)| *shard).collect();
        let shards = stream::iter(used).map(|shard| {
            stream::try_unfold(Some(None), move |after| async move {
                let Some(after) = after else { return Ok::<_, StoreError>(None) };
                let (members, is_last) =
                    self.members_page(room, shard, after, PAGE, Reads::Consistent).await?;
                let next = members.last().filter(|_| !is_last).map(|last| Some(last.user_id));
                Ok(Some((members, next)))
            })
            .boxed()
        });
        let pages: Vec<Vec<Member>> = shards.flatten_unordered(CONCURRENT).try_collect().await?;
        Ok(pages.into_iter().flatten().filter(Member::has_joined).map(|member| member.user_id).collect())
    }

    /// Reads the counters that put users on boards, strongly consistent. Leaves out users whom an operator has taken off the
    /// boards, but not users without counters.
    pub async fn ranked_tallies(&self, users: &[UserId]) -> Result<Vec<(UserId, UserTally)>, StoreError> {
        let read = |item: Item| Ok((integer(&item, "user_id"), read_ranked(&item)));
        let found = self.items_of_users(users, keys::user_stats, read).await?;
        let mut found: HashMap<Option<i64>, Option<UserTally>> = found.into_iter().collect();
        let tally = |user: &UserId| {
            let tally = found.remove(&Some(i64::from(user.0))).unwrap_or_else(|| Some(UserTally::default()));
            tally.map(|tally| (*user, tally))
        };
        Ok(users.iter().filter_map(tally).collect())
    }

    /// Reads the predictions of users for a match, strongly consistent. Users without a prediction are left out.
    pub async fn predictions_of_members(
        &self,
        event: u32,
        shards: u8,
        users: &[UserId],
    ) -> Result<HashMap<UserId, Prediction>, StoreError> {
        let read = |item| predictions::read(item).map(|prediction| (prediction.user_id, prediction));
        let found = self.items_of_users(users, |user| keys::prediction(event, shards, user), read).await?;
        Ok(found.into_iter().collect())
    }

    /// Reads an item of the table `predictions` for each user, strongly consistent. Missing items are left out. Items are much
    /// larger than what `read` takes from them, so they are not all kept in memory.
    async fn items_of_users<T: Send>(
        &self,
        users: &[UserId],
        key: impl Fn(UserId) -> keys::Key,
        read: impl Fn(Item) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let batches: Vec<_> = users
            .chunks(100)
            .map(|users| {
                let keys = users.iter().map(|user| key(*user).into()).collect();
                self.batch_get(&self.tables.predictions, keys, Reads::Consistent).boxed()
            })
            .collect();
        let mut batches = stream::iter(batches).buffered(CONCURRENT);
        let mut found = Vec::with_capacity(users.len());
        while let Some(items) = batches.try_next().await? {
            for item in items {
                found.push(read(item)?);
            }
        }
        Ok(found)
    }
}
