use serde::{Deserialize, Serialize};

use super::{CorruptChunk, Match, Pause, Sport, Team, Tournament};

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
        let mut plain = postcard::to_allocvec(self).map_err(|_| CorruptChunk)?;
        let pauses = pauses(self);
        if let Some(appendix) = Appendix::of(self, !pauses.is_empty()) {
            plain = postcard::to_extend(&appendix, plain).map_err(|_| CorruptChunk)?;
        }
        if !pauses.is_empty() {
            plain = postcard::to_extend(&pauses, plain).map_err(|_| CorruptChunk)?;
        }
        Ok(lz4_flex::compress_prepend_size(&plain))
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, CorruptChunk> {
        let plain = lz4_flex::decompress_size_prepended(bytes).map_err(|_| CorruptChunk)?;
        let (mut chunk, rest): (Self, _) = postcard::take_from_bytes(&plain).map_err(|_| CorruptChunk)?;
        // A chunk has no appendix if the first release wrote it, or if all fields that were added after the first
        // release have default values.
        if !rest.is_empty() {
            let (appendix, rest): (Appendix, _) =
                postcard::take_from_bytes(rest).map_err(|_| CorruptChunk)?;
            appendix.move_to(&mut chunk)?;
            // A chunk without paused matches ends here.
            if !rest.is_empty() {
                let pauses: Vec<(u32, Pause)> = postcard::from_bytes(rest).map_err(|_| CorruptChunk)?;
                set_pauses(&mut chunk, &pauses)?;
            }
        }
        Ok(chunk)
    }
}

/// Returns the pauses of a chunk's matches, by id. They follow after the appendix, where older versions of this program
/// ignore them.
fn pauses(chunk: &Chunk) -> Vec<(u32, Pause)> {
    chunk.matches.iter().filter_map(|event| Some((event.id, event.pause?))).collect()
}

fn set_pauses(chunk: &mut Chunk, pauses: &[(u32, Pause)]) -> Result<(), CorruptChunk> {
    for (id, pause) in pauses {
        let event = chunk.matches.iter_mut().find(|event| event.id == *id).ok_or(CorruptChunk)?;
        event.pause = Some(*pause);
    }
    Ok(())
}

/// The values of the row fields that were added after the first release, one value for each row.
///
/// An encoded chunk has no field names: fields are read by position. So an older version of this program could not
/// read a row with an added field. The added values follow after all rows, where an older version ignores them. So
/// both versions can run during a deployment.
#[derive(Debug, Serialize, Deserialize)]
struct Appendix {
    team_venues: Vec<Option<String>>,
    room_name_hashes: Vec<u32>,
}

impl Appendix {
    /// Collects a chunk's values of the added fields. Returns `None` if every value is the default, unless something
    /// follows after the appendix.
    fn of(chunk: &Chunk, is_followed: bool) -> Option<Self> {
        let appendix = Self {
            team_venues: chunk.teams.iter().map(|team| team.venue.clone()).collect(),
            room_name_hashes: chunk.matches.iter().map(|event| event.room_name_hash).collect(),
        };
        let is_default = appendix.team_venues.iter().all(Option::is_none)
            && appendix.room_name_hashes.iter().all(|hash| *hash == 0);
        (!is_default || is_followed).then_some(appendix)
    }

    fn move_to(self, chunk: &mut Chunk) -> Result<(), CorruptChunk> {
        if self.team_venues.len() != chunk.teams.len() || self.room_name_hashes.len() != chunk.matches.len() {
            return Err(CorruptChunk);
        }
        for (team, venue) in chunk.teams.iter_mut().zip(self.team_venues) {
            team.venue = venue;
        }
        for (event, hash) in chunk.matches.iter_mut().zip(self.room_name_hashes) {
            event.room_name_hash = hash;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, Utc};

    use super::super::{Key, Kind, Score, Status};
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
                venue: None,
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
                room_name_hash: 0,
                shards: 4,
                pause: None,
                revision: 1,
                key: Key::of("touchline", Kind::Event, "9"),
                as_of: at(),
            }],
            ..Chunk::default()
        }
    }

    fn chunk_with_appendix() -> Chunk {
        let mut chunk = chunk();
        chunk.teams[0].venue = Some("Strandby Park".into());
        chunk.matches[0].room_name_hash = 7;
        chunk
    }

    fn paused(mut chunk: Chunk) -> Chunk {
        chunk.matches[0].pause = Some(Pause::beginning(at()));
        chunk
    }

    #[test]
    fn chunks_round_trip_and_encode_to_the_same_bytes_each_time() {
        for chunk in [chunk(), chunk_with_appendix(), paused(chunk()), paused(chunk_with_appendix())] {
            let bytes = chunk.encode().unwrap();
            assert_eq!(bytes, chunk.encode().unwrap());
            assert_eq!(Chunk::decode(&bytes).unwrap(), chunk);
        }
    }

    /// The rows as the first release declared them.
    mod first_release {
        use super::super::super::{Key, Score, Sport, Status, Tournament};
        use super::*;

        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        pub struct FirstTeam {
            pub id: u32,
            pub name: String,
            pub slug: String,
            pub sport_id: u32,
            pub logo: Option<String>,
            pub country: Option<String>,
            pub founded: Option<i32>,
            pub key: Key,
            #[serde(with = "chrono::serde::ts_milliseconds")]
            pub as_of: DateTime<Utc>,
        }

        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        pub struct FirstMatch {
            pub id: u32,
            pub tournament_id: u32,
            pub home_team_id: u32,
            pub away_team_id: u32,
            #[serde(with = "chrono::serde::ts_seconds")]
            pub start: DateTime<Utc>,
            pub status: Status,
            pub venue: Option<Box<str>>,
            pub score: Option<Score>,
            pub room: Box<str>,
            pub shards: u8,
            pub revision: u32,
            pub key: Key,
            #[serde(with = "chrono::serde::ts_milliseconds")]
            pub as_of: DateTime<Utc>,
        }

        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        pub struct FirstChunk {
            pub sports: Vec<Sport>,
            pub teams: Vec<FirstTeam>,
            pub tournaments: Vec<Tournament>,
            pub matches: Vec<FirstMatch>,
        }
    }

    #[test]
    fn the_first_release_reads_new_chunks_and_this_release_reads_old_chunks() {
        let now = paused(chunk_with_appendix());
        let plain = lz4_flex::decompress_size_prepended(&now.encode().unwrap()).unwrap();
        let first: first_release::FirstChunk = postcard::from_bytes(&plain).unwrap();
        assert_eq!(first.teams[0].name, now.teams[0].name);
        assert_eq!((first.teams[0].founded, first.teams[0].key), (Some(1951), Key(2)));
        assert_eq!((&first.matches[0].room, first.matches[0].shards), (&now.matches[0].room, 4));
        assert_eq!((first.matches[0].revision, first.matches[0].as_of), (1, at()));

        let bytes = lz4_flex::compress_prepend_size(&postcard::to_allocvec(&first).unwrap());
        assert_eq!(Chunk::decode(&bytes).unwrap(), chunk());
        assert_eq!(chunk().encode().unwrap(), bytes, "without added values, both releases write equal bytes");
    }

    /// An earlier release knows the appendix and no pauses.
    #[test]
    fn an_earlier_release_reads_the_appendix_of_a_chunk_with_pauses() {
        let plain =
            lz4_flex::decompress_size_prepended(&paused(chunk_with_appendix()).encode().unwrap()).unwrap();
        let (_, rest): (Chunk, _) = postcard::take_from_bytes(&plain).unwrap();
        let appendix: Appendix = postcard::from_bytes(rest).unwrap();
        assert_eq!(appendix.room_name_hashes, [7]);
    }

    #[test]
    fn damaged_bytes_give_an_error_instead_of_a_panic() {
        for chunk in [chunk(), chunk_with_appendix(), paused(chunk_with_appendix())] {
            let bytes = chunk.encode().unwrap();
            for end in 0..bytes.len() {
                assert!(Chunk::decode(&bytes[..end]).is_err());
            }
        }
        assert!(Chunk::decode(&[0xff; 64]).is_err());
    }

    #[test]
    fn an_appendix_with_the_wrong_number_of_values_is_an_error() {
        let appendix = Appendix { team_venues: vec![None; 2], room_name_hashes: vec![7] };
        let plain = postcard::to_extend(&appendix, postcard::to_allocvec(&chunk()).unwrap()).unwrap();
        assert_eq!(Chunk::decode(&lz4_flex::compress_prepend_size(&plain)), Err(CorruptChunk));
    }
}
