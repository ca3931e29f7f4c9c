//! Changes of items, as Lambda delivers them from DynamoDB Streams.

use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::Value;

use super::error::StoreError;
use super::item::{Item, Key, from_item, number, text};
use super::sequence::Sequence;
use super::store::Store;
use super::tallies::{self, VersionedStats};
use super::users::{self, ChosenTeam};
use super::{keys, members, predictions};
use crate::domain::room::{Member, Room};
use crate::domain::{Prediction, UserId};

/// One stream record.
#[derive(Debug)]
pub struct Record {
    /// The sequence number, as the text that Lambda sent. If the record fails, our response to Lambda
    /// identifies the record by this text.
    pub number: String,
    pub sequence: Sequence,
    /// The stream shard of the record. The records of a shard arrive in the order of their sequence numbers.
    pub shard: String,
    pub change: Change,
}

/// Which item changed. In the variants with `old` and `new`, `old` is the item before the change, or `None` if
/// the change created the item. `new` is the item after the change, or `None` if the change deleted the item.
#[derive(Debug)]
pub enum Change {
    Prediction {
        /// The shard of the match.
        shard: u8,
        old: Option<Prediction>,
        new: Option<Prediction>,
    },
    Member {
        key: Key,
        /// The shard of the room.
        shard: u8,
        old: Option<Member>,
        new: Option<Member>,
    },
    Room {
        old: Option<Room>,
        new: Option<Room>,
    },
    /// A change of the counters that sum up a user's predictions.
    UserStats {
        user: UserId,
        stats: VersionedStats,
    },
    /// A user chose their primary team.
    Team {
        user: UserId,
        chosen: ChosenTeam,
    },
    /// A change that the function `tally` ignores.
    Other,
}

/// The records of one delivery from Lambda.
#[derive(Debug, Default)]
pub struct Batch {
    pub records: Vec<Record>,
    pub unreadable: Vec<Unreadable>,
}

/// A stream record that does not parse. The function `tally` stores it for inspection and processes the other
/// records.
#[derive(Debug)]
pub struct Unreadable {
    pub number: String,
    pub raw: Value,
}

#[derive(Deserialize)]
struct Delivery {
    #[serde(rename = "Records", default)]
    records: Vec<Value>,
    /// Lambda sends the shard id if the event source mapping has a tumbling window. All of our mappings have
    /// one.
    #[serde(rename = "shardId")]
    shard: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct RawChange {
    keys: RawKeys,
    new_image: Option<serde_dynamo::Item>,
    old_image: Option<serde_dynamo::Item>,
    sequence_number: String,
}

#[derive(Deserialize)]
struct RawKeys {
    pk: RawText,
    sk: RawText,
}

#[derive(Deserialize)]
struct RawText {
    #[serde(rename = "S")]
    text: String,
}

impl Batch {
    /// Parses a delivery. Records that do not parse go to [`Batch::unreadable`].
    pub fn read(event: Value) -> Result<Self, StoreError> {
        let delivery: Delivery =
            serde_json::from_value(event).map_err(|_| StoreError::Unreadable("a batch of changes"))?;
        let mut batch = Self::default();
        for raw in delivery.records {
            match Record::read(&raw, delivery.shard.as_deref()) {
                Ok(record) => batch.records.push(record),
                Err(error) => {
                    let number = raw["dynamodb"]["SequenceNumber"].as_str().unwrap_or_default().to_owned();
                    tracing::error!(%error, number, "cannot read a stream record");
                    batch.unreadable.push(Unreadable { number, raw: without_profile(raw) });
                }
            }
        }
        Ok(batch)
    }
}

/// Removes personal data from a raw record: if the changed item is a profile, only its key and the sequence
/// number remain.
fn without_profile(mut raw: Value) -> Value {
    if raw["dynamodb"]["Keys"]["sk"]["S"] == "profile"
        && let Some(change) = raw["dynamodb"].as_object_mut()
    {
        change.retain(|field, _| field == "Keys" || field == "SequenceNumber");
    }
    raw
}

impl Record {
    fn read(raw: &Value, shard: Option<&str>) -> Result<Self, StoreError> {
        let unreadable = || StoreError::Unreadable("a change");
        let raw: RawChange = serde_json::from_value(raw.get("dynamodb").cloned().ok_or_else(unreadable)?)
            .map_err(|_| unreadable())?;
        let (pk, sk) = (raw.keys.pk.text, raw.keys.sk.text);
        let (old, new) = (raw.old_image.map(Item::from), raw.new_image.map(Item::from));
        let change = if keys::is_prediction(&pk, &sk) {
            let read = |image: Option<Item>| image.map(predictions::read).transpose();
            let shard = keys::shard_of(&pk).ok_or_else(unreadable)?;
            Change::Prediction { shard, old: read(old)?, new: read(new)? }
        } else if keys::is_member(&pk, &sk) {
            let read = |image: Option<Item>| image.map(members::read_member).transpose();
            let shard = keys::shard_of(&pk).ok_or_else(unreadable)?;
            Change::Member { key: Key { pk: pk.clone(), sk }, shard, old: read(old)?, new: read(new)? }
        } else if keys::is_room(&pk, &sk) {
            let read = |image: Option<Item>| image.map(from_item).transpose();
            Change::Room { old: read(old)?, new: read(new)? }
        } else if let (Some(user), Some(new)) = (keys::stats_owner(&pk, &sk), &new) {
            let stats = tallies::read_stats(new.clone())?;
            // The removal of old positions changes the item, too, but not the statistics.
            match old.map(tallies::read_stats).transpose()? {
                Some(before) if before == stats => Change::Other,
                _ => Change::UserStats { user, stats },
            }
        } else if let (Some(user), Some(new)) = (keys::profile_owner(&pk, &sk), new) {
            match (old.map(users::read_team).transpose()?.flatten(), users::read_team(new)?) {
                (before, Some(chosen)) if before.as_ref() != Some(&chosen) => Change::Team { user, chosen },
                _ => Change::Other,
            }
        } else {
            Change::Other
        };
        Ok(Self {
            sequence: Sequence::parse(&raw.sequence_number).ok_or_else(unreadable)?,
            number: raw.sequence_number,
            // Without a shard id, use the partition key. Changes with the same partition key arrive in order
            // as long as DynamoDB keeps them in one stream shard.
            shard: shard
                .map_or(pk, |shard| shard.trim_start_matches("shardId-").trim_start_matches('0').to_owned()),
            change,
        })
    }
}

/// How long unreadable stream records are kept.
const UNREADABLE_KEPT: TimeDelta = TimeDelta::days(14);

impl Store {
    /// Stores an unreadable stream record for inspection.
    pub async fn save_unreadable(&self, record: &Unreadable, now: DateTime<Utc>) -> Result<(), StoreError> {
        // The sequence number becomes the sort key, which cannot be empty.
        let sequence = if record.number.is_empty() { "?" } else { &record.number };
        self.client
            .put_item()
            .table_name(&self.tables.predictions)
            .set_item(Some(keys::unreadable(sequence).into()))
            .item("change", text(record.raw.to_string()))
            .item("expires_at", number((now + UNREADABLE_KEPT).timestamp()))
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        Ok(())
    }
}
