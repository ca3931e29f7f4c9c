//! The catalog: sports, teams, tournaments and matches, held in memory.
//!
//! The catalog is small and changes seldom. Listing, filtering, searching and counting are pure functions
//! that go through all rows, so every page costs the same.

mod chunk_name;
mod featured;
mod listed_match;
mod match_room_name;
mod query;
mod rows;
mod scope;
mod score;
mod snapshot;
mod status;
mod team_names;
#[cfg(test)]
pub mod testing;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use chunk_name::{ChunkName, CorruptChunk};
pub use featured::FeaturedTournaments;
pub use listed_match::ListPosition;
use listed_match::{ListedMatch, list_order};
pub use match_room_name::{match_room_name, room_name_hash};
pub use query::{EventFilter, Page, Paging, TeamFilter};
pub use rows::{Key, Kind, Match, Pause, Sport, Team, Tournament};
pub use scope::Scope;
pub use score::Score;
pub use snapshot::Chunk;
pub use status::{ShownStatus, Status, StatusDetail};
pub use team_names::{NEUTRAL, distribution_keys, fold, slug};

/// No catalog snapshot has been published yet. This is an error, because an empty list would claim that there
/// are no matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no catalog yet")]
pub struct CatalogMissing;

/// The rows of some or all chunks, with sorted copies of the fields that lists and searches use. Has all sports, teams and
/// tournaments, and the matches of the [`Scope`] that was requested, or more.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    chunks: BTreeMap<ChunkName, Arc<Chunk>>,
    /// The matches, in the order of [`list_order`].
    matches: Vec<ListedMatch>,
    /// The folded name and the id of each team, sorted by name.
    team_names: Vec<(String, u32)>,
}

impl Catalog {
    /// Builds a catalog from chunks. Each chunk is in an `Arc`, so that an old and a new catalog can share
    /// the unchanged chunks.
    #[must_use]
    pub fn new(chunks: BTreeMap<ChunkName, Arc<Chunk>>) -> Self {
        let mut matches: Vec<ListedMatch> = chunks
            .iter()
            .flat_map(|(name, chunk)| {
                chunk.matches.iter().enumerate().map(|(at, found)| ListedMatch {
                    start: found.start.timestamp(),
                    id: found.id,
                    tournament: found.tournament_id,
                    home: found.home_team_id,
                    away: found.away_team_id,
                    sport: chunks
                        .get(&ChunkName::Base)
                        .and_then(|base| by_id(&base.teams, found.home_team_id, |team| team.id))
                        .map_or(0, |team| team.sport_id),
                    chunk: *name,
                    at: u32::try_from(at).unwrap_or(u32::MAX),
                    status: found.status.shown(),
                })
            })
            .collect();
        matches.sort_unstable_by_key(list_order);
        let mut team_names: Vec<(String, u32)> = chunks
            .get(&ChunkName::Base)
            .map(|base| base.teams.iter().map(|team| (fold(&team.name), team.id)).collect())
            .unwrap_or_default();
        team_names.sort_unstable();
        Self { chunks, matches, team_names }
    }

    #[must_use]
    pub fn chunks(&self) -> &BTreeMap<ChunkName, Arc<Chunk>> {
        &self.chunks
    }

    fn base(&self) -> Option<&Chunk> {
        self.chunks.get(&ChunkName::Base).map(Arc::as_ref)
    }

    #[must_use]
    pub fn sport(&self, id: u32) -> Option<&Sport> {
        by_id(&self.base()?.sports, id, |sport| sport.id)
    }

    #[must_use]
    pub fn team(&self, id: u32) -> Option<&Team> {
        by_id(&self.base()?.teams, id, |team| team.id)
    }

    /// Returns the sport of a match: that of its teams.
    #[must_use]
    pub fn sport_of(&self, event: &Match) -> Option<&Sport> {
        self.sport(self.team(event.home_team_id)?.sport_id)
    }

    #[must_use]
    pub fn tournament(&self, id: u32) -> Option<&Tournament> {
        by_id(&self.base()?.tournaments, id, |tournament| tournament.id)
    }

    /// Finds a match by its id. A linear search takes microseconds, so there is no index.
    #[must_use]
    pub fn event(&self, id: u32) -> Option<&Match> {
        self.matches.iter().find(|listed| listed.id == id).and_then(|listed| self.at(listed))
    }

    /// Returns where a match is played: the match's own venue, or else the home team's ground.
    #[must_use]
    pub fn venue<'a>(&'a self, event: &'a Match) -> Option<&'a str> {
        event.venue.as_deref().or_else(|| self.team(event.home_team_id)?.venue.as_deref())
    }

    fn at(&self, listed: &ListedMatch) -> Option<&Match> {
        self.chunks.get(&listed.chunk)?.matches.get(listed.at as usize)
    }

    pub fn sports(&self) -> impl Iterator<Item = &Sport> {
        self.base().into_iter().flat_map(|base| &base.sports)
    }

    pub fn teams(&self) -> impl Iterator<Item = &Team> {
        self.base().into_iter().flat_map(|base| &base.teams)
    }

    pub fn tournaments(&self) -> impl Iterator<Item = &Tournament> {
        self.base().into_iter().flat_map(|base| &base.tournaments)
    }

    pub fn events(&self) -> impl Iterator<Item = &Match> {
        self.chunks.values().flat_map(|chunk| &chunk.matches)
    }
}

/// Finds a row by binary search: the rows of a chunk are sorted by id.
fn by_id<T>(rows: &[T], id: u32, id_of: impl Fn(&T) -> u32) -> Option<&T> {
    rows.binary_search_by_key(&id, id_of).ok().and_then(|at| rows.get(at))
}
