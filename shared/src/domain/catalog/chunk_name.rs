use std::fmt;
use std::str::FromStr;

/// The name of a chunk. A chunk is a piece of the catalog that is stored and loaded separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChunkName {
    /// The chunk with all sports, teams and tournaments.
    Base,
    /// The chunk with the matches that kick off in this month, in UTC.
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

/// Bytes that are not a chunk, or a text that is not the name of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a chunk of the snapshot cannot be read")]
pub struct CorruptChunk;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_names_round_trip() {
        for name in [ChunkName::Base, ChunkName::Month { year: 2026, month: 3 }] {
            assert_eq!(name.to_string().parse::<ChunkName>().unwrap(), name);
        }
        assert!("another".parse::<ChunkName>().is_err());
    }
}
