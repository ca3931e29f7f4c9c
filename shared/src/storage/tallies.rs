//! Counts, folded from streams exactly once.
//!
//! An aggregate's item keeps, for each lane of a stream, the last sequence that it has taken in. A fold
//! adds a run of changes and moves that mark in one conditional write, so that whatever is delivered
//! again, alone or in other batches, changes nothing.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use chrono::{DateTime, TimeDelta, Utc};
use serde::Deserialize;

use super::keys::Key;
use super::stream::Sequence;
use super::{Item, Reads, Store, StoreError, from_item, keys, number, refused_item, text};
use crate::config::Tables;
use crate::domain::{RoomId, UserId};
use crate::domain::tally::{Counters, EventCounts, UserRecord};

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

/// A stream forgets after a day, so that an older mark cannot be needed again.
const MARKS_KEPT: TimeDelta = TimeDelta::days(2);

/// Marks are swept out when there are more than this many. A table has a stream shard per partition.
const MANY_MARKS: usize = 24;

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
        for _ in 0..10 {
            let (Some(first), Some(last)) = (open.first(), open.last()) else { return Ok(()) };
            let mut sum = C::default();
            for addition in open {
                sum += addition.counts;
            }
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
                .expression_attribute_values(":first", text(first.sequence.padded()))
                .expression_attribute_values(":last", text(marked(&last.sequence, now)))
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            let mut adds = Vec::new();
            for (at, (name, count)) in sum.fields().into_iter().enumerate() {
                if count != 0 {
                    adds.push(format!("#f{at} :f{at}"));
                    update = update
                        .expression_attribute_names(format!("#f{at}"), name)
                        .expression_attribute_values(format!(":f{at}"), number(count));
                }
            }
            let add = if adds.is_empty() { String::new() } else { format!(" ADD {}", adds.join(", ")) };
            match update.update_expression(format!("SET #mark = :last, #id = :id{add}")).send().await {
                Ok(done) => return self.sweep(aggregate, done.attributes.unwrap_or_default(), now).await,
                Err(error) => {
                    let Some(item) = refused_item(&error) else {
                        return Err(StoreError::from_sdk("UpdateItem", &error));
                    };
                    let seen = seen(&item, &mark).ok_or(StoreError::Unreadable("a lane's mark"))?;
                    let taken_in = open.partition_point(|addition| addition.sequence.padded() <= seen);
                    open = &open[taken_in..];
                }
            }
        }
        Err(StoreError::Busy { operation: "UpdateItem", code: "LaneContended".into() })
    }

    /// Forgets the marks of lanes that have ended long ago, where there are many.
    async fn sweep(&self, aggregate: &Aggregate, item: Item, now: DateTime<Utc>) -> Result<(), StoreError> {
        let marks: Vec<_> = item.into_iter().filter(|(name, _)| name.starts_with(MARK)).collect();
        if marks.len() <= MANY_MARKS {
            return Ok(());
        }
        let mut update = self
            .client
            .update_item()
            .table_name(aggregate.table(&self.tables))
            .set_key(Some(aggregate.key().into()));
        let (mut removes, mut conditions) = (Vec::new(), Vec::new());
        for (at, (name, value)) in marks.into_iter().enumerate() {
            if is_old(&value, now) {
                removes.push(format!("#m{at}"));
                conditions.push(format!("#m{at} = :m{at}"));
                update = update
                    .expression_attribute_names(format!("#m{at}"), name)
                    .expression_attribute_values(format!(":m{at}"), value);
            }
        }
        if removes.is_empty() {
            return Ok(());
        }
        let swept = update
            .update_expression(format!("REMOVE {}", removes.join(", ")))
            .condition_expression(conditions.join(" AND "))
            .send()
            .await;
        match swept {
            Ok(_) => Ok(()),
            // Swept already, by another invocation.
            Err(error) if refused_item(&error).is_some() => Ok(()),
            Err(error) => Err(StoreError::from_sdk("UpdateItem", &error)),
        }
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
            predictions: u64,
        }
        let keys: Vec<Item> = events.iter().map(|event| keys::event_tally(*event).into()).collect();
        let mut counts = BTreeMap::new();
        for item in self.batch_get(&self.tables.predictions, keys, Reads::Eventual).await? {
            let Tally { event_id, predictions } = from_item(item)?;
            counts.insert(event_id, predictions);
        }
        Ok(counts)
    }

    /// A user's record over all matches.
    pub async fn user_record(&self, user: UserId) -> Result<UserRecord, StoreError> {
        let record = self.get(&self.tables.predictions, keys::user_stats(user), Reads::Eventual).await?;
        Ok(record.unwrap_or_default())
    }
}

/// A lane's mark: the sequence, then when it was taken in, which no comparison of sequences gets to.
fn marked(sequence: &Sequence, now: DateTime<Utc>) -> String {
    format!("{}@{}", sequence.padded(), now.timestamp())
}

fn seen<'a>(item: &'a Item, mark: &str) -> Option<&'a str> {
    item.get(mark)?.as_s().ok()?.split('@').next()
}

fn is_old(mark: &AttributeValue, now: DateTime<Utc>) -> bool {
    let taken_in = mark.as_s().ok().and_then(|mark| mark.split_once('@')?.1.parse().ok());
    taken_in.is_some_and(|seconds: i64| seconds < (now - MARKS_KEPT).timestamp())
}
