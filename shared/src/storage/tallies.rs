//! Reads the counters of matches and users. The Lambda function `tally` writes them with `Store::fold`, in
//! `exactly_once.rs`.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::StoreError;
use super::item::{Item, Key, from_item, number, text};
use super::keys;
use super::store::{Reads, Store};
use crate::config::Tables;
use crate::domain::tally::{Counters, EventCounts, EventTally, UserStats};
use crate::domain::{RoomId, UserId};

/// Identifies a set of counters by its owner: a match, a user or a room.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aggregate {
    Event(u32),
    User(UserId),
    Room(RoomId),
}

impl Aggregate {
    pub(super) fn key(&self) -> Key {
        match self {
            Self::Event(event) => keys::event_tally(*event),
            Self::User(user) => keys::user_stats(*user),
            Self::Room(room) => keys::room_tally(room),
        }
    }

    pub(super) fn table<'a>(&self, tables: &'a Tables) -> &'a str {
        match self {
            Self::Event(_) | Self::User(_) => &tables.predictions,
            Self::Room(_) => &tables.rooms,
        }
    }

    /// Returns the name and value of the id attribute. A batch read returns items in any order, and its
    /// caller identifies them by this attribute.
    pub(super) fn id_attribute(&self) -> (&'static str, AttributeValue) {
        match self {
            Self::Event(event) => ("event_id", number(event)),
            Self::User(user) => ("user_id", number(user)),
            Self::Room(room) => ("room_id", text(room.as_str())),
        }
    }
}

impl Store {
    /// Reads the counters of a match, eventually consistent. All are zero before the first prediction.
    pub async fn event_tally(&self, event: u32) -> Result<EventTally, StoreError> {
        let (counts, others) = self.stored_counts(&self.tables.predictions, keys::event_tally(event)).await?;
        let mut tally = EventTally { counts, ..EventTally::default() };
        for (name, count) in others {
            tally.shards.set_stored(&name, count);
        }
        Ok(tally)
    }

    /// Reads counters, eventually consistent: the totals, and the other attributes with small numbers by name. Most of
    /// these are counters with an id in their name.
    pub(super) async fn stored_counts<T: Counters + DeserializeOwned>(
        &self,
        table: &str,
        key: Key,
    ) -> Result<(T, Vec<(String, i64)>), StoreError> {
        #[derive(Deserialize)]
        struct StoredCounts<T> {
            #[serde(flatten)]
            totals: T,
            #[serde(flatten)]
            others: BTreeMap<String, Value>,
        }
        let stored: Option<StoredCounts<T>> = self.get(table, key, Reads::Eventual).await?;
        let Some(StoredCounts { totals, others }) = stored else { return Ok((T::default(), Vec::new())) };
        Ok((totals, others.into_iter().filter_map(|(name, count)| Some((name, count.as_i64()?))).collect()))
    }

    /// Reads the totals of a match, eventually consistent. All are zero before the first prediction.
    pub async fn event_counts(&self, event: u32) -> Result<EventCounts, StoreError> {
        Ok(self.event_tally(event).await?.counts)
    }

    /// Reads the number of predictions for each of up to 100 matches, eventually consistent. Matches without
    /// counters are left out.
    pub async fn prediction_counts(&self, events: &[u32]) -> Result<BTreeMap<u32, u64>, StoreError> {
        #[derive(Deserialize)]
        struct Tally {
            event_id: u32,
            #[serde(default)]
            predictions: i64,
        }
        let keys: Vec<Item> = events.iter().map(|event| keys::event_tally(*event).into()).collect();
        let mut counts = BTreeMap::new();
        for item in self.batch_get(&self.tables.predictions, keys, Reads::Eventual).await? {
            let Tally { event_id, predictions } = from_item(item)?;
            counts.insert(event_id, u64::try_from(predictions).unwrap_or(0));
        }
        Ok(counts)
    }

    /// Reads a user's statistics over all matches, eventually consistent. All are zero before the user's first
    /// settled prediction.
    pub async fn user_stats(&self, user: UserId) -> Result<UserStats, StoreError> {
        let found = self.get(&self.tables.predictions, keys::user_stats(user), Reads::Eventual).await?;
        Ok(found.map_or_else(UserStats::default, |found: VersionedStats| found.stats))
    }

    /// Reads a user's statistics with their version, strongly consistent. Returns `None` before the user's first
    /// settled prediction.
    pub async fn versioned_stats(&self, user: UserId) -> Result<Option<VersionedStats>, StoreError> {
        self.get(&self.tables.predictions, keys::user_stats(user), Reads::Consistent).await
    }
}

/// A user's statistics, and a version that grows with every change.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct VersionedStats {
    #[serde(flatten)]
    pub stats: UserStats,
    #[serde(default)]
    pub version: u64,
}

pub(super) fn read_stats(item: Item) -> Result<VersionedStats, StoreError> {
    from_item(item)
}
