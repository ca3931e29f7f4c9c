//! The `catalog` table: each row as an item, and the snapshot that readers load.
//!
//! Rows are the truth. The snapshot is made from them: chunks under keys that are never written again,
//! an index that names the chunks, and a head that names the index. Moving the head is the one write that
//! readers notice, so that they see the old catalog or the new one, never a mixture.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{
    AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};
use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use futures_util::stream;
use futures_util::{FutureExt as _, StreamExt as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::{StoreError, condition_held, write_that_failed_condition};
use super::item::{Item, from_item, number, text, to_item};
use super::keys;
use super::store::{Reads, Store};
use crate::domain::catalog::{Chunk, ChunkName, Key, Kind, Match, Sport, Team, Tournament};

/// An item holds 400 KB at most; this leaves room for its other attributes.
const PART: usize = 350 * 1024;

/// How many calls are under way at once while a snapshot is loaded or rows are written.
const AT_ONCE: usize = 16;

/// Which catalog is the current one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub version: u64,
    /// The index's partition.
    at: String,
}

/// What the catalog consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Which rows the chunks hold, and how they are written: another program's may not be readable.
    format: u32,
    chunks: BTreeMap<String, ChunkRef>,
}

/// Grows with every change of a row's fields or of their order.
const FORMAT: u32 = 1;

/// Where a chunk's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkRef {
    at: String,
    parts: u32,
}

impl Default for Index {
    fn default() -> Self {
        Self { format: FORMAT, chunks: BTreeMap::new() }
    }
}

impl Index {
    /// The chunks by name.
    pub fn chunks(&self) -> Result<BTreeMap<ChunkName, ChunkRef>, StoreError> {
        if self.format != FORMAT {
            return Err(StoreError::Unreadable("a snapshot of this program's format"));
        }
        self.chunks
            .iter()
            .map(|(name, found)| {
                let name = name.parse().map_err(|_| StoreError::Unreadable("a chunk's name"))?;
                Ok((name, found.clone()))
            })
            .collect()
    }

    /// Names another place for a chunk; returns the one before.
    pub fn set(&mut self, name: ChunkName, place: ChunkRef) -> Option<ChunkRef> {
        self.chunks.insert(name.to_string(), place)
    }

    /// Forgets a chunk that has no rows left.
    pub fn remove(&mut self, name: ChunkName) -> Option<ChunkRef> {
        self.chunks.remove(&name.to_string())
    }
}

/// A row of the catalog: what all kinds have in common.
pub trait Row: Serialize + DeserializeOwned + Clone + PartialEq + Send + Sync {
    const KIND: Kind;
    fn id(&self) -> u32;
    fn key(&self) -> Key;
    fn as_of(&self) -> DateTime<Utc>;
    /// The same row at another time.
    #[must_use]
    fn dated(self, as_of: DateTime<Utc>) -> Self;
    /// How often its result has changed; 0 for rows that have none.
    fn revision(&self) -> u32;
}

macro_rules! rows {
    ($($row:ty => $kind:expr, $revision:expr;)*) => {
        $(impl Row for $row {
            const KIND: Kind = $kind;

            fn id(&self) -> u32 {
                self.id
            }

            fn key(&self) -> Key {
                self.key
            }

            fn as_of(&self) -> DateTime<Utc> {
                self.as_of
            }

            fn dated(self, as_of: DateTime<Utc>) -> Self {
                Self { as_of, ..self }
            }

            fn revision(&self) -> u32 {
                let revision: fn(&Self) -> u32 = $revision;
                revision(self)
            }
        })*
    };
}

rows! {
    Sport => Kind::Sport, |_| 0;
    Team => Kind::Team, |_| 0;
    Tournament => Kind::Tournament, |_| 0;
    Match => Kind::Event, |event| event.revision;
}

/// What became of a row that was to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written<T> {
    Now,
    /// Not written: this is there, and not what was there when it was read.
    Changed(T),
}

/// A row to be written in place of the one that was read.
#[derive(Debug, Clone)]
pub struct Replacement<T> {
    pub row: T,
    pub read: Option<T>,
}

#[derive(Debug, Deserialize)]
struct PartItem {
    pk: String,
    sk: String,
    bytes: StoredBytes,
}

/// Bytes, which serde would otherwise read as a list of numbers.
#[derive(Debug)]
struct StoredBytes(Vec<u8>);

impl<'de> Deserialize<'de> for StoredBytes {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bytes;
        impl serde::de::Visitor<'_> for Bytes {
            type Value = StoredBytes;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<StoredBytes, E> {
                Ok(StoredBytes(bytes.to_vec()))
            }

            fn visit_byte_buf<E>(self, bytes: Vec<u8>) -> Result<StoredBytes, E> {
                Ok(StoredBytes(bytes))
            }
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

impl Store {
    /// Eventual, it is half a unit: what a warm function pays to know that nothing has changed.
    pub async fn catalog_head(&self, reads: Reads) -> Result<Option<Head>, StoreError> {
        self.get(&self.tables.catalog, keys::snapshot_head(), reads).await
    }

    pub async fn catalog_index(&self, head: &Head, reads: Reads) -> Result<Option<Index>, StoreError> {
        self.get(&self.tables.catalog, keys::snapshot_index(&head.at), reads).await
    }

    /// Chunks as stored. `None` where one is gone: the catalog has moved on meanwhile.
    pub async fn catalog_chunks(
        &self,
        wanted: &[(ChunkName, ChunkRef)],
        reads: Reads,
    ) -> Result<Option<Vec<(ChunkName, Chunk)>>, StoreError> {
        let keys: Vec<Item> = wanted
            .iter()
            .flat_map(|(name, place)| {
                (0..place.parts).map(|part| keys::snapshot_part(&place.at, *name, part).into())
            })
            .collect();
        let mut parts: HashMap<(String, String), Vec<u8>> = HashMap::new();
        // Few at a time: a batch answers with 16 MB at most, and a cold function has little memory.
        let batches: Vec<_> = keys
            .chunks(40)
            .map(|batch| self.batch_get(&self.tables.catalog, batch.to_vec(), reads).boxed())
            .collect();
        for items in try_join_all(batches).await? {
            for item in items {
                let part: PartItem = from_item(item)?;
                parts.insert((part.pk, part.sk), part.bytes.0);
            }
        }
        let mut chunks = Vec::with_capacity(wanted.len());
        for (name, place) in wanted {
            let mut bytes = Vec::new();
            for part in 0..place.parts {
                let key = keys::snapshot_part(&place.at, *name, part);
                match parts.remove(&(key.pk, key.sk)) {
                    Some(found) if bytes.is_empty() => bytes = found,
                    Some(found) => bytes.extend(found),
                    None => return Ok(None),
                }
            }
            let chunk = Chunk::decode(&bytes).map_err(|_| StoreError::Unreadable("a chunk"))?;
            chunks.push((*name, chunk));
        }
        Ok(Some(chunks))
    }

    /// Stores a chunk in a place of its own. Nobody sees it before an index names it.
    pub async fn put_chunk(&self, at: &str, name: ChunkName, bytes: &[u8]) -> Result<ChunkRef, StoreError> {
        let mut parts = 0;
        for part in bytes.chunks(PART) {
            self.client
                .put_item()
                .table_name(&self.tables.catalog)
                .set_item(Some(keys::snapshot_part(at, name, parts).into()))
                .item("bytes", AttributeValue::B(Blob::new(part)))
                .send()
                .await
                .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
            parts += 1;
        }
        Ok(ChunkRef { at: at.to_owned(), parts })
    }

    /// Stores an index, then makes it the current one if `before` still is. `false` where it is not.
    pub async fn publish_index(
        &self,
        before: Option<&Head>,
        at: &str,
        index: &Index,
    ) -> Result<bool, StoreError> {
        self.client
            .put_item()
            .table_name(&self.tables.catalog)
            .set_item(Some(to_item(keys::snapshot_index(at), index)?))
            .send()
            .await
            .map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        let head = Head { version: before.map_or(0, |head| head.version) + 1, at: at.to_owned() };
        let mut put = self
            .client
            .put_item()
            .table_name(&self.tables.catalog)
            .set_item(Some(to_item(keys::snapshot_head(), &head)?))
            .expression_attribute_names("#at", "at")
            .expression_attribute_values(":mine", text(at))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        // Or ours already: the first copy of this write went through.
        put = match before {
            None => put.condition_expression("attribute_not_exists(pk) OR #at = :mine"),
            Some(before) => put
                .condition_expression("#at = :before OR #at = :mine")
                .expression_attribute_values(":before", text(&before.at)),
        };
        condition_held("PutItem", put.send().await)
    }

    /// Lets parts that no index names any more disappear, once nobody can still be reading them.
    pub async fn expire_chunks(
        &self,
        places: &[(ChunkName, ChunkRef)],
        index_at: Option<&Head>,
        end: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let parts = places.iter().flat_map(|(name, place)| {
            (0..place.parts).map(|part| keys::snapshot_part(&place.at, *name, part))
        });
        let index = index_at.map(|head| keys::snapshot_index(&head.at));
        for key in parts.chain(index) {
            let expired = self
                .client
                .update_item()
                .table_name(&self.tables.catalog)
                .set_key(Some(key.into()))
                .update_expression("SET expires_at = :end")
                .condition_expression("attribute_exists(pk)")
                .expression_attribute_values(":end", number(end.timestamp()))
                .send()
                .await;
            condition_held("UpdateItem", expired)?;
        }
        Ok(())
    }

    /// Rows by id, as they are this very moment.
    pub async fn catalog_rows<T: Row>(&self, ids: &[u32]) -> Result<BTreeMap<u32, T>, StoreError> {
        let keys: Vec<Item> = ids.iter().map(|id| keys::catalog_row(T::KIND, *id).into()).collect();
        // Boxed and collected: the compiler cannot see through the closure otherwise.
        let batches: Vec<_> = keys
            .chunks(100)
            .map(|batch| self.batch_get(&self.tables.catalog, batch.to_vec(), Reads::Consistent).boxed())
            .collect();
        let mut rows = BTreeMap::new();
        let mut running = stream::iter(batches).buffer_unordered(AT_ONCE);
        while let Some(items) = running.next().await {
            for item in items? {
                let row: T = from_item(item)?;
                rows.insert(row.id(), row);
            }
        }
        Ok(rows)
    }

    /// Writes rows, each in place of the one that was read. In their order, with what became of each.
    pub async fn put_rows<T: Row>(&self, rows: &[Replacement<T>]) -> Result<Vec<Written<T>>, StoreError> {
        let writes: Vec<_> = rows.iter().map(|row| self.put_row(row).boxed()).collect();
        let mut written = Vec::with_capacity(rows.len());
        let mut running = stream::iter(writes).buffered(AT_ONCE);
        while let Some(outcome) = running.next().await {
            written.push(outcome?);
        }
        Ok(written)
    }

    async fn put_row<T: Row>(&self, replacement: &Replacement<T>) -> Result<Written<T>, StoreError> {
        let Replacement { row, read } = replacement;
        let put = self
            .client
            .put_item()
            .table_name(&self.tables.catalog)
            .set_item(Some(to_item(keys::catalog_row(T::KIND, row.id()), row)?))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let put = match read {
            None => put.condition_expression("attribute_not_exists(pk)"),
            // The time tells two states of a row apart, but for a result that was corrected under the
            // same time; that one's revision does.
            Some(read) => put
                .condition_expression(
                    "#key = :key AND as_of = :as_of AND (attribute_not_exists(revision) OR revision = :revision)",
                )
                .expression_attribute_names("#key", "key")
                .expression_attribute_values(":key", number(read.key().0))
                .expression_attribute_values(":as_of", number(read.as_of().timestamp_millis()))
                .expression_attribute_values(":revision", number(read.revision())),
        };
        let Err(error) = put.send().await else { return Ok(Written::Now) };
        match error.as_service_error() {
            Some(PutItemError::ConditionalCheckFailedException(refused)) => {
                let found: T = from_item(refused.item().cloned().unwrap_or_default())?;
                // Our own write, whose answer was lost and which the SDK sent again.
                Ok(if found == *row { Written::Now } else { Written::Changed(found) })
            }
            _ => Err(StoreError::from_sdk("PutItem", &error)),
        }
    }

    /// Every row of a kind, for building a snapshot from nothing.
    pub async fn all_rows<T: Row>(&self) -> Result<BTreeMap<u32, T>, StoreError> {
        let mut rows = BTreeMap::new();
        let mut from = None;
        loop {
            let page = self
                .client
                .scan()
                .table_name(&self.tables.catalog)
                .filter_expression("begins_with(pk, :kind) AND sk = :row")
                .expression_attribute_values(":kind", text(format!("{}#", T::KIND.as_str())))
                .expression_attribute_values(":row", text(keys::CATALOG_ROW))
                .set_exclusive_start_key(from.take())
                .consistent_read(true)
                .send()
                .await
                .map_err(|error| StoreError::from_sdk("Scan", &error))?;
            for item in page.items.unwrap_or_default() {
                let row: T = from_item(item)?;
                rows.insert(row.id(), row);
            }
            from = page.last_evaluated_key;
            if from.is_none() {
                return Ok(rows);
            }
        }
    }

    /// Takes a given-out id back that turned out to be somebody else's; the next import gives another.
    pub async fn forget_id(&self, kind: Kind, key: Key, id: u32) -> Result<(), StoreError> {
        let forgotten = self
            .client
            .delete_item()
            .table_name(&self.tables.catalog)
            .set_key(Some(keys::catalog_external(kind, key).into()))
            .condition_expression("id = :id")
            .expression_attribute_values(":id", number(id))
            .send()
            .await;
        condition_held("DeleteItem", forgotten).map(|_| ())
    }

    /// The ids that were given to keys.
    pub async fn known_ids(&self, kind: Kind, wanted: &[Key]) -> Result<BTreeMap<Key, u32>, StoreError> {
        #[derive(Deserialize)]
        struct Known {
            id: u32,
            key: Key,
        }
        let keys: Vec<Item> = wanted.iter().map(|key| keys::catalog_external(kind, *key).into()).collect();
        let mut known = BTreeMap::new();
        for batch in keys.chunks(100) {
            for item in self.batch_get(&self.tables.catalog, batch.to_vec(), Reads::Consistent).await? {
                let Known { id, key } = from_item(item)?;
                known.insert(key, id);
            }
        }
        Ok(known)
    }

    /// Gives the next free ids, above `above`, to keys that have none. Counter and keys move in one
    /// transaction, so that a crash leaves no gap: a second run gives the same ids as an undisturbed one.
    pub async fn give_ids(
        &self,
        kind: Kind,
        wanted: &[Key],
        above: u32,
    ) -> Result<BTreeMap<Key, u32>, StoreError> {
        let mut given = self.known_ids(kind, wanted).await?;
        let mut tries = 0;
        loop {
            let missing: Vec<Key> =
                wanted.iter().filter(|key| !given.contains_key(key)).copied().take(99).collect();
            if missing.is_empty() {
                return Ok(given);
            }
            let last = self.last_id(kind).await?;
            let first = last.unwrap_or(0).max(above) + 1;
            let ids: Vec<(Key, u32)> = missing.iter().copied().zip(first..).collect();
            let end = ids.last().map_or(first, |(_, id)| *id);
            let mut writes = vec![self.counter_write(kind, last, end)?];
            for (key, id) in &ids {
                let put = Put::builder()
                    .table_name(&self.tables.catalog)
                    .set_item(Some(keys::catalog_external(kind, *key).into()))
                    .item("id", number(id))
                    .item("key", number(key.0))
                    .condition_expression("attribute_not_exists(pk)")
                    .build()?;
                writes.push(TransactWriteItem::builder().put(put).build());
            }
            match self.client.transact_write_items().set_transact_items(Some(writes)).send().await {
                Ok(_) => given.extend(ids),
                // Another import was at it too; look again.
                Err(error)
                    if tries < 10
                        && (0..=missing.len())
                            .any(|at| write_that_failed_condition(&error, at).is_some()) =>
                {
                    tries += 1;
                    given.extend(self.known_ids(kind, &missing).await?);
                }
                Err(error) => return Err(StoreError::from_sdk("TransactWriteItems", &error)),
            }
        }
    }

    async fn last_id(&self, kind: Kind) -> Result<Option<u32>, StoreError> {
        #[derive(Deserialize)]
        struct Counter {
            last_id: u32,
        }
        let counter: Option<Counter> =
            self.get(&self.tables.catalog, keys::catalog_counter(kind), Reads::Consistent).await?;
        Ok(counter.map(|counter| counter.last_id))
    }

    fn counter_write(&self, kind: Kind, from: Option<u32>, to: u32) -> Result<TransactWriteItem, StoreError> {
        let update = Update::builder()
            .table_name(&self.tables.catalog)
            .set_key(Some(keys::catalog_counter(kind).into()))
            .update_expression("SET last_id = :to")
            .expression_attribute_values(":to", number(to));
        let update = match from {
            None => update.condition_expression("attribute_not_exists(pk)"),
            Some(from) => update
                .condition_expression("last_id = :from")
                .expression_attribute_values(":from", number(from)),
        };
        Ok(TransactWriteItem::builder().update(update.build()?).build())
    }
}
