use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Match, Sport, Team, Tournament};

/// A part of the catalog that is stored, and reloaded, by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChunkName {
    /// Sports, teams and tournaments.
    Base,
    /// The matches that start in a month.
    Month { year: i32, month: u32 },
}

impl fmt::Display for ChunkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base => f.write_str("base"),
            Self::Month { year, month } => write!(f, "{year:04}-{month:02}"),
        }
    }
}

impl FromStr for ChunkName {
    type Err = CorruptChunk;

    fn from_str(text: &str) -> Result<Self, CorruptChunk> {
        if text == "base" {
            return Ok(Self::Base);
        }
        let (year, month) = text.split_once('-').ok_or(CorruptChunk)?;
        Ok(Self::Month {
            year: year.parse().map_err(|_| CorruptChunk)?,
            month: month.parse().map_err(|_| CorruptChunk)?,
        })
    }
}

/// The rows of one chunk, each kind sorted by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    pub sports: Vec<Sport>,
    pub teams: Vec<Team>,
    pub tournaments: Vec<Tournament>,
    pub matches: Vec<Match>,
}

/// Bytes that are no chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of the snapshot cannot be read")]
pub struct CorruptChunk;

impl Chunk {
    /// The same rows give the same bytes.
    pub fn encode(&self) -> Result<Vec<u8>, CorruptChunk> {
        let plain = postcard::to_allocvec(self).map_err(|_| CorruptChunk)?;
        Ok(lz4_flex::compress_prepend_size(&plain))
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptChunk> {
        let plain = lz4_flex::decompress_size_prepended(bytes).map_err(|_| CorruptChunk)?;
        postcard::from_bytes(&plain).map_err(|_| CorruptChunk)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Key, Kind, Score, Status};
    use super::*;

    fn chunk() -> Chunk {
        let at = chrono::DateTime::from_timestamp(1_794_744_000, 0).unwrap();
        Chunk {
            sports: vec![Sport {
                id: 1,
                name: "Football".into(),
                slug: "football".into(),
                key: Key(1),
                as_of: at,
            }],
            matches: vec![Match {
                id: 9,
                tournament_id: 1,
                home_team_id: 2,
                away_team_id: 3,
                start: at,
                status: Status::Finished,
                venue: Some("The Ground".into()),
                score: Some(Score { home: 2, away: 1 }),
                room: "!match9:touchline.local".into(),
                shards: 4,
                revision: 1,
                key: Key::of("touchline", Kind::Event, "9"),
                as_of: at,
            }],
            ..Chunk::default()
        }
    }

    #[test]
    fn a_chunk_reads_back_and_is_the_same_bytes_each_time() {
        let bytes = chunk().encode().unwrap();
        assert_eq!(bytes, chunk().encode().unwrap());
        assert_eq!(Chunk::decode(&bytes).unwrap(), chunk());
    }

    #[test]
    fn damaged_bytes_are_an_error_not_a_panic() {
        let bytes = chunk().encode().unwrap();
        for end in 0..bytes.len() {
            assert!(Chunk::decode(&bytes[..end]).is_err());
        }
        assert!(Chunk::decode(&[0xff; 64]).is_err());
    }

    #[test]
    fn names_read_back() {
        for name in [ChunkName::Base, ChunkName::Month { year: 2026, month: 3 }] {
            assert_eq!(name.to_string().parse::<ChunkName>().unwrap(), name);
        }
        assert!("nonsense".parse::<ChunkName>().is_err());
    }
}
