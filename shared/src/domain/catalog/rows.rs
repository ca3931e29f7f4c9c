use chrono::serde::{ts_milliseconds, ts_seconds};
use chrono::{DateTime, Datelike as _, SubsecRound as _, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{ChunkName, Score, Status};

/// Identifies a row by the feed that it comes from and its id in that feed. The key of a row never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Key(pub u64);

impl Key {
    /// Makes a key from the first 63 bits of a SHA-256 hash, enough to rule out collisions. With 64 bits,
    /// some keys would not fit in a signed 64-bit integer, which some DynamoDB clients use for numbers.
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
    /// The date of the feed document that last changed or confirmed the row.
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
    /// The name of the home ground.
    pub venue: Option<String>,
    /// A name for narrow screens.
    pub short_name: Option<String>,
    pub key: Key,
    /// The date of the feed document that last changed or confirmed the row.
    #[serde(with = "ts_milliseconds")]
    pub as_of: DateTime<Utc>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tournament {
    pub id: u32,
    pub name: String,
    pub logo: Option<String>,
    /// Whether the tournament is featured. Matches of a featured tournament get more shards, because many
    /// users predict them at the same time.
    pub featured: bool,
    pub key: Key,
    /// The date of the feed document that last changed or confirmed the row.
    #[serde(with = "ts_milliseconds")]
    pub as_of: DateTime<Utc>,
}

/// A pause of the predictions for a match. The time at which it began tells it from an earlier pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pause(#[serde(with = "ts_milliseconds")] DateTime<Utc>);

impl Pause {
    /// Begins a pause. Stored times have whole milliseconds.
    #[must_use]
    pub fn beginning(now: DateTime<Utc>) -> Self {
        Self(now.trunc_subsecs(3))
    }

    #[must_use]
    pub fn since(self) -> DateTime<Utc> {
        self.0
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Match {
    pub id: u32,
    pub tournament_id: u32,
    pub home_team_id: u32,
    pub away_team_id: u32,
    /// Kick-off.
    #[serde(with = "ts_seconds")]
    pub start: DateTime<Utc>,
    pub status: Status,
    pub venue: Option<Box<str>>,
    /// For a live match, the current score. For a finished match, the score after 90 minutes, without extra
    /// time and penalties.
    pub score: Option<Score>,
    /// The Matrix id of the match's chat room.
    pub room: Box<str>,
    /// The hash of the chat room's name; 0 if the name is unknown.
    pub room_name_hash: u32,
    /// The number of DynamoDB partitions that hold the predictions for the match. The first import of the
    /// match sets it. Later only a promotion changes it, while the match has no predictions.
    pub shards: u8,
    /// Set while predictions for the match are paused, because its number of shards is about to change.
    pub pause: Option<Pause>,
    /// The revision of the result. It grows with each change of the result. Points are stored with the
    /// revision that they were calculated from.
    pub revision: u32,
    pub key: Key,
    /// The date of the feed document that last changed or confirmed the row.
    #[serde(with = "ts_milliseconds")]
    pub as_of: DateTime<Utc>,
}

impl Match {
    /// Returns the name of the chunk that holds the match. There is one chunk for each month, so that after a
    /// goal only one month is reloaded.
    #[must_use]
    pub fn chunk(&self) -> ChunkName {
        ChunkName::Month { year: self.start.year(), month: self.start.month() }
    }
}
