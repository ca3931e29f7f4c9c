use chrono::serde::{ts_milliseconds, ts_seconds};
use chrono::{DateTime, Datelike as _, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ChunkName, Score, Status, appended};

/// Identifies a row by its source and the source's id. Stable: the same row always has the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub u64);

impl Key {
    /// The first 63 bits of a SHA-256, enough to rule out collisions. The top bit is left out because some
    /// clients of DynamoDB read numbers as signed.
    #[must_use]
    pub fn of(source: &str, kind: Kind, external_id: &str) -> Self {
        let text = format!("{source}\u{0}{}\u{0}{external_id}", kind.as_str());
        let digest = Sha256::digest(text.as_bytes());
        let bytes: [u8; 8] = std::array::from_fn(|at| digest[at]);
        Self(u64::from_be_bytes(bytes) >> 1)
    }
}

/// The kinds of rows.
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
    /// The date of the document that last changed or confirmed the row.
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
    /// The home ground.
    #[serde(default, with = "appended", skip_serializing_if = "Option::is_none")]
    pub venue: Option<String>,
    pub key: Key,
    /// The date of the document that last changed or confirmed the row.
    #[serde(with = "ts_milliseconds")]
    pub as_of: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tournament {
    pub id: u32,
    pub name: String,
    pub logo: Option<String>,
    /// Its matches get more shards, because many users predict them at the same time.
    pub featured: bool,
    pub key: Key,
    /// The date of the document that last changed or confirmed the row.
    #[serde(with = "ts_milliseconds")]
    pub as_of: DateTime<Utc>,
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
    /// The current score of a live match; the score after 90 minutes of a finished one.
    pub score: Option<Score>,
    /// The id of the chat room.
    pub room: Box<str>,
    /// The hash of the chat room's name. 0 if the name may be another than that of the teams.
    #[serde(default, with = "appended")]
    pub room_name_hash: u32,
    /// The number of partitions of its predictions. Fixed by the first import.
    pub shards: u8,
    /// Grows with each change of the result. Points belong to a revision.
    pub revision: u32,
    pub key: Key,
    /// The date of the document that last changed or confirmed the row.
    #[serde(with = "ts_milliseconds")]
    pub as_of: DateTime<Utc>,
}

impl Match {
    /// The chunk that holds it. The matches of a month share one, so that a goal reloads one month.
    #[must_use]
    pub fn chunk(&self) -> ChunkName {
        ChunkName::Month { year: self.start.year(), month: self.start.month() }
    }
}
