use std::collections::{BTreeMap, BTreeSet};

use touchline::App;
use touchline::domain::catalog::{Catalog, Chunk, ChunkName, Match, Sport, Team, Tournament};
use touchline::storage::StoreError;
use touchline::storage::catalog::Row;

/// Rows of every kind, by id.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    pub sports: BTreeMap<u32, Sport>,
    pub teams: BTreeMap<u32, Team>,
    pub tournaments: BTreeMap<u32, Tournament>,
    pub events: BTreeMap<u32, Match>,
}

impl Rows {
    pub fn is_empty(&self) -> bool {
        self.sports.is_empty()
            && self.teams.is_empty()
            && self.tournaments.is_empty()
            && self.events.is_empty()
    }

    /// Reads every stored row.
    pub async fn load_all(app: &App) -> Result<Self, StoreError> {
        Ok(Self {
            sports: app.store.all_rows().await?,
            teams: app.store.all_rows().await?,
            tournaments: app.store.all_rows().await?,
            events: app.store.all_rows().await?,
        })
    }

    /// Reads the stored state of the rows in `self`.
    pub async fn reload(&self, app: &App) -> Result<Self, StoreError> {
        fn ids<T>(rows: &BTreeMap<u32, T>) -> Vec<u32> {
            rows.keys().copied().collect()
        }
        Ok(Self {
            sports: app.store.catalog_rows(&ids(&self.sports)).await?,
            teams: app.store.catalog_rows(&ids(&self.teams)).await?,
            tournaments: app.store.catalog_rows(&ids(&self.tournaments)).await?,
            events: app.store.catalog_rows(&ids(&self.events)).await?,
        })
    }
}

/// Returns the chunks that change when `rows` are put into `catalog`. A row replaces the row with the same id. A
/// month's chunk that loses all its matches is `None`. The base chunk is never `None`.
pub fn changed_chunks(catalog: &Catalog, rows: &Rows) -> BTreeMap<ChunkName, Option<Chunk>> {
    let mut next: BTreeMap<ChunkName, Chunk> = BTreeMap::new();
    let copy =
        |name: ChunkName| catalog.chunks().get(&name).map(|chunk| (**chunk).clone()).unwrap_or_default();

    let mut base = copy(ChunkName::Base);
    replace(&mut base.sports, &rows.sports);
    replace(&mut base.teams, &rows.teams);
    replace(&mut base.tournaments, &rows.tournaments);
    next.insert(ChunkName::Base, base);

    // The matches of a month are one chunk. A match that moves to another month changes the chunks of both
    // months.
    let touched: BTreeSet<ChunkName> = catalog
        .events()
        .filter(|event| rows.events.get(&event.id).is_some_and(|row| row != *event))
        .map(Match::chunk)
        .chain(rows.events.values().map(Match::chunk))
        .collect();
    for name in touched {
        let mut chunk = copy(name);
        chunk.matches.retain(|event| !rows.events.contains_key(&event.id));
        chunk.matches.extend(rows.events.values().filter(|event| event.chunk() == name).cloned());
        chunk.matches.sort_by_key(|event| event.id);
        next.insert(name, chunk);
    }
    next.into_iter()
        .filter(|(name, chunk)| catalog.chunks().get(name).is_none_or(|before| **before != *chunk))
        .map(|(name, chunk)| {
            let empty = name != ChunkName::Base && chunk.matches.is_empty();
            (name, (!empty).then_some(chunk))
        })
        .collect()
}

fn replace<T: Row>(list: &mut Vec<T>, rows: &BTreeMap<u32, T>) {
    list.retain(|row| !rows.contains_key(&row.id()));
    list.extend(rows.values().cloned());
    list.sort_by_key(Row::id);
}
