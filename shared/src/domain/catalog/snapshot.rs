use serde::{Deserialize, Serialize};

use super::{CorruptChunk, Match, Sport, Team, Tournament};

/// The rows of one chunk, each kind sorted by id.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chunk {
    pub sports: Vec<Sport>,
    pub teams: Vec<Team>,
    pub tournaments: Vec<Tournament>,
    pub matches: Vec<Match>,
}

impl Chunk {
    /// Encodes the chunk. Equal chunks give equal bytes.
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
    use chrono::{DateTime, Utc};

    use super::super::{Key, Kind, Pause, Score, Status};
    use super::*;

    fn at() -> DateTime<Utc> {
        DateTime::from_timestamp(1_794_744_000, 0).unwrap()
    }

    fn chunk() -> Chunk {
        Chunk {
            sports: vec![Sport {
                id: 1,
                name: "Football".into(),
                slug: "football".into(),
                key: Key(1),
                as_of: at(),
            }],
            teams: vec![Team {
                id: 2,
                name: "Strandby IF".into(),
                slug: "strandby-if".into(),
                sport_id: 1,
                logo: None,
                country: Some("Dania".into()),
                founded: Some(1951),
                venue: Some("Strandby Park".into()),
                short_name: Some("Strandby".into()),
                key: Key(2),
                as_of: at(),
            }],
            matches: vec![Match {
                id: 9,
                tournament_id: 1,
                home_team_id: 2,
                away_team_id: 3,
                start: at(),
                status: Status::Finished,
                venue: Some("The Ground".into()),
                score: Some(Score { home: 2, away: 1 }),
                room: "!match9:touchline.local".into(),
                room_name_hash: 7,
                shards: 4,
                pause: Some(Pause::beginning(at())),
                revision: 1,
                key: Key::of("touchline", Kind::Event, "9"),
                as_of: at(),
            }],
            ..Chunk::default()
        }
    }

    #[test]
    fn chunks_round_trip_and_encode_to_the_same_bytes_each_time() {
        for chunk in [chunk(), Chunk::default()] {
            let bytes = chunk.encode().unwrap();
            assert_eq!(bytes, chunk.encode().unwrap());
            assert_eq!(Chunk::decode(&bytes).unwrap(), chunk);
        }
    }

    #[test]
    fn damaged_bytes_give_an_error_instead_of_a_panic() {
        let bytes = chunk().encode().unwrap();
        for end in 0..bytes.len() {
            assert!(Chunk::decode(&bytes[..end]).is_err());
        }
        assert!(Chunk::decode(&[0xff; 64]).is_err());
    }
}
