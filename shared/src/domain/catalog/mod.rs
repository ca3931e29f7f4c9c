//! The catalog: sports, teams, tournaments and matches, held in memory.
//!
//! It is small and changes seldom, so listing, filtering, searching and counting are pure functions over
//! a slice, and any page costs the same.

mod query;
mod snapshot;

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::serde::{ts_milliseconds, ts_seconds};
use chrono::{DateTime, Datelike as _, Utc};
use serde::{Deserialize, Serialize};

use super::{Field, Raw, Reason};

pub use query::{EventFilter, Page, Paging, TeamFilter, fold};
pub use snapshot::{Chunk, ChunkName, CorruptChunk};

/// A row's origin, as a number: the same source and external id give the same key for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub u64);

impl Key {
    /// 63 bits of a SHA-256: two rows of different origin do not meet by chance. The topmost bit is left
    /// out because DynamoDB's users read numbers as signed.
    #[must_use]
    pub fn of(source: &str, kind: Kind, external_id: &str) -> Self {
        use sha2::{Digest as _, Sha256};
        let text = format!("{source}\u{0}{}\u{0}{external_id}", kind.as_str());
        let digest = Sha256::digest(text.as_bytes());
        let bytes: [u8; 8] = std::array::from_fn(|at| digest[at]);
        Self(u64::from_be_bytes(bytes) >> 1)
    }
}

/// What a row is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Sport,
    Team,
    Tournament,
    Event,
}

impl Kind {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sport => "sport",
            Self::Team => "team",
            Self::Tournament => "tournament",
            Self::Event => "event",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sport {
    pub id: u32,
    pub name: String,
    pub slug: String,
    pub key: Key,
    #[serde(with = "ts_milliseconds")]
    pub as_of: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Team {
    pub id: u32,
    pub name: String,
    pub slug: String,
    pub sport_id: u32,
    pub logo: Option<String>,
    pub country: Option<String>,
    pub founded: Option<i32>,
    pub key: Key,
    #[serde(with = "ts_milliseconds")]
    pub as_of: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tournament {
    pub id: u32,
    pub name: String,
    pub logo: Option<String>,
    /// Whole stadiums predict its matches at once: they get more shards.
    pub featured: bool,
    pub key: Key,
    #[serde(with = "ts_milliseconds")]
    pub as_of: DateTime<Utc>,
}

/// How a match stands. The API shows three words; the others matter inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    Scheduled,
    /// Will be played at another time; predictions stay.
    Postponed,
    Live,
    Finished,
    Cancelled,
    Abandoned,
    /// Decided at a table, not on the pitch.
    Awarded,
}

impl Status {
    /// Over without a result that counts.
    #[must_use]
    pub fn is_void(self) -> bool {
        matches!(self, Self::Cancelled | Self::Abandoned | Self::Awarded)
    }

    #[must_use]
    pub fn shown(self) -> ShownStatus {
        match self {
            Self::Scheduled | Self::Postponed => ShownStatus::Scheduled,
            Self::Live => ShownStatus::Live,
            Self::Finished | Self::Cancelled | Self::Abandoned | Self::Awarded => ShownStatus::Finished,
        }
    }
}

/// The status of a match in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ShownStatus {
    Live,
    Scheduled,
    Finished,
}

impl ShownStatus {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        match text {
            "scheduled" => Ok(Self::Scheduled),
            "live" => Ok(Self::Live),
            "finished" => Ok(Self::Finished),
            _ => Err("Choose scheduled, live or finished as the status.".into()),
        }
    }
}

impl Field for ShownStatus {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        super::text::schema::one_of(&["live", "scheduled", "finished"])
    }
}

/// Goals of both teams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Score {
    /// Goals of the home team.
    pub home: u16,
    /// Goals of the away team.
    pub away: u16,
}

impl Score {
    /// The most goals of one team that a user can predict.
    pub const MAX_PREDICTED: u16 = 99;
}

/// Reads a predicted score.
impl Field for Score {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        let sides = raw.object()?;
        let goals = |side: &str| {
            let goals = sides.get(side).and_then(|goals| Raw::Json(goals).integer().ok());
            let goals = goals.and_then(|goals| u16::try_from(goals).ok());
            goals
                .filter(|goals| *goals <= Self::MAX_PREDICTED)
                .ok_or_else(|| format!("Enter 0 to {} goals for each team.", Self::MAX_PREDICTED))
        };
        Ok(Self { home: goals("home")?, away: goals("away")? })
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        let goals = |of: &str| {
            serde_json::json!({
                "type": "integer", "minimum": 0, "maximum": Self::MAX_PREDICTED, "description": of,
            })
        };
        serde_json::json!({
            "type": "object", "required": ["home", "away"],
            "properties": { "home": goals("Goals of the home team."), "away": goals("Goals of the away team.") },
            "description": "A score that agrees with `prediction`.",
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    pub id: u32,
    pub tournament_id: u32,
    pub home_team_id: u32,
    pub away_team_id: u32,
    #[serde(with = "ts_seconds")]
    pub start: DateTime<Utc>,
    pub status: Status,
    pub venue: Option<Box<str>>,
    /// After 90 minutes, where the match is over; as it stands, where it is live.
    pub score: Option<Score>,
    pub room: Box<str>,
    /// Over how many partitions its predictions are spread. Fixed when the match is first imported.
    pub shards: u8,
    /// Grows with each change of a result: points are calculated under it.
    pub revision: u32,
    pub key: Key,
    #[serde(with = "ts_milliseconds")]
    pub as_of: DateTime<Utc>,
}

impl Match {
    /// Matches of a month share a chunk of the snapshot, so that a goal reloads one month.
    #[must_use]
    pub fn chunk(&self) -> ChunkName {
        ChunkName::Month { year: self.start.year(), month: self.start.month() }
    }
}

/// No snapshot has been published yet. An error, because an empty list would be wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no catalog yet")]
pub struct CatalogMissing;

/// Everything, ready to be asked.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    chunks: BTreeMap<ChunkName, Arc<Chunk>>,
    rows: Vec<Row>,
    team_names: Vec<(String, u32)>,
}

/// A match as listing looks at it: in the list's order, small, and all in one place.
#[derive(Debug, Clone, Copy)]
struct Row {
    start: i64,
    id: u32,
    tournament: u32,
    home: u32,
    away: u32,
    chunk: ChunkName,
    at: u32,
    status: ShownStatus,
}

impl Catalog {
    /// Puts chunks together. Those that did not change are shared with the catalog before.
    #[must_use]
    pub fn new(chunks: BTreeMap<ChunkName, Arc<Chunk>>) -> Self {
        let mut rows: Vec<Row> = chunks
            .iter()
            .flat_map(|(name, chunk)| {
                chunk.matches.iter().enumerate().map(|(at, found)| Row {
                    start: found.start.timestamp(),
                    id: found.id,
                    tournament: found.tournament_id,
                    home: found.home_team_id,
                    away: found.away_team_id,
                    chunk: *name,
                    at: u32::try_from(at).unwrap_or(u32::MAX),
                    status: found.status.shown(),
                })
            })
            .collect();
        rows.sort_unstable_by_key(query::list_order);
        let mut team_names: Vec<(String, u32)> = chunks
            .get(&ChunkName::Base)
            .map(|base| base.teams.iter().map(|team| (fold(&team.name), team.id)).collect())
            .unwrap_or_default();
        team_names.sort_unstable();
        Self { chunks, rows, team_names }
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

    #[must_use]
    pub fn tournament(&self, id: u32) -> Option<&Tournament> {
        by_id(&self.base()?.tournaments, id, |tournament| tournament.id)
    }

    /// A match by its id. Looks at each row: still microseconds, and there is no index to keep.
    #[must_use]
    pub fn event(&self, id: u32) -> Option<&Match> {
        self.rows.iter().find(|row| row.id == id).and_then(|row| self.at(row))
    }

    fn at(&self, row: &Row) -> Option<&Match> {
        self.chunks.get(&row.chunk)?.matches.get(row.at as usize)
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

/// Rows of a chunk are sorted by id.
fn by_id<T>(rows: &[T], id: u32, id_of: impl Fn(&T) -> u32) -> Option<&T> {
    rows.binary_search_by_key(&id, id_of).ok().and_then(|at| rows.get(at))
}
