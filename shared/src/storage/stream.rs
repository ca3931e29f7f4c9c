//! Changes of items, as Lambda delivers them from DynamoDB Streams.

use std::time::Duration;

use aws_sdk_dynamodb::types::ReturnValue;
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;
use serde_json::{Value, json};

use super::cleanups::{self, Cleanup};
use super::client::Call as _;
use super::error::StoreError;
use super::item::{Item, Key, from_item, number, text};
use super::sequence::Sequence;
use super::store::Store;
use super::tallies::{self, Aggregate, VersionedStats, Whole};
use super::users::{self, ChosenTeam};
use super::{keys, members, predictions, standings};
use crate::domain::marker::{MarkerId, Place, Sighting};
use crate::domain::room::{Member, Room};
use crate::domain::standings::{Board, UserTally};
use crate::domain::{Prediction, UserId, digest};

/// One stream record.
#[derive(Debug)]
pub struct Record {
    /// The sequence number, as the text that Lambda sent. If the record fails, our response to Lambda
    /// identifies the record by this text.
    pub number: String,
    pub sequence: Sequence,
    /// The stream shard of the record. The records of a shard arrive in the order of their sequence numbers.
    pub shard: String,
    /// When the item changed. `None` if the record does not say.
    pub changed_at: Option<DateTime<Utc>>,
    /// The key of the item that changed.
    pub key: Key,
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
        /// The marker that a recount of the user's statistics has written into the row with this change.
        sighting: Option<Sighting>,
    },
    Member {
        /// The shard of the room.
        shard: u8,
        old: Option<Member>,
        new: Option<Member>,
    },
    /// `old` is also `None` if a recount has marked the room, to have its directory entries written again.
    Room { old: Option<Room>, new: Option<Room> },
    /// A recount has written a marker into the partition whose rows this aggregate counts.
    Marker { aggregate: Aggregate, sighting: Sighting },
    /// A change of the counters that sum up a user's predictions.
    UserStats {
        user: UserId,
        stats: VersionedStats,
        /// Whether the statistics over all matches have changed.
        is_counted: bool,
        /// The boards on which the user's row has changed, except those that are not built any more.
        boards: Vec<Board>,
    },
    /// A part of the counters of a match or a room has another version.
    Part(Whole),
    /// A user chose their primary team.
    Team { user: UserId, chosen: ChosenTeam },
    /// A session has ended, with this chat device.
    SessionEnded { user: UserId, device_id: String },
    /// Work that must be finished was stored.
    Cleanup(Cleanup),
    /// A change that no function uses.
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
    /// Seconds since 1970.
    approximate_creation_date_time: Option<f64>,
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
                    batch.unreadable.push(Unreadable { number, raw: without_personal_data(raw) });
                }
            }
        }
        Ok(batch)
    }
}

/// Removes personal data from a raw record: if the changed item is a profile, only its key and the sequence number remain.
fn without_personal_data(raw: Value) -> Value {
    if raw["dynamodb"]["Keys"]["sk"]["S"] == keys::PROFILE { identity_of(&raw) } else { raw }
}

/// Reduces a raw record to the parts that identify the change: the key of the item and the sequence number. A phone in the
/// key is left out, because the result is kept for two weeks.
fn identity_of(raw: &Value) -> Value {
    let change = &raw["dynamodb"];
    let mut keys = change["Keys"].clone();
    if let Some(pk) = keys["pk"]["S"].as_str().map(|pk| keys::without_phone(pk).to_owned()) {
        keys["pk"]["S"] = pk.into();
    }
    json!({ "dynamodb": { "Keys": keys, "SequenceNumber": change["SequenceNumber"] } })
}

impl Record {
    fn read(raw: &Value, shard: Option<&str>) -> Result<Self, StoreError> {
        let unreadable = || StoreError::Unreadable("a change");
        let raw: RawChange = serde_json::from_value(raw.get("dynamodb").cloned().ok_or_else(unreadable)?)
            .map_err(|_| unreadable())?;
        let (pk, sk) = (raw.keys.pk.text, raw.keys.sk.text);
        let (old, new) = (raw.old_image.map(Item::from), raw.new_image.map(Item::from));
        let marker = new_marker(old.as_ref(), new.as_ref());
        // Without a shard id, use a hash of the partition key. Changes with the same partition key arrive in order as long as
        // DynamoDB keeps them in one stream shard. The key can contain a phone, and tables store the name of the shard.
        let stream_shard = shard.map_or_else(
            || digest(&[&pk]),
            |shard| shard.trim_start_matches("shardId-").trim_start_matches('0').to_owned(),
        );
        let change = if keys::is_prediction(&pk, &sk) {
            let read = |image: Option<Item>| image.map(predictions::read).transpose();
            let shard = keys::shard_of(&pk).ok_or_else(unreadable)?;
            let new = read(new)?;
            let place = new.as_ref().map(|row| Place::prediction(row.event_id));
            let sighting = marker.zip(place).map(|(marker, place)| Sighting { marker, place });
            Change::Prediction { shard, old: read(old)?, new, sighting }
        } else if let (Some(end), Some(marker)) = (keys::marker_end(&sk), &marker) {
            let aggregate = Aggregate::of_partition(&pk).ok_or_else(unreadable)?;
            let place = Place::end(end, &stream_shard);
            Change::Marker { aggregate, sighting: Sighting { marker: marker.clone(), place } }
        } else if keys::is_member(&pk, &sk) {
            let read = |image: Option<Item>| image.map(members::read_member).transpose();
            let shard = keys::shard_of(&pk).ok_or_else(unreadable)?;
            Change::Member { shard, old: read(old)?, new: read(new)? }
        } else if keys::is_room(&pk, &sk) {
            let read = |image: Option<Item>| image.map(from_item).transpose();
            let old = old.filter(|_| marker.is_none());
            Change::Room { old: read(old)?, new: read(new)? }
        } else if let (Some(whole), Some(new)) = (Whole::of_part(&pk, &sk), &new) {
            // The removal of old positions changes the part, too, but not its version.
            let is_counted = tallies::version(new) != old.as_ref().map_or(0, tallies::version);
            if is_counted { Change::Part(whole) } else { Change::Other }
        } else if let (Some(user), Some(new)) = (keys::stats_owner(&pk, &sk), &new) {
            let stats = tallies::read_stats(new.clone())?;
            let before = old.as_ref().and_then(standings::read_ranked).unwrap_or_default();
            let changed_at = raw.approximate_creation_date_time.and_then(time).unwrap_or_default();
            let mut boards = standings::read_ranked(new).unwrap_or_default().changed_boards(&before);
            // Points that were awarded before a board closed can be counted after that. The removal of the counters of a closed
            // board, much later, does not change the board.
            boards.retain(|board| !board.is_closed(changed_at - UserTally::BUILT_AFTER_CLOSE));
            // The removal of old positions changes the item, too, but not the statistics.
            let is_counted = old.map(tallies::read_stats).transpose()?.as_ref() != Some(&stats);
            if is_counted || !boards.is_empty() {
                Change::UserStats { user, stats, is_counted, boards }
            } else {
                Change::Other
            }
        } else if let (Some(user), Some(new)) = (keys::profile_owner(&pk, &sk), &new) {
            match (old.map(users::read_team).transpose()?.flatten(), users::read_team(new.clone())?) {
                (before, Some(chosen)) if before.as_ref() != Some(&chosen) => Change::Team { user, chosen },
                _ => Change::Other,
            }
        } else if let Some(user) = keys::session_owner(&pk, &sk) {
            match users::ended_device(old, new)? {
                Some(device_id) => Change::SessionEnded { user, device_id },
                None => Change::Other,
            }
        } else if let (keys::CLEANUP, Some(new)) = (pk.as_str(), new) {
            Change::Cleanup(cleanups::read(new)?)
        } else {
            Change::Other
        };
        Ok(Self {
            sequence: Sequence::parse(&raw.sequence_number).ok_or_else(unreadable)?,
            number: raw.sequence_number,
            shard: stream_shard,
            changed_at: raw.approximate_creation_date_time.and_then(time),
            key: Key { pk, sk },
            change,
        })
    }

    /// Returns the parts of the record that identify the change: the key without a phone, and the sequence number.
    #[must_use]
    pub fn identity(&self) -> Value {
        let (pk, sk) = (keys::without_phone(&self.key.pk), &self.key.sk);
        json!({ "dynamodb": { "Keys": { "pk": { "S": pk }, "sk": { "S": sk } }, "SequenceNumber": self.number } })
    }
}

/// Returns the time that is this many seconds after 1970.
fn time(seconds: f64) -> Option<DateTime<Utc>> {
    let since = TimeDelta::from_std(Duration::try_from_secs_f64(seconds).ok()?).ok()?;
    DateTime::UNIX_EPOCH.checked_add_signed(since)
}

/// The attribute of a row or a marker item that holds the id of the last marker.
pub(super) const MARKER: &str = "marker";

/// Returns the marker that a change has written. Other changes of the item keep the marker of an earlier recount.
fn new_marker(old: Option<&Item>, new: Option<&Item>) -> Option<MarkerId> {
    let before = old.and_then(|item| item.get(MARKER));
    let marker = new?.get(MARKER).filter(|marker| before != Some(marker))?;
    Some(MarkerId::stored(marker.as_s().ok()?))
}

/// How long stream records that were set aside are kept.
const SET_ASIDE_KEPT: TimeDelta = TimeDelta::days(14);

/// How long the first failure of a stream record is remembered. The stream keeps a record for a day.
const FAILURES_KEPT: TimeDelta = TimeDelta::days(2);

/// The maximum size of a raw record that is stored as a whole, in bytes. DynamoDB limits an item to 400 KB.
const LARGEST_RAW: usize = 300_000;

impl Store {
    /// Stores a stream record that cannot be processed, for operators. `change` is the raw record or a part of it.
    pub async fn set_aside(
        &self,
        sequence: &str,
        change: &Value,
        reason: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        // The sequence number becomes the sort key, which cannot be empty.
        let sequence = if sequence.is_empty() { "?" } else { sequence };
        let mut raw = change.to_string();
        if raw.len() > LARGEST_RAW {
            raw = identity_of(change).to_string();
        }
        self.client
            .put_item()
            .table_name(&self.tables.predictions)
            .set_item(Some(keys::set_aside(sequence).into()))
            .item("change", text(raw))
            .item("reason", text(reason))
            .item("expires_at", number((now + SET_ASIDE_KEPT).timestamp()))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        Ok(())
    }

    /// Stores that a stream record failed now. Returns when it failed first.
    pub async fn failing_since(
        &self,
        sequence: &str,
        now: DateTime<Utc>,
    ) -> Result<DateTime<Utc>, StoreError> {
        #[derive(Deserialize)]
        struct Row {
            #[serde(with = "chrono::serde::ts_milliseconds")]
            since: DateTime<Utc>,
        }
        let stored = self
            .client
            .update_item()
            .table_name(&self.tables.predictions)
            .set_key(Some(keys::failing(sequence).into()))
            .update_expression("SET since = if_not_exists(since, :now), expires_at = :expires")
            .expression_attribute_values(":now", number(now.timestamp_millis()))
            .expression_attribute_values(":expires", number((now + FAILURES_KEPT).timestamp()))
            .return_values(ReturnValue::AllNew)
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        Ok(from_item::<Row>(stored.attributes.unwrap_or_default())?.since)
    }
}
