//! A function's copy of the catalog: loaded once, checked often, reloaded in parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use tokio::sync::Mutex;

use crate::domain::catalog::{Catalog, CatalogMissing, ChunkName};
use crate::storage::catalog::{ChunkRef, Head, Index};
use crate::storage::{Reads, Store, StoreError};
use crate::{App, Error};

/// A catalog, and what it was made from.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub head: Head,
    pub index: Index,
    pub catalog: Arc<Catalog>,
    places: BTreeMap<ChunkName, ChunkRef>,
}

impl Loaded {
    /// Whether the index names this very place for a chunk.
    #[must_use]
    pub fn names(&self, name: ChunkName, place: &ChunkRef) -> bool {
        self.places.get(&name) == Some(place)
    }
}

/// What a warm function keeps.
#[derive(Debug, Default)]
pub struct Cache(Mutex<Option<(DateTime<Utc>, Loaded)>>);

impl App {
    /// The catalog, at most [`crate::config::Config::catalog_max_age`] old.
    ///
    /// Where the store is in trouble, the copy at hand is better than no answer.
    pub async fn catalog(&self) -> Result<Arc<Catalog>, Error> {
        let mut cached = self.catalog_cache.0.lock().await;
        let now = self.clock.now();
        if let Some((checked_at, loaded)) = &*cached
            && now - *checked_at < self.config.catalog_max_age
        {
            return Ok(Arc::clone(&loaded.catalog));
        }
        let before = cached.as_ref().map(|(_, loaded)| loaded);
        match load(&self.store, before).await {
            Ok(Some(loaded)) => {
                let catalog = Arc::clone(&loaded.catalog);
                *cached = Some((now, loaded));
                Ok(catalog)
            }
            Ok(None) => Err(CatalogMissing.into()),
            Err(error) => match before {
                Some(loaded) => {
                    tracing::warn!(%error, "the catalog could not be checked; the last copy serves");
                    Ok(Arc::clone(&loaded.catalog))
                }
                None => Err(error.into()),
            },
        }
    }
}

impl App {
    /// The current catalog and what it was made from, for whoever publishes the next one.
    pub async fn latest_catalog(&self) -> Result<Option<Loaded>, StoreError> {
        let mut cached = self.catalog_cache.0.lock().await;
        let before = cached.as_ref().map(|(_, loaded)| loaded);
        let loaded = load_now(&self.store, before).await?;
        *cached = loaded.clone().map(|loaded| (self.clock.now(), loaded));
        Ok(loaded)
    }
}

/// The current catalog, with every write that was answered; of `before`, the chunks that did not change
/// are kept.
pub async fn load_now(store: &Store, before: Option<&Loaded>) -> Result<Option<Loaded>, StoreError> {
    for _ in 0..5 {
        let Some(head) = store.catalog_head(Reads::Consistent).await? else { return Ok(None) };
        if let Some(loaded) = assemble(store, head, before, Reads::Consistent).await? {
            return Ok(Some(loaded));
        }
    }
    Err(moved())
}

/// The current catalog; of `before`, the chunks that did not change are kept. `None` where there is none.
pub async fn load(store: &Store, before: Option<&Loaded>) -> Result<Option<Loaded>, StoreError> {
    // Cheap reads first. They may be older than each other, or the head may move while they are made:
    // then again, and truly.
    for reads in [Reads::Eventual, Reads::Consistent, Reads::Consistent, Reads::Consistent] {
        let Some(head) = store.catalog_head(reads).await? else { return Ok(None) };
        // A cheap read may be older than the copy at hand; time does not run backwards.
        if let Some(before) = before
            && head.version <= before.head.version
        {
            return Ok(Some(before.clone()));
        }
        if let Some(loaded) = assemble(store, head, before, reads).await? {
            return Ok(Some(loaded));
        }
    }
    Err(moved())
}

/// The head moved on faster than its chunks could be read.
fn moved() -> StoreError {
    StoreError::Busy { operation: "BatchGetItem", code: "SnapshotMoved".into() }
}

async fn assemble(
    store: &Store,
    head: Head,
    before: Option<&Loaded>,
    reads: Reads,
) -> Result<Option<Loaded>, StoreError> {
    let Some(index) = store.catalog_index(&head, reads).await? else { return Ok(None) };
    let places = index.chunks()?;
    let mut chunks = BTreeMap::new();
    let mut wanted = Vec::new();
    for (name, place) in &places {
        let kept = before
            .filter(|before| before.places.get(name) == Some(place))
            .and_then(|before| before.catalog.chunks().get(name));
        match kept {
            Some(chunk) => {
                chunks.insert(*name, Arc::clone(chunk));
            }
            None => wanted.push((*name, place.clone())),
        }
    }
    let Some(loaded) = store.catalog_chunks(&wanted, reads).await? else { return Ok(None) };
    chunks.extend(loaded.into_iter().map(|(name, chunk)| (name, Arc::new(chunk))));
    Ok(Some(Loaded { head, index, catalog: Arc::new(Catalog::new(chunks)), places }))
}
