//! Changes of tables, as Lambda delivers them.

use serde::Deserialize;
use serde_json::Value;

use super::keys::Key;
use super::tallies::{self, CountedRecord};
use super::users::{self, ChosenTeam};
use super::{Item, StoreError, from_item, keys, members, predictions};
use crate::domain::room::{Member, Room};
use crate::domain::{Prediction, UserId};

/// A record's place in its stream shard. Compares as the store orders them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(u128);

/// The longest number that the store keeps exactly. Sequences have 21 digits, or some more.
const DIGITS: usize = 38;

impl Sequence {
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let well_formed = (1..=DIGITS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| well_formed).map(Self)
    }

    pub(super) fn number(self) -> u128 {
        self.0
    }
}

/// One change.
#[derive(Debug)]
pub struct Record {
    /// As it arrived: whoever reports a failure names it.
    pub number: String,
    pub sequence: Sequence,
    /// Within a lane, records arrive in the order of their sequences.
    pub lane: String,
    pub change: Change,
}

/// What changed.
#[derive(Debug)]
pub enum Change {
    Prediction {
        old: Option<Prediction>,
        new: Option<Prediction>,
    },
    Member {
        key: Key,
        old: Option<Member>,
        new: Option<Member>,
    },
    Room {
        old: Option<Room>,
        new: Option<Room>,
    },
    /// A user's record over all matches.
    Record {
        user: UserId,
        counted: CountedRecord,
    },
    /// Somebody chose the team that they are for.
    Team {
        user: UserId,
        chosen: ChosenTeam,
    },
    /// Nothing that anybody counts.
    Other,
}

/// What was delivered, and what of it cannot be read.
#[derive(Debug, Default)]
pub struct Batch {
    pub records: Vec<Record>,
    pub unreadable: Vec<Unreadable>,
}

/// A record that makes no sense. Nobody can count it, and nothing must wait for it.
#[derive(Debug)]
pub struct Unreadable {
    pub number: String,
    pub raw: Value,
}

#[derive(Deserialize)]
struct Delivery {
    #[serde(rename = "Records", default)]
    records: Vec<Value>,
    /// Sent where the mapping has a tumbling window, as ours do.
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
    /// Reads what a stream mapping delivers.
    pub fn read(event: Value) -> Result<Self, StoreError> {
        let delivery: Delivery =
            serde_json::from_value(event).map_err(|_| StoreError::Unreadable("a batch of changes"))?;
        let mut batch = Self::default();
        for raw in delivery.records {
            match Record::read(&raw, delivery.shard.as_deref()) {
                Ok(record) => batch.records.push(record),
                Err(error) => {
                    let number = raw["dynamodb"]["SequenceNumber"].as_str().unwrap_or_default().to_owned();
                    tracing::error!(%error, number, "a change cannot be read");
                    batch.unreadable.push(Unreadable { number, raw: without_people(raw) });
                }
            }
        }
        Ok(batch)
    }
}

/// What is set aside is kept for a while, and a profile is nobody's business: of one, its key is enough.
fn without_people(mut raw: Value) -> Value {
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
            Change::Prediction { old: read(old)?, new: read(new)? }
        } else if keys::is_member(&pk, &sk) {
            let read = |image: Option<Item>| image.map(members::read_member).transpose();
            Change::Member { key: Key { pk: pk.clone(), sk }, old: read(old)?, new: read(new)? }
        } else if keys::is_room(&pk, &sk) {
            let read = |image: Option<Item>| image.map(from_item).transpose();
            Change::Room { old: read(old)?, new: read(new)? }
        } else if let (Some(user), Some(new)) = (keys::stats_owner(&pk, &sk), &new) {
            Change::Record { user, counted: tallies::read_record(new.clone())? }
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
            // Without the shard's name its partition key serves: the changes of one come in one order
            // as long as the store keeps it in one place.
            lane: shard
                .map_or(pk, |shard| shard.trim_start_matches("shardId-").trim_start_matches('0').to_owned()),
            change,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_compare_as_numbers() {
        let sequence = |text| Sequence::parse(text).unwrap();
        assert!(sequence("9") < sequence("10"));
        assert!(sequence("400000000000000499660") < sequence("4421584500000000017450439091"));
        assert_eq!(sequence("007"), sequence("7"));
        for text in ["", "x", "-1", "1.0", &"9".repeat(39)] {
            assert_eq!(Sequence::parse(text), None, "{text}");
        }
    }
}
