use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::Mutex;

use super::{ChunkRef, Head, Index};
use crate::domain::catalog::{Catalog, ChunkName, Scope};
use crate::storage::conflict_retry::Retry;
use crate::storage::error::StoreError;
use crate::storage::store::{Reads, Store};

/// The maximum number of attempts to read a snapshot. An attempt fails if a part of the snapshot
/// is missing.
const ATTEMPTS: u32 = 5;

/// The name of the snapshot in the error message after all attempts have failed.
const SNAPSHOT: &str = "catalog snapshot";

/// How long the cache waits after a failed load before it tries again. The time doubles with each further failure, up to
/// [`MAX_PAUSE`]. Without a pause, the environments that cannot load the catalog would keep the store busy for all others.
const MIN_PAUSE: TimeDelta = TimeDelta::milliseconds(250);
const MAX_PAUSE: TimeDelta = TimeDelta::seconds(4);

/// A catalog, with the head and the index from which it was loaded.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub head: Head,
    pub index: Index,
    /// The catalog. It may lack chunks that no request has needed.
    pub catalog: Arc<Catalog>,
    chunks: BTreeMap<ChunkName, ChunkRef>,
}

impl Loaded {
    /// Returns whether the index lists exactly this chunk under `name`.
    #[must_use]
    pub fn lists(&self, name: ChunkName, chunk: &ChunkRef) -> bool {
        self.chunks.get(&name) == Some(chunk)
    }

    fn has(&self, scope: Scope) -> bool {
        let mut needed = self.chunks.keys().filter(|name| scope.includes(**name));
        needed.all(|name| self.catalog.chunks().contains_key(name))
    }
}

/// The catalog, cached in memory between the invocations of a Lambda function.
#[derive(Debug, Default)]
pub struct Cache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    entry: Option<Entry>,
    failure: Option<Failure>,
}

#[derive(Debug)]
struct Entry {
    checked_at: DateTime<Utc>,
    loaded: Loaded,
}

/// A failed load.
#[derive(Debug, Clone, Copy)]
struct Failure {
    /// Whether the whole catalog was to be loaded.
    is_whole: bool,
    at: DateTime<Utc>,
    /// How long to wait before the next attempt.
    pause: TimeDelta,
}

impl State {
    fn cached(&self, scope: Scope) -> Option<&Entry> {
        self.entry.as_ref().filter(|entry| entry.loaded.has(scope))
    }

    /// Returns the last failure, if it was a load like this one. A part of the catalog may load while the whole does not.
    fn failure(&self, scope: Scope) -> Option<Failure> {
        self.failure.filter(|failure| failure.is_whole == (scope == Scope::All))
    }

    /// Returns whether a load failed so recently that another attempt must wait.
    fn must_wait(&self, scope: Scope, now: DateTime<Utc>) -> bool {
        let failure = self.failure(scope);
        failure.is_some_and(|failure| (failure.at..failure.at + failure.pause).contains(&now))
    }
}

impl Cache {
    /// Returns the catalog with the matches in `scope`, and maybe others. Checks for a newer one if the last check was at
    /// least `max_age` ago. `now` reads the clock: a load takes time, and the pause after a failure begins with its end. Returns `None` before the first snapshot. If the check fails, returns the cached catalog,
    /// however old it is. Fails if it lacks matches in `scope`.
    pub async fn get(
        &self,
        store: &Store,
        scope: Scope,
        now: impl Fn() -> DateTime<Utc>,
        max_age: TimeDelta,
    ) -> Result<Option<Arc<Catalog>>, StoreError> {
        let error = match self.get_checked(store, scope, now, max_age).await {
            Ok(catalog) => return Ok(catalog),
            Err(error) => error,
        };
        let state = self.0.lock().await;
        let Some(Entry { loaded, .. }) = state.cached(scope) else { return Err(error) };
        tracing::warn!(%error, "cannot check for a newer catalog; using the cached one");
        Ok(Some(Arc::clone(&loaded.catalog)))
    }

    /// Does the same as [`Self::get`], but returns an error if the check fails.
    pub async fn get_checked(
        &self,
        store: &Store,
        scope: Scope,
        now: impl Fn() -> DateTime<Utc>,
        max_age: TimeDelta,
    ) -> Result<Option<Arc<Catalog>>, StoreError> {
        let mut state = self.0.lock().await;
        let began = now();
        if let Some(Entry { checked_at, loaded }) = state.cached(scope)
            && began - *checked_at < max_age
        {
            return Ok(Some(Arc::clone(&loaded.catalog)));
        }
        if state.must_wait(scope, began) {
            return Err(StoreError::Contended { what: SNAPSHOT });
        }
        let cached = state.entry.as_ref().map(|entry| &entry.loaded);
        let loaded = match load(store, cached, scope).await {
            Ok(loaded) => loaded,
            Err(error) => {
                let pause = state.failure(scope).map_or(MIN_PAUSE, |last| (last.pause * 2).min(MAX_PAUSE));
                state.failure = Some(Failure { is_whole: scope == Scope::All, at: now(), pause });
                return Err(error);
            }
        };
        if state.failure(scope).is_some() {
            state.failure = None;
        }
        let catalog = loaded.as_ref().map(|loaded| Arc::clone(&loaded.catalog));
        if let Some(loaded) = loaded {
            state.entry = Some(Entry { checked_at: began, loaded });
        }
        Ok(catalog)
    }

    /// Loads the whole latest catalog with strongly consistent reads. Returns `None` before the first snapshot.
    pub async fn get_latest(&self, store: &Store, now: DateTime<Utc>) -> Result<Option<Loaded>, StoreError> {
        let mut state = self.0.lock().await;
        let loaded = load_latest(store, state.entry.as_ref().map(|entry| &entry.loaded)).await?;
        state.entry = loaded.clone().map(|loaded| Entry { checked_at: now, loaded });
        Ok(loaded)
    }
}

/// Loads the current catalog with the matches in `scope`. Chunks that have not changed since `cached` are not loaded again.
/// Returns `None` before the first snapshot.
pub async fn load(
    store: &Store,
    cached: Option<&Loaded>,
    scope: Scope,
) -> Result<Option<Loaded>, StoreError> {
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
        let loaded = match cached {
            // Keep the cached catalog unless the head is newer. An eventually consistent read can return a head that
            // is older than the cached head.
            Some(cached) if head.version <= cached.head.version => {
                if cached.has(scope) {
                    return Ok(Some(cached.clone()));
                }
                let (head, index) = (cached.head.clone(), cached.index.clone());
                load_chunks(store, head, index, Some(cached), scope, reads).await?
            }
            _ => load_index_and_chunks(store, head, cached, scope, reads).await?,
        };
        if loaded.is_some() {
            return Ok(loaded);
        }
        reads = Reads::Consistent;
        retry.again().await?;
    }
}

/// Loads the whole catalog as [`load`] does, with strongly consistent reads only.
pub async fn load_latest(store: &Store, cached: Option<&Loaded>) -> Result<Option<Loaded>, StoreError> {
    let mut retry = Retry::immediate(SNAPSHOT, ATTEMPTS);
    let reads = Reads::Consistent;
    loop {
        let Some(head) = store.catalog_head(reads).await? else { return Ok(None) };
        let loaded = load_index_and_chunks(store, head, cached, Scope::All, reads).await?;
        if loaded.is_some() {
            return Ok(loaded);
        }
        retry.again().await?;
    }
}

/// Loads the snapshot to which `head` points. Returns `None` if a part of the snapshot is missing.
async fn load_index_and_chunks(
    store: &Store,
    head: Head,
    cached: Option<&Loaded>,
    scope: Scope,
    reads: Reads,
) -> Result<Option<Loaded>, StoreError> {
    match store.catalog_index(&head, reads).await? {
        Some(index) => load_chunks(store, head, index, cached, scope, reads).await,
        None => Ok(None),
    }
}

/// Loads the chunks in `scope` and keeps unchanged cached chunks. Returns `None` if a part of a chunk is missing.
async fn load_chunks(
    store: &Store,
    head: Head,
    index: Index,
    cached: Option<&Loaded>,
    scope: Scope,
    reads: Reads,
) -> Result<Option<Loaded>, StoreError> {
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
            None if scope.includes(*name) => wanted.push((*name, chunk.clone())),
            None => {}
        }
    }
    let Some(loaded) = store.catalog_chunks(&wanted, reads).await? else { return Ok(None) };
    chunks.extend(loaded.into_iter().map(|(name, chunk)| (name, Arc::new(chunk))));
    Ok(Some(Loaded { head, index, catalog: Arc::new(Catalog::new(chunks)), chunks: listed }))
}
