//! From a catalog and changed rows to the chunks that must be written anew. Pure.

use std::collections::{BTreeMap, BTreeSet};

use touchline::domain::catalog::{Catalog, Chunk, ChunkName, Match, Sport, Team, Tournament};
use touchline::storage::catalog::Row;

/// Rows as they shall be, by id.
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
}

/// The chunks that differ once `rows` are in: with their new content, or `None` where nothing is left.
pub fn changed_chunks(catalog: &Catalog, rows: &Rows) -> BTreeMap<ChunkName, Option<Chunk>> {
    let mut next: BTreeMap<ChunkName, Chunk> = BTreeMap::new();
    let copy =
        |name: ChunkName| catalog.chunks().get(&name).map(|chunk| (**chunk).clone()).unwrap_or_default();

    let mut base = copy(ChunkName::Base);
    put_all(&mut base.sports, &rows.sports);
    put_all(&mut base.teams, &rows.teams);
    put_all(&mut base.tournaments, &rows.tournaments);
    next.insert(ChunkName::Base, base);

    // A match that moved to another month leaves the one it was in.
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

fn put_all<T: Row>(into: &mut Vec<T>, rows: &BTreeMap<u32, T>) {
    into.retain(|row| !rows.contains_key(&row.id()));
    into.extend(rows.values().cloned());
    into.sort_by_key(Row::id);
}
