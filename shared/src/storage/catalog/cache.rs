use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Mutex;

use super::{ChunkRef, Head, Index};
use crate::domain::catalog::{Catalog, ChunkName};
use crate::storage::conflict_retry::Retry;
use crate::storage::error::StoreError;
use crate::storage::store::{Reads, Store};

/// The maximum number of attempts to read a snapshot. An attempt fails if a part of the snapshot
/// is missing.
const ATTEMPTS: u32 = 5;

/// The name of the snapshot in the error message after all attempts have failed.
const SNAPSHOT: &str = "catalog snapshot";

/// A catalog, with the head and the index from which it was loaded.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub head: Head,
    pub index: Index,
    pub catalog: Arc<Catalog>,
    chunks: BTreeMap<ChunkName, ChunkRef>,
}

impl Loaded {
    /// Returns whether the index lists exactly this chunk under `name`.
    #[must_use]
    pub fn lists(&self, name: ChunkName, chunk: &ChunkRef) -> bool {
        self.chunks.get(&name) == Some(chunk)
    }
}

/// The catalog, cached in memory between the invocations of a Lambda function.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Option<Entry>>);

#[derive(Debug)]
struct Entry {
    checked_at: DateTime<Utc>,
    loaded: Loaded,
}

impl Cache {
    /// Returns the catalog. Checks for a newer one if the last check was at least `max_age` ago. Returns
    /// `None` before the first snapshot. If the check fails, returns the cached catalog, however old it is. Fails if
    /// there is none.
    pub async fn get(
        &self,
        store: &Store,
        now: DateTime<Utc>,
        max_age: TimeDelta,
    ) -> Result<Option<Arc<Catalog>>, StoreError> {
        let error = match self.get_checked(store, now, max_age).await {
            Ok(catalog) => return Ok(catalog),
            Err(error) => error,
        };
        let Some(Entry { loaded, .. }) = &*self.0.lock().await else { return Err(error) };
        tracing::warn!(%error, "cannot check for a newer catalog; using the cached one");
        Ok(Some(Arc::clone(&loaded.catalog)))
    }

    /// Does the same as [`Self::get`], but returns an error if the check fails.
    pub async fn get_checked(
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
        let loaded = load(store, entry.as_ref().map(|entry| &entry.loaded)).await?;
        let catalog = loaded.as_ref().map(|loaded| Arc::clone(&loaded.catalog));
        if let Some(loaded) = loaded {
            *entry = Some(Entry { checked_at: now, loaded });
        }
        Ok(catalog)
    }

    /// Loads the latest catalog with strongly consistent reads. Returns `None` before the first snapshot.
    pub async fn get_latest(&self, store: &Store, now: DateTime<Utc>) -> Result<Option<Loaded>, StoreError> {
        let mut entry = self.0.lock().await;
        let loaded = load_latest(store, entry.as_ref().map(|entry| &entry.loaded)).await?;
        *entry = loaded.clone().map(|loaded| Entry { checked_at: now, loaded });
        Ok(loaded)
    }
}

/// Loads the current catalog. Chunks that have not changed since `cached` are not loaded again. Returns
/// `None` before the first snapshot.
pub async fn load(store: &Store, cached: Option<&Loaded>) -> Result<Option<Loaded>, StoreError> {
    // Eventually consistent reads cost half as much as consistent reads, but may not find the first head or a recent
    // part of the snapshot. If something is missing, retry with consistent reads. The retry also reads the head again,
    // because a newer snapshot may have replaced the part.
    let mut retry = Retry::immediate(SNAPSHOT, ATTEMPTS);
    let mut reads = Reads::Eventual;
    loop {
        let Some(head) = store.catalog_head(reads).await? else {
            if reads == Reads::Consistent {
                return Ok(None);
            }
            reads = Reads::Consistent;
            continue;
        };
        // Keep the cached catalog unless the head is newer. An eventually consistent read can return a head that
        // is older than the cached head.
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

/// Does the same as [`load`], with strongly consistent reads only.
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

/// Loads the snapshot to which `head` points. Returns `None` if a part of the snapshot is missing.
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
