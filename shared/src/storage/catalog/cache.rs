use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Mutex;

use super::{ChunkRef, Head, Index};
use crate::domain::catalog::{Catalog, ChunkName};
use crate::storage::error::StoreError;
use crate::storage::retry::Retry;
use crate::storage::store::{Reads, Store};

/// How often a snapshot is read whose head moves meanwhile.
const ATTEMPTS: u32 = 5;

/// What is contended when the head moves faster than its chunks can be read.
const SNAPSHOT: &str = "catalog snapshot";

/// A catalog with the head and the index that it was loaded from.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub head: Head,
    pub index: Index,
    pub catalog: Arc<Catalog>,
    chunks: BTreeMap<ChunkName, ChunkRef>,
}

impl Loaded {
    /// Whether the index lists exactly this chunk.
    #[must_use]
    pub fn lists(&self, name: ChunkName, chunk: &ChunkRef) -> bool {
        self.chunks.get(&name) == Some(chunk)
    }
}

/// The catalog in a warm function's memory.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Option<Entry>>);

#[derive(Debug)]
struct Entry {
    checked_at: DateTime<Utc>,
    loaded: Loaded,
}

impl Cache {
    /// The catalog, at most `max_age` old. `None` before the first snapshot. If the store fails, the cached
    /// catalog is returned even when it is older.
    pub async fn get(
        &self,
        store: &Store,
        now: DateTime<Utc>,
        max_age: TimeDelta,
    ) -> Result<Option<Arc<Catalog>>, StoreError> {
        let mut entry = self.0.lock().await;
        if let Some(Entry { checked_at, loaded }) = &*entry
            && now - *checked_at < max_age
        {
            return Ok(Some(Arc::clone(&loaded.catalog)));
        }
        let cached = entry.as_ref().map(|entry| &entry.loaded);
        match load(store, cached).await {
            Ok(Some(loaded)) => {
                let catalog = Arc::clone(&loaded.catalog);
                *entry = Some(Entry { checked_at: now, loaded });
                Ok(Some(catalog))
            }
            Ok(None) => Ok(None),
            Err(error) => match cached {
                Some(loaded) => {
                    tracing::warn!(%error, "cannot check for a newer catalog; using the cached one");
                    Ok(Some(Arc::clone(&loaded.catalog)))
                }
                None => Err(error),
            },
        }
    }

    /// The latest catalog, by strongly consistent reads, with its head and index.
    pub async fn get_latest(&self, store: &Store, now: DateTime<Utc>) -> Result<Option<Loaded>, StoreError> {
        let mut entry = self.0.lock().await;
        let loaded = load_latest(store, entry.as_ref().map(|entry| &entry.loaded)).await?;
        *entry = loaded.clone().map(|loaded| Entry { checked_at: now, loaded });
        Ok(loaded)
    }
}

/// The current catalog. Chunks that have not changed since `cached` are not loaded again. `None` before the
/// first snapshot.
pub async fn load(store: &Store, cached: Option<&Loaded>) -> Result<Option<Loaded>, StoreError> {
    // Eventually consistent reads cost half. They can miss each other's writes, and the head can move between
    // them: then retry with consistent reads.
    let mut retry = Retry::immediate(SNAPSHOT, ATTEMPTS);
    let mut reads = Reads::Eventual;
    loop {
        let Some(head) = store.catalog_head(reads).await? else { return Ok(None) };
        // A stale read can return a head older than the cached one.
        if let Some(cached) = cached
            && head.version <= cached.head.version
        {
            return Ok(Some(cached.clone()));
        }
        if let Some(loaded) = load_chunks(store, head, cached, reads).await? {
            return Ok(Some(loaded));
        }
        reads = Reads::Consistent;
        retry.again().await?;
    }
}

/// As [`load`], by strongly consistent reads alone.
pub async fn load_latest(store: &Store, cached: Option<&Loaded>) -> Result<Option<Loaded>, StoreError> {
    let mut retry = Retry::immediate(SNAPSHOT, ATTEMPTS);
    loop {
        let Some(head) = store.catalog_head(Reads::Consistent).await? else { return Ok(None) };
        if let Some(loaded) = load_chunks(store, head, cached, Reads::Consistent).await? {
            return Ok(Some(loaded));
        }
        retry.again().await?;
    }
}

/// Loads what `head` points to. `None` if a part of it is gone.
async fn load_chunks(
    store: &Store,
    head: Head,
    cached: Option<&Loaded>,
    reads: Reads,
) -> Result<Option<Loaded>, StoreError> {
    let Some(index) = store.catalog_index(&head, reads).await? else { return Ok(None) };
    let listed = index.chunks()?;
    let mut chunks = BTreeMap::new();
    let mut wanted = Vec::new();
    for (name, chunk) in &listed {
        let unchanged = cached
            .filter(|cached| cached.lists(*name, chunk))
            .and_then(|cached| cached.catalog.chunks().get(name));
        match unchanged {
            Some(chunk) => {
                chunks.insert(*name, Arc::clone(chunk));
            }
            None => wanted.push((*name, chunk.clone())),
        }
    }
    let Some(loaded) = store.catalog_chunks(&wanted, reads).await? else { return Ok(None) };
    chunks.extend(loaded.into_iter().map(|(name, chunk)| (name, Arc::new(chunk))));
    Ok(Some(Loaded { head, index, catalog: Arc::new(Catalog::new(chunks)), chunks: listed }))
}
