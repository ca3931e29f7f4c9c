//! Counts rows again, and repairs counters that differ from their rows.
//!
//! Counters are folded from streams (`exactly_once.rs`), so they miss every change whose stream record is lost. A
//! recount reads the rows and stores their sum. Changes go on meanwhile, and the stream delivers them later. A change
//! must not be in the sum and be added by a fold, too. So a recount writes a marker before it reads the rows and
//! another one after it (`domain/marker.rs`). If the version of the counters is the same after both markers have passed,
//! no change was made in between, and the sum belongs to exactly this version. The repair is conditional on it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::ReturnValuesOnConditionCheckFailure;
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::Deserialize;

use super::client::Call as _;
use super::condition::{condition_held, item_that_failed_condition};
use super::error::StoreError;
use super::exactly_once;
use super::item::{Item, Key, from_item, number, readable, text};
use super::store::{Reads, Store, every_item};
use super::stream::MARKER;
use super::tallies::{Aggregate, Parts, SUMMED, Whole, integer, read_counters};
use super::{keys, members, predictions};
use crate::domain::marker::{End, MarkerId, Place, Written};
use crate::domain::room::{Day, Member, RoomId};
use crate::domain::standings::UserTally;
use crate::domain::tally::{Counters, EventTally, RoomCounts};
use crate::domain::{Room, UserId};

/// How long the marker items of a recount are kept.
const MARKERS_KEPT: TimeDelta = TimeDelta::days(1);

/// The maximum number of concurrent writes of markers into a user's predictions.
const CONCURRENT_MARKERS: usize = 8;

/// The maximum number of counters that one write repairs. DynamoDB limits the size of an expression.
const MAX_REPAIRED: usize = 100;

/// Counters that differ, each with its stored and its counted value.
pub type Differences = BTreeMap<String, (i64, i64)>;

/// Counters as they are stored.
#[derive(Debug, Clone)]
pub struct Stored<C> {
    pub counts: C,
    /// Grows with every change of the counters.
    pub version: i64,
    seen: BTreeMap<MarkerId, BTreeSet<Place>>,
}

impl<C: Counters> Stored<C> {
    fn read(item: &Item) -> Self {
        let mut seen = BTreeMap::new();
        for (name, value) in item {
            if let (Some(marker), Ok(places)) = (name.strip_prefix(exactly_once::MARKER), value.as_ss()) {
                let places = places.iter().map(|place| Place::stored(place)).collect();
                seen.insert(MarkerId::stored(marker), places);
            }
        }
        Self { counts: read_counters(item), version: integer(item, "version").unwrap_or(0), seen }
    }

    /// Returns the places in which a marker was seen.
    #[must_use]
    pub fn places_of(&self, marker: &MarkerId) -> BTreeSet<Place> {
        self.seen.get(marker).cloned().unwrap_or_default()
    }

    /// Returns the counters that differ from a count of the rows, each with its stored and its counted value. Counters of
    /// days that are no longer kept, and of boards that have closed, do not count as different.
    #[must_use]
    pub fn differences(&self, counted: &C, now: DateTime<Utc>) -> Differences {
        let mut differences = Differences::new();
        for (name, count) in self.counts.fields() {
            differences.entry(name.into_owned()).or_default().0 = count;
        }
        for (name, count) in counted.fields() {
            differences.entry(name.into_owned()).or_default().1 = count;
        }
        differences.retain(|name, (stored, counted)| {
            let is_outdated = RoomCounts::is_outdated(name, Day::of(now))
                || UserTally::is_closed(name, now, TimeDelta::zero());
            stored != counted && !is_outdated
        });
        differences
    }
}

/// The sums of a match or a room, compared with its parts.
#[derive(Debug)]
enum Sums {
    Right,
    /// The parts have changed since. Another function is about to add them up, or has crashed before that.
    Behind,
    /// The sums are wrong, or have a version that the parts do not have. `missing` is what the versions of the parts must
    /// grow by, so that the next sums replace the stored ones.
    Wrong {
        missing: i64,
        differences: Differences,
    },
}

/// A membership, with the versions of the data that was copied into it.
#[derive(Debug, Clone, Deserialize)]
pub struct CopiedMember {
    pk: String,
    sk: String,
    #[serde(flatten)]
    pub member: Member,
    /// When the member chose the copied team, in milliseconds.
    pub team_chosen: Option<i64>,
    /// The version of the copied statistics.
    pub ranked: Option<u64>,
}

impl CopiedMember {
    #[must_use]
    pub fn key(&self) -> Key {
        Key { pk: self.pk.clone(), sk: self.sk.clone() }
    }
}

impl Store {
    /// Reads counters, strongly consistent. All are zero if none are stored.
    pub async fn stored_counters<C: Counters>(&self, aggregate: &Aggregate) -> Result<Stored<C>, StoreError> {
        let table = aggregate.table(&self.tables);
        let item = self.get_item(table, aggregate.key(), Reads::Consistent).await?;
        Ok(Stored::read(&item.unwrap_or_default()))
    }

    /// Counts the predictions in one shard of a match, strongly consistent.
    pub async fn count_predictions(&self, event: u32, shard: u8) -> Result<EventTally, StoreError> {
        let mut counted = EventTally::default();
        let partition = keys::event_shard(event, shard);
        self.each_row(&self.tables.predictions, &partition, keys::PREDICTOR, |item| {
            counted += EventTally::of(&predictions::read(item)?, shard);
            Ok(())
        })
        .await?;
        Ok(counted)
    }

    /// Counts the members in one shard of a room, strongly consistent.
    pub async fn count_members(&self, room: &RoomId, shard: u8) -> Result<RoomCounts, StoreError> {
        let mut counted = RoomCounts::default();
        let partition = keys::room_shard(room, shard);
        self.each_row(&self.tables.rooms, &partition, keys::MEMBER, |item| {
            counted += RoomCounts::of(&members::read_member(item)?, shard);
            Ok(())
        })
        .await?;
        Ok(counted)
    }

    /// Reads the keys of a user's predictions from an index, eventually consistent. The newest may be missing.
    pub async fn indexed_predictions(&self, user: UserId) -> Result<Vec<Key>, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.predictions)
            .index_name(predictions::BY_USER)
            .key_condition_expression("user_id = :user")
            .expression_attribute_values(":user", number(user));
        every_item(query).await?.into_iter().map(from_item).collect()
    }

    /// Counts the settled predictions among those with these keys, strongly consistent. Also returns the keys of the
    /// predictions that exist and can be read.
    pub async fn count_settled(&self, keys: &[Key]) -> Result<(UserTally, Vec<Key>), StoreError> {
        let (mut counted, mut found) = (UserTally::default(), Vec::new());
        for keys in keys.chunks(100) {
            let keys = keys.iter().cloned().map(Item::from).collect();
            for item in self.batch_get(&self.tables.predictions, keys, Reads::Consistent).await? {
                let key = from_item(item.clone())?;
                skip_unreadable(predictions::read(item).map(|row| {
                    counted += UserTally::of(&row);
                    found.push(key);
                }))?;
            }
        }
        Ok((counted, found))
    }

    /// Passes all rows of a partition to `add`. Skips rows that cannot be read: `tally` does not count them either.
    async fn each_row(
        &self,
        table: &str,
        partition: &str,
        prefix: &str,
        mut add: impl FnMut(Item) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut from = None;
        loop {
            let page = self
                .client
                .query()
                .table_name(table)
                .key_condition_expression("pk = :partition AND begins_with(sk, :prefix)")
                .expression_attribute_values(":partition", text(partition))
                .expression_attribute_values(":prefix", text(prefix))
                .consistent_read(true)
                .set_exclusive_start_key(from)
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("Query", &error))?;
            for item in page.items.unwrap_or_default() {
                skip_unreadable(add(item))?;
            }
            from = page.last_evaluated_key;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    /// Writes a marker into a partition of a match's predictions.
    pub async fn mark_shard_of_event(
        &self,
        event: u32,
        shard: u8,
        marker: &MarkerId,
        now: DateTime<Utc>,
    ) -> Result<Written, StoreError> {
        self.mark_partition(&self.tables.predictions, &keys::event_shard(event, shard), marker, now).await
    }

    /// Writes a marker into a partition of a room's members.
    pub async fn mark_shard_of_room(
        &self,
        room: &RoomId,
        shard: u8,
        marker: &MarkerId,
        now: DateTime<Utc>,
    ) -> Result<Written, StoreError> {
        self.mark_partition(&self.tables.rooms, &keys::room_shard(room, shard), marker, now).await
    }

    async fn mark_partition(
        &self,
        table: &str,
        partition: &str,
        marker: &MarkerId,
        now: DateTime<Utc>,
    ) -> Result<Written, StoreError> {
        for end in End::BOTH {
            self.client
                .put_item()
                .table_name(table)
                .set_item(Some(Key { pk: partition.to_owned(), sk: keys::marker(end).to_owned() }.into()))
                .item(MARKER, text(marker.as_str()))
                .item("expires_at", number((now + MARKERS_KEPT).timestamp()))
                .call()
                .await
                .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        }
        Ok(Written::Ends)
    }

    /// Writes a marker into each of these predictions.
    pub async fn mark_predictions(&self, keys: &[Key], marker: &MarkerId) -> Result<Written, StoreError> {
        // The compiler cannot infer the closure's lifetimes without `collect`.
        let writes: Vec<_> = keys
            .iter()
            .map(|key| async move {
                let event = keys::predicted_event(&key.pk).map(|(event, _)| event);
                let is_marked = self.mark(&self.tables.predictions, key.clone(), marker).await?;
                Ok::<_, StoreError>(event.filter(|_| is_marked))
            })
            .collect();
        let events: Vec<Option<u32>> =
            stream::iter(writes).buffer_unordered(CONCURRENT_MARKERS).try_collect().await?;
        Ok(Written::Predictions(events.into_iter().flatten().collect()))
    }

    /// Marks a room, so that `tally` writes its directory entries again. `tally` does so in the order of the changes of
    /// the room. Entries that are written here could be older than those of a concurrent change.
    pub async fn mark_room(&self, room: &RoomId, marker: &MarkerId) -> Result<(), StoreError> {
        self.mark(&self.tables.rooms, keys::room(room), marker).await.map(|_| ())
    }

    /// Writes a marker into a row. Returns false if the row does not exist.
    async fn mark(&self, table: &str, key: Key, marker: &MarkerId) -> Result<bool, StoreError> {
        let written = self
            .client
            .update_item()
            .table_name(table)
            .set_key(Some(key.into()))
            .update_expression("SET #marker = :marker")
            .condition_expression("attribute_exists(pk)")
            .expression_attribute_names("#marker", MARKER)
            .expression_attribute_values(":marker", text(marker.as_str()))
            .call()
            .await;
        condition_held("UpdateItem", written)
    }

    /// Changes counters to what was counted, if they still have this version. Also removes markers. Returns false if the
    /// counters have changed.
    pub async fn repair<C: Counters>(
        &self,
        aggregate: &Aggregate,
        stored: &Stored<C>,
        differences: &Differences,
        markers: &[MarkerId],
    ) -> Result<bool, StoreError> {
        let differences: Vec<_> = differences.iter().collect();
        let mut version = stored.version;
        for differences in differences.chunks(MAX_REPAIRED) {
            // Each of these writes increases the version by one.
            let next = version.max(aggregate.base_version()) + 1;
            if !self.repair_some(aggregate, version, next, differences, markers).await? {
                return Ok(false);
            }
            version = next;
        }
        Ok(true)
    }

    async fn repair_some(
        &self,
        aggregate: &Aggregate,
        version: i64,
        next: i64,
        differences: &[(&String, &(i64, i64))],
        markers: &[MarkerId],
    ) -> Result<bool, StoreError> {
        let (id_name, id) = aggregate.id_attribute();
        let mut update = self
            .client
            .update_item()
            .table_name(aggregate.table(&self.tables))
            .set_key(Some(aggregate.key().into()))
            .expression_attribute_names("#id", id_name)
            .expression_attribute_values(":id", id)
            .expression_attribute_values(":next", number(next))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        update = if version == 0 {
            update.condition_expression("attribute_not_exists(version)")
        } else {
            update
                .condition_expression("version = :version")
                .expression_attribute_values(":version", number(version))
        };
        let mut adds = Vec::new();
        for (at, (name, (stored, counted))) in differences.iter().enumerate() {
            adds.push(format!("#f{at} :f{at}"));
            update = update
                .expression_attribute_names(format!("#f{at}"), name.as_str())
                .expression_attribute_values(format!(":f{at}"), number(counted - stored));
        }
        let mut removed = Vec::new();
        for (at, marker) in markers.iter().enumerate() {
            removed.push(format!("#k{at}"));
            let name = format!("{}{}", exactly_once::MARKER, marker.as_str());
            update = update.expression_attribute_names(format!("#k{at}"), name);
        }
        let mut expression = "SET #id = :id, version = :next".to_owned();
        if !adds.is_empty() {
            expression = format!("{expression} ADD {}", adds.join(", "));
        }
        if !removed.is_empty() {
            expression = format!("{expression} REMOVE {}", removed.join(", "));
        }
        let Err(error) = update.update_expression(expression).call().await else { return Ok(true) };
        let Some(item) = item_that_failed_condition(&error) else {
            return Err(StoreError::from_sdk("UpdateItem", &error));
        };
        // If the response of the first attempt was lost, the SDK has tried again, and the repair is stored. A concurrent fold
        // could leave the same version and counts, but it does not remove the markers.
        let count = |name: &str| integer(&item, name).unwrap_or(0);
        let has_markers = markers
            .iter()
            .any(|marker| item.contains_key(&format!("{}{}", exactly_once::MARKER, marker.as_str())));
        Ok(count("version") == next
            && !has_markers
            && differences.iter().all(|(name, (_, counted))| count(name) == *counted))
    }

    /// Compares the stored sums of a match or a room with its parts, and stores them again if they differ. Returns the differences
    /// if the sums were wrong, not only out of date.
    pub async fn repair_sums(
        &self,
        whole: &Whole,
        now: DateTime<Utc>,
    ) -> Result<Option<Differences>, StoreError> {
        let (first_part, sums) = match whole {
            Whole::Event(event) => {
                let key = keys::event_tally(*event);
                let sums = self.sums::<EventTally>(&self.tables.predictions, key, now).await?;
                (Aggregate::EventPart { event: *event, shard: 0 }, sums)
            }
            Whole::Room(room) => {
                let sums = self.sums::<RoomCounts>(&self.tables.rooms, keys::room_tally(room), now).await?;
                (Aggregate::RoomPart { room: room.clone(), shard: 0 }, sums)
            }
        };
        let (missing, differences) = match sums {
            Sums::Right => return Ok(None),
            Sums::Behind => return self.roll_up(whole).await.map(|()| None),
            Sums::Wrong { missing, differences } => (missing, differences),
        };
        // A version that grows too often does no harm, so this write needs no condition.
        self.client
            .update_item()
            .table_name(first_part.table(&self.tables))
            .set_key(Some(first_part.key().into()))
            .update_expression("ADD version :missing")
            .expression_attribute_values(":missing", number(missing))
            .call()
            .await
            .map_err(|error| StoreError::from_sdk("UpdateItem", &error))?;
        self.roll_up(whole).await?;
        Ok(Some(differences))
    }

    async fn sums<C: Counters>(&self, table: &str, key: Key, now: DateTime<Utc>) -> Result<Sums, StoreError> {
        let Parts { sums, versions, stored } = self.parts::<C>(table, &key).await?;
        let stored = stored.unwrap_or_default();
        let summed = integer(&stored, SUMMED).unwrap_or(0);
        let differences = Stored::<C>::read(&stored).differences(&sums, now);
        Ok(match summed.cmp(&versions) {
            Ordering::Less => Sums::Behind,
            Ordering::Equal if differences.is_empty() => Sums::Right,
            Ordering::Equal | Ordering::Greater => {
                Sums::Wrong { missing: summed + 1 - versions, differences }
            }
        })
    }

    /// Reads up to 100 joined, invited and former members of one shard of a room, beginning after a sort key. Leaves out
    /// those that cannot be read. Returns the members, and the sort key after which the next ones begin: `None` after the
    /// last ones.
    pub async fn copied_members(
        &self,
        room: &RoomId,
        shard: u8,
        after: Option<String>,
    ) -> Result<(Vec<CopiedMember>, Option<String>), StoreError> {
        let partition = keys::room_shard(room, shard);
        let (items, is_last) = self
            .partition_page(&self.tables.rooms, &partition, keys::MEMBER, after, 100, Reads::Eventual)
            .await?;
        let last = items.last().and_then(|item| item.get("sk")?.as_s().ok().cloned());
        Ok((readable(items), last.filter(|_| !is_last)))
    }

    /// Reads some rooms, beginning after the room `after`, in no particular order. Returns the rooms, and the position
    /// after them unless they are the last ones.
    pub async fn every_room(
        &self,
        after: Option<&RoomId>,
    ) -> Result<(Vec<Room>, Option<RoomId>), StoreError> {
        let mut from = after.map(keys::room);
        loop {
            let (rooms, next) = self.rooms_page(from, usize::MAX).await?;
            from = next;
            // A page without rooms has no room after which the next one could begin.
            if from.is_none() || !rooms.is_empty() {
                let next = from.and_then(|_| rooms.last().map(|room| room.room_id.clone()));
                return Ok((rooms, next));
            }
        }
    }
}

/// Logs a row that cannot be read, and continues without it.
fn skip_unreadable(read: Result<(), StoreError>) -> Result<(), StoreError> {
    match read {
        Err(error @ StoreError::Unreadable(_)) => {
            tracing::error!(%error, "a recount skips a row");
            Ok(())
        }
        read => read,
    }
}
