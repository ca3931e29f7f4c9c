//! Adds each stream record to its counters exactly once, although streams redeliver records.
//!
//! An aggregate is a set of counters in one item. For each stream shard, the item also holds a position: the
//! sequence number of the last record that the counters include. A fold adds a run of records to the counters
//! and moves the position, in one conditional write. For redelivered records the condition fails, and the
//! counters stay as they are.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure};
use chrono::{DateTime, TimeDelta, Utc};

use super::client::Call as _;
use super::condition::{condition_held, item_that_failed_condition};
use super::conflict_retry::Retry;
use super::error::StoreError;
use super::item::{Item, number};
use super::sequence::Sequence;
use super::store::Store;
use super::tallies::{Aggregate, integer};
use crate::domain::marker::{MarkerId, Sighting};
use crate::domain::room::Day;
use crate::domain::standings::UserTally;
use crate::domain::tally::{Counters, RoomCounts};

/// What one stream record adds to an aggregate.
#[derive(Debug, Clone)]
pub struct Addition<C> {
    pub sequence: Sequence,
    pub counts: C,
    /// The marker of a recount that the record is.
    pub sighting: Option<Sighting>,
}

/// The age of a stream shard at which the position in it is no longer needed. DynamoDB writes to a stream
/// shard for some hours and deletes the shard a day later.
const POSITIONS_KEPT: TimeDelta = TimeDelta::hours(36);

/// The maximum number of outdated positions and counters that one write removes. DynamoDB limits the size of
/// an expression.
const MAX_REMOVED: usize = 80;

/// The prefix of the attributes that hold the positions in stream shards.
const POSITION: &str = "seen:";

/// The prefix of the attributes that hold the places in which markers were seen. The marker's id follows. Each is a
/// set, so a place that is added twice is there once.
pub(super) const MARKER: &str = "marker:";

impl Store {
    /// Adds the counts of records from one stream shard to an aggregate, each record exactly once.
    /// `additions` are in the order of their sequence numbers.
    pub async fn fold<C: Counters>(
        &self,
        aggregate: &Aggregate,
        shard: &str,
        additions: &[Addition<C>],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let position = format!("{POSITION}{shard}");
        let mut open = additions;
        // The item as the last failed condition returned it.
        let mut stored = Item::new();
        // The condition fails for two reasons. If records were counted before, the item has their position, and the
        // next attempt continues after it. If another shard has stored a later value, the next attempt does not
        // assign that value. It fails again only while other invocations write the same item.
        let mut retry = Retry::immediate("position in a stream shard", 10);
        loop {
            let (run, fields, mut assigned) = longest_run(open);
            // Another shard may have stored a later value, which stays.
            assigned.retain(|(name, value)| integer(&stored, name).is_none_or(|stored| stored < *value));
            let mut conditions = vec!["(attribute_not_exists(#position) OR #position < :first)".to_owned()];
            let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
            let (id_name, id) = aggregate.id_attribute();
            let mut update = self
                .client
                .update_item()
                .table_name(aggregate.table(&self.tables))
                .set_key(Some(aggregate.key().into()))
                .expression_attribute_names("#position", &position)
                .expression_attribute_names("#id", id_name)
                .expression_attribute_values(":id", id)
                .expression_attribute_values(":first", number(first.sequence.number()))
                .expression_attribute_values(":last", number(last.sequence.number()))
                .return_values(ReturnValue::AllNew)
                .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
            // The version grows with every fold. `Store::copy_stats` compares it with the version of the
            // copy in a membership, and `Store::roll_up` adds up the versions of the parts.
            let mut adds = Vec::new();
            let mut set = vec!["#position = :last".to_owned(), "#id = :id".to_owned()];
            // A marker counts nothing. A recount takes the version as unchanged if only markers were added. Changes
            // that cancel out do change the version: a recount may have read the rows in between.
            if run.iter().any(|addition| addition.counts != C::default()) {
                set.push("version = if_not_exists(version, :base) + :one".to_owned());
                update = update
                    .expression_attribute_values(":base", number(aggregate.base_version()))
                    .expression_attribute_values(":one", number(1));
            }
            for (at, (marker, places)) in places_by_marker(run).into_iter().enumerate() {
                adds.push(format!("#k{at} :k{at}"));
                update = update
                    .expression_attribute_names(format!("#k{at}"), format!("{MARKER}{}", marker.as_str()))
                    .expression_attribute_values(format!(":k{at}"), AttributeValue::Ss(places));
            }
            for (at, (name, count)) in fields.into_iter().enumerate() {
                adds.push(format!("#f{at} :f{at}"));
                update = update
                    .expression_attribute_names(format!("#f{at}"), name)
                    .expression_attribute_values(format!(":f{at}"), number(count));
            }
            for (at, (name, value)) in assigned.into_iter().enumerate() {
                set.push(format!("#s{at} = :s{at}"));
                conditions.push(format!("(attribute_not_exists(#s{at}) OR #s{at} <= :s{at})"));
                update = update
                    .expression_attribute_names(format!("#s{at}"), name)
                    .expression_attribute_values(format!(":s{at}"), number(value));
            }
            let mut expression = format!("SET {}", set.join(", "));
            if !adds.is_empty() {
                expression = format!("{expression} ADD {}", adds.join(", "));
            }
            let update = update.update_expression(expression).condition_expression(conditions.join(" AND "));
            match update.call().await {
                Ok(_) if run.len() < open.len() => open = &open[run.len()..],
                Ok(done) => {
                    // A failure here is only logged: the counts are written, and old attributes do no harm.
                    let item = done.attributes.unwrap_or_default();
                    if let Err(error) = self.remove_old_attributes(aggregate, item, &position, now).await {
                        tracing::warn!(%error, ?aggregate, "cannot remove old positions and counters");
                    }
                    return Ok(());
                }
                Err(error) => {
                    let Some(item) = item_that_failed_condition(&error) else {
                        return Err(StoreError::from_sdk("UpdateItem", &error));
                    };
                    // Without a position, the condition failed because of a later value.
                    let folded = position_in(&item, &position).unwrap_or(0);
                    let done = open.partition_point(|addition| addition.sequence.number() <= folded);
                    open = &open[done..];
                    stored = item;
                    retry.again().await?;
                }
            }
        }
    }

    /// Removes positions in stream shards that no longer exist, and counters of days that are no longer
    /// needed. Keeps the position `current`, whose shard has just delivered a record and can deliver it again.
    async fn remove_old_attributes(
        &self,
        aggregate: &Aggregate,
        item: Item,
        current: &str,
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let is_old = |name: &str| {
            let is_old_position = name.strip_prefix(POSITION).is_some_and(|shard| is_old_shard(shard, now));
            let is_old_marker =
                name.strip_prefix(MARKER).is_some_and(|marker| MarkerId::stored(marker).is_old(now));
            (is_old_position && name != current)
                || is_old_marker
                || RoomCounts::is_outdated(name, Day::of(now))
                || UserTally::is_closed(name, now, UserTally::KEPT_AFTER_CLOSE)
        };
        let mut old: Vec<_> = item.into_iter().filter(|(name, _)| is_old(name)).collect();
        if old.is_empty() {
            return Ok(());
        }
        // A name is a prefix followed by a time, so the oldest of each kind come first.
        old.sort_by(|(name, _), (other, _)| name.cmp(other));
        old.truncate(MAX_REMOVED);
        let mut update = self
            .client
            .update_item()
            .table_name(aggregate.table(&self.tables))
            .set_key(Some(aggregate.key().into()));
        let (mut names, mut conditions) = (Vec::new(), Vec::new());
        for (at, (name, value)) in old.into_iter().enumerate() {
            names.push(format!("#m{at}"));
            conditions.push(format!("#m{at} = :m{at}"));
            update = update
                .expression_attribute_names(format!("#m{at}"), name)
                .expression_attribute_values(format!(":m{at}"), value);
        }
        let removed = update
            .update_expression(format!("REMOVE {}", names.join(", ")))
            .condition_expression(conditions.join(" AND "))
            .call()
            .await;
        condition_held("UpdateItem", removed).map(|_| ())
    }
}

/// The maximum number of counters that one write changes. DynamoDB limits the size of an expression.
const MAX_FIELDS: usize = 200;

/// The maximum number of attributes that one write assigns. Each has a condition of about 50 bytes, and an expression
/// has at most 4 KB.
const MAX_ASSIGNED: usize = 60;

type Fields = Vec<(Cow<'static, str>, i64)>;

/// Returns the additions for the next write, their sum for each counter, and the attributes that they assign. Tries
/// all additions, then the first half, then the first quarter and so on, until they fit into one write.
fn longest_run<C: Counters>(additions: &[Addition<C>]) -> (&[Addition<C>], Fields, Fields) {
    let mut run = additions;
    loop {
        let mut sum = C::default();
        for addition in run {
            sum += addition.counts.clone();
        }
        let mut fields = sum.fields();
        fields.retain(|(_, count)| *count != 0);
        let assigned = sum.assigned();
        if (fields.len() <= MAX_FIELDS && assigned.len() <= MAX_ASSIGNED) || run.len() == 1 {
            return (run, fields, assigned);
        }
        run = &run[..run.len() / 2];
    }
}

/// Returns the markers among some additions, with the places in which they were seen.
fn places_by_marker<C>(additions: &[Addition<C>]) -> BTreeMap<&MarkerId, Vec<String>> {
    let mut markers = BTreeMap::<&MarkerId, Vec<String>>::new();
    for Sighting { marker, place } in additions.iter().filter_map(|addition| addition.sighting.as_ref()) {
        let places = markers.entry(marker).or_default();
        // DynamoDB rejects a set that has an element twice.
        if !places.iter().any(|known| known == place.as_str()) {
            places.push(place.as_str().to_owned());
        }
    }
    markers
}

fn position_in(item: &Item, attribute: &str) -> Option<u128> {
    item.get(attribute)?.as_n().ok()?.parse().ok()
}

/// Returns whether a stream shard is so old that DynamoDB can no longer redeliver its records. `shard` is a shard
/// id without the prefix `shardId-`, so it begins with the shard's creation time, in milliseconds. A name of any
/// other form never counts as old.
fn is_old_shard(shard: &str, now: DateTime<Utc>) -> bool {
    let created = shard.split_once('-').and_then(|(created, _)| created.parse::<i64>().ok());
    created.is_some_and(|created| {
        // A number up to 1,000,000,000,000 would be a time before 2002, so it is not a creation time.
        created > 1_000_000_000_000 && created < (now - POSITIONS_KEPT).timestamp_millis()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shards_created_over_36_hours_ago_are_old() {
        let now = DateTime::from_timestamp_millis(1_794_744_000_000).unwrap();
        let hours = |hours: i64| format!("{}-a1b2c3d4", 1_794_744_000_000 - hours * 3_600_000);
        assert!(is_old_shard(&hours(37), now));
        for shard in [hours(35), hours(0), "1-things".into(), "event#9#3".into(), String::new()] {
            assert!(!is_old_shard(&shard, now), "{shard}");
        }
    }
}
