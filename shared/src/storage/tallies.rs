//! Counts, folded from streams exactly once.
//!
//! An aggregate's item keeps, for each lane of a stream, the last sequence that it has taken in. A fold
//! adds a run of changes and moves that mark in one conditional write, so that whatever is delivered
//! again, alone or in other batches, changes nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::keys::Key;
use super::stream::{Sequence, Unreadable};
use super::{Item, Reads, Store, StoreError, from_item, keys, made, number, refused_item, text};
use crate::config::Tables;
use crate::domain::room::Day;
use crate::domain::tally::{Counters, EventCounts, RoomCounts, UserRecord};
use crate::domain::{RoomId, UserId};

/// What is counted for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aggregate {
    Event(u32),
    User(UserId),
    Room(RoomId),
}

/// What one record adds to an aggregate.
#[derive(Debug, Clone)]
pub struct Addition<C> {
    pub sequence: Sequence,
    pub counts: C,
}

/// A stream shard is written to for some hours and forgotten a day later. The mark of one that is older
/// than this cannot be needed again.
const MARKS_KEPT: TimeDelta = TimeDelta::hours(36);

/// How many marks are swept out at once: an expression has room for some hundred.
const SWEPT_AT_ONCE: usize = 80;

const MARK: &str = "seen:";

impl Aggregate {
    fn key(&self) -> Key {
        match self {
            Self::Event(event) => keys::event_tally(*event),
            Self::User(user) => keys::user_stats(*user),
            Self::Room(room) => keys::room_tally(room),
        }
    }

    fn table<'a>(&self, tables: &'a Tables) -> &'a str {
        match self {
            Self::Event(_) | Self::User(_) => &tables.predictions,
            Self::Room(_) => &tables.rooms,
        }
    }

    /// The attribute by which readers know whose counts they have.
    fn identity(&self) -> (&'static str, AttributeValue) {
        match self {
            Self::Event(event) => ("event_id", number(event)),
            Self::User(user) => ("user_id", number(user)),
            Self::Room(room) => ("room_id", text(room.as_str())),
        }
    }
}

impl Store {
    /// Adds a run of changes from one lane, in the order of their sequences, each once.
    pub async fn fold<C: Counters>(
        &self,
        aggregate: &Aggregate,
        lane: &str,
        additions: &[Addition<C>],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let mark = format!("{MARK}{lane}");
        let mut open = additions;
        // Each refusal says what is in there already. A second one means that the same lane is being
        // folded elsewhere at this very moment; that ends with their last record.
        let mut refusals = 0;
        while refusals < 10 {
            let (now_adding, fields) = longest_run(open);
            let (Some(first), Some(last)) = (now_adding.first(), now_adding.last()) else { return Ok(()) };
            let (identity, id) = aggregate.identity();
            let mut update = self
                .client
                .update_item()
                .table_name(aggregate.table(&self.tables))
                .set_key(Some(aggregate.key().into()))
                .condition_expression("attribute_not_exists(#mark) OR #mark < :first")
                .expression_attribute_names("#mark", &mark)
                .expression_attribute_names("#id", identity)
                .expression_attribute_values(":id", id)
                .expression_attribute_values(":first", number(first.sequence.number()))
                .expression_attribute_values(":last", number(last.sequence.number()))
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            // The version tells whoever copies the counts which copy is the newer one.
            let mut adds = vec!["version :one".to_owned()];
            update = update.expression_attribute_values(":one", number(1));
            for (at, (name, count)) in fields.into_iter().enumerate() {
                adds.push(format!("#f{at} :f{at}"));
                update = update
                    .expression_attribute_names(format!("#f{at}"), name)
                    .expression_attribute_values(format!(":f{at}"), number(count));
            }
            let expression = format!("SET #mark = :last, #id = :id ADD {}", adds.join(", "));
            match update.update_expression(expression).send().await {
                Ok(_) if now_adding.len() < open.len() => open = &open[now_adding.len()..],
                Ok(done) => {
                    // It is counted; a mark too many does no harm.
                    if let Err(error) = self.sweep(aggregate, done.attributes.unwrap_or_default(), now).await
                    {
                        tracing::warn!(%error, ?aggregate, "old marks could not be swept out");
                    }
                    return Ok(());
                }
                Err(error) => {
                    let Some(item) = refused_item(&error) else {
                        return Err(StoreError::from_sdk("UpdateItem", &error));
                    };
                    refusals += 1;
                    let seen = seen(&item, &mark).ok_or(StoreError::Unreadable("a lane's mark"))?;
                    let taken_in = open.partition_point(|addition| addition.sequence.number() <= seen);
                    open = &open[taken_in..];
                }
            }
        }
        Err(StoreError::Busy { operation: "UpdateItem", code: "LaneContended".into() })
    }

    /// Forgets the marks of shards that have ended long ago, and counts of days that nobody asks for.
    async fn sweep(&self, aggregate: &Aggregate, item: Item, now: DateTime<Utc>) -> Result<(), StoreError> {
        let old = |name: &str| {
            name.strip_prefix(MARK).is_some_and(|lane| is_old(lane, now))
                || RoomCounts::is_outdated(name, Day::of(now))
        };
        let marks: Vec<_> = item.into_iter().filter(|(name, _)| old(name)).take(SWEPT_AT_ONCE).collect();
        if marks.is_empty() {
            return Ok(());
        }
        let mut update = self
            .client
            .update_item()
            .table_name(aggregate.table(&self.tables))
            .set_key(Some(aggregate.key().into()));
        let (mut removes, mut conditions) = (Vec::new(), Vec::new());
        for (at, (name, value)) in marks.into_iter().enumerate() {
            removes.push(format!("#m{at}"));
            conditions.push(format!("#m{at} = :m{at}"));
            update = update
                .expression_attribute_names(format!("#m{at}"), name)
                .expression_attribute_values(format!(":m{at}"), value);
        }
        let swept = update
            .update_expression(format!("REMOVE {}", removes.join(", ")))
            .condition_expression(conditions.join(" AND "))
            .send()
            .await;
        made("UpdateItem", swept).map(|_| ())
    }

    /// Keeps a change that could not be read for two weeks, for somebody to look at.
    pub async fn set_aside(&self, change: &Unreadable, now: DateTime<Utc>) -> Result<(), StoreError> {
        // An empty sort key is none.
        let number = if change.number.is_empty() { "?" } else { &change.number };
        self.client
            .put_item()
            .table_name(&self.tables.predictions)
            .set_item(Some(keys::unreadable(number).into()))
            .item("change", text(change.raw.to_string()))
            .item("expires_at", super::number((now + TimeDelta::days(14)).timestamp()))
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        Ok(())
    }

    /// What is counted of a match; nothing where nobody has predicted it.
    pub async fn event_counts(&self, event: u32) -> Result<EventCounts, StoreError> {
        let counts = self.get(&self.tables.predictions, keys::event_tally(event), Reads::Eventual).await?;
        Ok(counts.unwrap_or_default())
    }

    /// How many predictions each of these matches has. At most 100 at once.
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

    /// A user's record over all matches.
    pub async fn user_record(&self, user: UserId) -> Result<UserRecord, StoreError> {
        let counted = self.get(&self.tables.predictions, keys::user_stats(user), Reads::Eventual).await?;
        Ok(counted.map_or_else(UserRecord::default, |counted: CountedRecord| counted.record))
    }

    /// A user's record as it is at this moment, with its version. `None` before their first result.
    pub async fn counted_record(&self, user: UserId) -> Result<Option<CountedRecord>, StoreError> {
        self.get(&self.tables.predictions, keys::user_stats(user), Reads::Consistent).await
    }
}

/// A user's record, and how many times it has been counted on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct CountedRecord {
    #[serde(flatten)]
    pub record: UserRecord,
    #[serde(default)]
    pub version: u64,
}

pub(super) fn read_record(item: Item) -> Result<CountedRecord, StoreError> {
    from_item(item)
}

/// How many counters one write may change: an expression has room for some hundred.
const FIELDS_AT_ONCE: usize = 200;

type Fields = Vec<(Cow<'static, str>, i64)>;

/// As many of the additions, from the first on, as one write can hold, and what they change.
fn longest_run<C: Counters>(additions: &[Addition<C>]) -> (&[Addition<C>], Fields) {
    let mut run = additions;
    loop {
        let mut sum = C::default();
        for addition in run {
            sum += addition.counts.clone();
        }
        let mut fields = sum.fields();
        fields.retain(|(_, count)| *count != 0);
        if fields.len() <= FIELDS_AT_ONCE || run.len() == 1 {
            return (run, fields);
        }
        run = &run[..run.len() / 2];
    }
}

fn seen(item: &Item, mark: &str) -> Option<u128> {
    item.get(mark)?.as_n().ok()?.parse().ok()
}

/// Whether a shard was opened too long ago for any of its records to come again. Its name begins with
/// that moment, in milliseconds; a lane without one is kept.
fn is_old(lane: &str, now: DateTime<Utc>) -> bool {
    let opened = lane.split_once('-').and_then(|(opened, _)| opened.parse::<i64>().ok());
    opened.is_some_and(|opened| {
        // Anything before 2001 is not a moment but a number that somebody counts.
        opened > 1_000_000_000_000 && opened < (now - MARKS_KEPT).timestamp_millis()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_grow_old_by_their_names() {
        let now = DateTime::from_timestamp_millis(1_794_744_000_000).unwrap();
        let hours = |hours: i64| format!("{}-a1b2c3d4", 1_794_744_000_000 - hours * 3_600_000);
        assert!(is_old(&hours(37), now));
        for lane in [hours(35), hours(0), "1-things".into(), "event#9#3".into(), String::new()] {
            assert!(!is_old(&lane, now), "{lane}");
        }
    }
}
