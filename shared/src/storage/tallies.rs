//! Reads the counters of matches, rooms and users. The Lambda function `tally` writes them.
//!
//! A match or a room has a counter item for each of its shards: a part. [`Store::fold`](super::exactly_once) adds
//! changes to a part. When the stream record of the changed part arrives, `tally` calls [`Store::roll_up`]. It stores the
//! sums of all parts in the item that requests read. The parts of a match have one partition key, so one batch of stream
//! records can hold changes of many parts, and `tally` adds the parts up once for all of them. A part also holds positions
//! in stream shards. All rows that it counts have one partition key, so their changes come from one
//! stream shard at a time. With one item for all shards, a popular match would have hundreds of positions: every fold
//! would write them, and every request would read them.
//!
//! The statistics of a user are one item. A user changes few rows in a day, so the item has few positions.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::Deserialize;

use super::client::Call as _;
use super::condition::condition_held;
use super::error::StoreError;
use super::item::{Item, Key, from_item, number, text};
use super::keys;
use super::store::{Reads, Store, every_item};
use crate::config::Tables;
use crate::domain::tally::{Counters, EventCounts, EventTally, RoomCounts, UserStats};
use crate::domain::{RoomId, UserId};

/// Identifies a counter item to which [`Store::fold`] adds changes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aggregate {
    /// The predictions in one shard of a match.
    EventPart { event: u32, shard: u8 },
    /// The predictions of a user.
    User(UserId),
    /// The members in one shard of a room.
    RoomPart { room: RoomId, shard: u8 },
}

impl Aggregate {
    pub(super) fn key(&self) -> Key {
        match self {
            Self::EventPart { event, shard } => keys::event_tally_part(*event, *shard),
            Self::User(user) => keys::user_stats(*user),
            Self::RoomPart { room, shard } => keys::room_tally_part(room, *shard),
        }
    }

    pub(super) fn table<'a>(&self, tables: &'a Tables) -> &'a str {
        match self {
            Self::EventPart { .. } | Self::User(_) => &tables.predictions,
            Self::RoomPart { .. } => &tables.rooms,
        }
    }

    /// Returns the version before the first fold. Memberships have copies of users' statistics with the versions that
    /// version 0.1.0 gave them, under another key. Versions of the same user must be higher.
    pub(super) fn base_version(&self) -> i64 {
        match self {
            Self::User(_) => 1_000_000,
            Self::EventPart { .. } | Self::RoomPart { .. } => 0,
        }
    }

    /// Returns the name and value of the id attribute.
    pub(super) fn id_attribute(&self) -> (&'static str, AttributeValue) {
        match self {
            Self::EventPart { event, .. } => event_id(*event),
            Self::User(user) => ("user_id", number(user)),
            Self::RoomPart { room, .. } => room_id(room),
        }
    }

    /// Returns the part that counts the rows of a partition. `None` if it is no partition of predictions or members.
    #[must_use]
    pub fn of_partition(pk: &str) -> Option<Self> {
        let event = keys::predicted_event(pk).map(|(event, shard)| Self::EventPart { event, shard });
        event.or_else(|| keys::room_of_members(pk).map(|(room, shard)| Self::RoomPart { room, shard }))
    }
}

fn event_id(event: u32) -> (&'static str, AttributeValue) {
    ("event_id", number(event))
}

fn room_id(room: &RoomId) -> (&'static str, AttributeValue) {
    ("room_id", text(room.as_str()))
}

/// Identifies counters that have parts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Whole {
    Event(u32),
    Room(RoomId),
}

impl Whole {
    /// Returns the match or the room of a part. `None` if the key is not that of a part.
    pub(super) fn of_part(pk: &str, sk: &str) -> Option<Self> {
        if !keys::is_tally_part(sk) {
            return None;
        }
        keys::counted_event(pk).map(Self::Event).or_else(|| keys::counted_room(pk).map(Self::Room))
    }
}

/// The attribute that holds the sum of the versions of the parts.
pub(super) const SUMMED: &str = "summed";

/// The parts of a match or a room.
pub(super) struct Parts<C> {
    /// The sums of the parts' counters.
    pub sums: C,
    /// The sum of the parts' versions.
    pub versions: i64,
    /// The item with the stored sums.
    pub stored: Option<Item>,
}

impl Store {
    /// Stores the sums of the parts of a match or a room, unless sums of later versions are stored. The version of
    /// a part grows with every fold, so the sum of the versions tells which sums are later. Idempotent. Call
    /// it whenever the version of a part has changed.
    pub async fn roll_up(&self, whole: &Whole) -> Result<(), StoreError> {
        match whole {
            Whole::Event(event) => {
                let (table, key) = (&self.tables.predictions, keys::event_tally(*event));
                self.roll_up_item::<EventTally>(table, key, event_id(*event)).await
            }
            Whole::Room(room) => {
                let (table, key) = (&self.tables.rooms, keys::room_tally(room));
                self.roll_up_item::<RoomCounts>(table, key, room_id(room)).await
            }
        }
    }

    async fn roll_up_item<C: Counters>(
        &self,
        table: &str,
        key: Key,
        (id_name, id): (&str, AttributeValue),
    ) -> Result<(), StoreError> {
        let Parts { sums, versions, stored } = self.parts::<C>(table, &key).await?;
        let summed = stored.as_ref().and_then(|stored| integer(stored, SUMMED));
        if summed.is_some_and(|summed| summed >= versions) {
            return Ok(());
        }
        let mut item = Item::from(key);
        item.insert(id_name.to_owned(), id);
        item.insert(SUMMED.to_owned(), number(versions));
        let fields = sums.fields().into_iter().filter(|(_, count)| *count != 0);
        item.extend(fields.map(|(name, count)| (name.into_owned(), number(count))));
        let put = self
            .client
            .put_item()
            .table_name(table)
            .set_item(Some(item))
            .condition_expression("attribute_not_exists(#summed) OR #summed < :summed")
            .expression_attribute_names("#summed", SUMMED)
            .expression_attribute_values(":summed", number(versions))
            .call()
            .await;
        // If the condition fails, a concurrent invocation has stored later sums.
        condition_held("PutItem", put).map(|_| ())
    }

    /// Reads the parts of a match or a room, and their stored sums. `key` is the key of the sums.
    pub(super) async fn parts<C: Counters>(&self, table: &str, key: &Key) -> Result<Parts<C>, StoreError> {
        let query = self
            .client
            .query()
            .table_name(table)
            .key_condition_expression("pk = :pk AND begins_with(sk, :tally)")
            .expression_attribute_values(":pk", text(&key.pk))
            .expression_attribute_values(":tally", text(keys::TALLY))
            // The sums must include the last fold. If they missed it, no later fold might come and correct them.
            .consistent_read(true);
        let mut parts = Parts { sums: C::default(), versions: 0, stored: None };
        // The sums sort before the parts, so they are read first. A concurrent fold can make the parts newer than the stored
        // sums, but not older.
        for item in every_item(query).await? {
            if item.get("sk") == Some(&text(&key.sk)) {
                parts.stored = Some(item);
            } else {
                parts.sums += read_counters(&item);
                parts.versions += version(&item);
            }
        }
        Ok(parts)
    }

    /// Reads the counters of a match, eventually consistent. All are zero before the first prediction.
    pub async fn event_tally(&self, event: u32) -> Result<EventTally, StoreError> {
        self.counters(&self.tables.predictions, keys::event_tally(event)).await
    }

    /// Reads counters, eventually consistent. All are zero if there is no such item.
    pub(super) async fn counters<C: Counters>(&self, table: &str, key: Key) -> Result<C, StoreError> {
        let found = self.get_item(table, key, Reads::Eventual).await?;
        Ok(found.as_ref().map_or_else(C::default, read_counters))
    }

    /// Reads the totals of a match, eventually consistent. All are zero before the first prediction.
    pub async fn event_counts(&self, event: u32) -> Result<EventCounts, StoreError> {
        Ok(self.event_tally(event).await?.counts)
    }

    /// Reads the number of predictions for each of up to 100 matches, eventually consistent. Matches without
    /// counters are left out.
    pub async fn prediction_counts(&self, events: &[u32]) -> Result<BTreeMap<u32, u64>, StoreError> {
        let totals = self.totals_of_events(events).await?;
        let count = |totals: EventCounts| u64::try_from(totals.predictions).unwrap_or(0);
        Ok(totals.into_iter().map(|(event, totals)| (event, count(totals))).collect())
    }

    /// Reads the totals of up to 100 matches, eventually consistent. Matches without counters are left out.
    pub async fn totals_of_events(&self, events: &[u32]) -> Result<BTreeMap<u32, EventCounts>, StoreError> {
        let keys: Vec<Item> = events.iter().map(|event| keys::event_tally(*event).into()).collect();
        let items = self.batch_get(&self.tables.predictions, keys, Reads::Eventual).await?;
        let totals = |item: &Item| {
            let event = integer(item, "event_id").and_then(|event| u32::try_from(event).ok());
            event.map(|event| (event, read_counters(item))).ok_or(StoreError::Unreadable("a match's totals"))
        };
        items.iter().map(totals).collect()
    }

    /// Reads a user's statistics over all matches, eventually consistent. All are zero before the user's first
    /// settled prediction.
    pub async fn user_stats(&self, user: UserId) -> Result<UserStats, StoreError> {
        self.counters(&self.tables.predictions, keys::user_stats(user)).await
    }

    /// Reads a user's statistics with their version, strongly consistent. Returns `None` before the user's first
    /// settled prediction.
    pub async fn versioned_stats(&self, user: UserId) -> Result<Option<VersionedStats>, StoreError> {
        self.get(&self.tables.predictions, keys::user_stats(user), Reads::Consistent).await
    }
}

/// Reads the counters of an item. Ignores its other attributes.
pub(super) fn read_counters<C: Counters>(item: &Item) -> C {
    let mut counters = C::default();
    for name in item.keys() {
        if let Some(count) = integer(item, name) {
            counters.set(name, count);
        }
    }
    counters
}

/// Returns the version of a part. It grows with every fold.
pub(super) fn version(part: &Item) -> i64 {
    integer(part, "version").unwrap_or(0)
}

/// Returns the value of an attribute, if it is an integer of at most 64 bits.
pub(super) fn integer(item: &Item, name: &str) -> Option<i64> {
    item.get(name)?.as_n().ok()?.parse().ok()
}

/// A user's statistics, and a version that grows with every change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct VersionedStats {
    #[serde(flatten)]
    pub stats: UserStats,
    /// Whether an operator has taken the user off the boards.
    #[serde(default)]
    pub unranked: bool,
    #[serde(default)]
    pub version: u64,
}

pub(super) fn read_stats(item: Item) -> Result<VersionedStats, StoreError> {
    from_item(item)
}
