use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};
use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::try_join_all;
use futures_util::stream::{self, StreamExt as _};
use serde::{Deserialize, Serialize};

use super::super::client::Call as _;
use super::CONCURRENCY;
use crate::domain::catalog::{Chunk, ChunkName};
use crate::storage::condition::condition_held;
use crate::storage::error::StoreError;
use crate::storage::item::{Item, Key, from_item, number, text, to_item};
use crate::storage::keys;
use crate::storage::store::{Reads, Store};

/// The maximum size of a chunk's part, in bytes. With its key, a part has at most 32 KB and costs 4 read units. DynamoDB
/// gives a partition 3,000 read units a second, so 750 environments can load the same part in a second.
const PART_BYTES: usize = 31 * 1024;

/// The maximum number of parts that one batch reads. DynamoDB reads at most 100 items and 16 MB in a batch.
const PARTS_PER_BATCH: usize = 40;

/// The pointer to the current index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub version: u64,
    /// The name of the snapshot whose index lists the chunks.
    at: String,
}

/// The list of a snapshot's chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// The version of the chunks' encoding. Another release of this program may have written chunks that this
    /// release cannot read.
    format: u32,
    chunks: BTreeMap<String, ChunkRef>,
}

/// The version of the encoding and of the keys that this release writes. The version grows with every change of a row's
/// encoded fields, of their order, or of the keys of parts. An import of a release that does not know the version builds a
/// new snapshot from the rows.
const FORMAT: u32 = 3;

/// Where a chunk is stored: the snapshot that wrote it, and the number of parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkRef {
    at: String,
    parts: u32,
}

impl ChunkRef {
    fn keys(&self, name: ChunkName) -> impl Iterator<Item = Key> {
        (0..self.parts).map(move |part| keys::snapshot_part(&self.at, name, part))
    }
}

impl Default for Index {
    fn default() -> Self {
        Self { format: FORMAT, chunks: BTreeMap::new() }
    }
}

impl Index {
    /// Returns the chunks by name. Fails if this release cannot read their encoding.
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

    /// Adds or replaces a chunk. Returns the replaced chunk, if there was one.
    pub fn set(&mut self, name: ChunkName, chunk: ChunkRef) -> Option<ChunkRef> {
        self.chunks.insert(name.to_string(), chunk)
    }

    /// Removes a chunk that has no rows left. Returns the removed chunk.
    pub fn remove(&mut self, name: ChunkName) -> Option<ChunkRef> {
        self.chunks.remove(&name.to_string())
    }
}

#[derive(Debug, Deserialize)]
struct PartItem {
    pk: String,
    sk: String,
    #[serde(with = "serde_bytes")]
    bytes: Vec<u8>,
}

impl Store {
    /// Reads the current head. If the head has not changed since an earlier read, the catalog has not changed
    /// either. With an eventually consistent read, this check costs half a read unit.
    pub async fn catalog_head(&self, reads: Reads) -> Result<Option<Head>, StoreError> {
        self.get(&self.tables.catalog, keys::snapshot_head(), reads).await
    }

    pub async fn catalog_index(&self, head: &Head, reads: Reads) -> Result<Option<Index>, StoreError> {
        self.get(&self.tables.catalog, keys::snapshot_index(&head.at), reads).await
    }

    /// Reads chunks. Returns `None` if a chunk is missing: a newer snapshot has replaced the chunk, or an
    /// eventually consistent read does not see it yet.
    pub async fn catalog_chunks(
        &self,
        wanted: &[(ChunkName, ChunkRef)],
        reads: Reads,
    ) -> Result<Option<Vec<(ChunkName, Chunk)>>, StoreError> {
        let keys: Vec<Item> =
            wanted.iter().flat_map(|(name, chunk)| chunk.keys(*name)).map(Item::from).collect();
        let mut parts: HashMap<(String, String), Vec<u8>> = HashMap::new();
        let batches: Vec<_> = keys
            .chunks(PARTS_PER_BATCH)
            .map(|batch| self.batch_get(&self.tables.catalog, batch.to_vec(), reads).boxed())
            .collect();
        for items in try_join_all(batches).await? {
            for item in items {
                let part: PartItem = from_item(item)?;
                parts.insert((part.pk, part.sk), part.bytes);
            }
        }
        let mut chunks = Vec::with_capacity(wanted.len());
        for (name, chunk) in wanted {
            let mut bytes = Vec::new();
            for key in chunk.keys(*name) {
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

    /// Stores a chunk of the snapshot `at`. Readers see the chunk once the current index lists it.
    pub async fn put_chunk(&self, at: &str, name: ChunkName, bytes: &[u8]) -> Result<ChunkRef, StoreError> {
        let parts: Vec<&[u8]> = bytes.chunks(PART_BYTES).collect();
        let chunk = ChunkRef { at: at.to_owned(), parts: u32::try_from(parts.len()).unwrap_or(u32::MAX) };
        let puts: Vec<_> = chunk
            .keys(name)
            .zip(parts)
            .map(|(key, part)| {
                self.client
                    .put_item()
                    .table_name(&self.tables.catalog)
                    .set_item(Some(key.into()))
                    .item("bytes", AttributeValue::B(Blob::new(part)))
                    .call()
            })
            .collect();
        let mut written = stream::iter(puts).buffer_unordered(CONCURRENCY);
        while let Some(put) = written.next().await {
            put.map_err(|error| StoreError::from_sdk("PutItem", &error))?;
        }
        Ok(chunk)
    }

    /// Stores an index, then moves the head from `before` to this index. Returns false if the head is no
    /// longer `before`.
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
            .call()
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
        // The SDK retries the write if its response is lost. `#at = :mine` lets the retry succeed if the
        // first attempt has already moved the head.
        put = match before {
            None => put.condition_expression("attribute_not_exists(pk) OR #at = :mine"),
            Some(before) => put
                .condition_expression("#at = :before OR #at = :mine")
                .expression_attribute_values(":before", text(&before.at)),
        };
        condition_held("PutItem", put.call().await)
    }

    /// Sets the expiry `end` on chunks that the current index no longer lists, and on the index of
    /// `old_head`. Until `end`, readers of the old snapshot can finish.
    pub async fn expire_chunks(
        &self,
        chunks: &[(ChunkName, ChunkRef)],
        old_head: Option<&Head>,
        end: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        let parts = chunks.iter().flat_map(|(name, chunk)| chunk.keys(*name));
        let index = old_head.map(|head| keys::snapshot_index(&head.at));
        for key in parts.chain(index) {
            let expired = self
                .client
                .update_item()
                .table_name(&self.tables.catalog)
                .set_key(Some(key.into()))
                .update_expression("SET expires_at = :end")
                .condition_expression("attribute_exists(pk)")
                .expression_attribute_values(":end", number(end.timestamp()))
                .call()
                .await;
            condition_held("UpdateItem", expired)?;
        }
        Ok(())
    }
}
