use chrono::DateTime;

use super::{Key, Match, Status, Team};

/// Returns a team of which only the id and the name are known.
#[must_use]
pub fn team(id: u32, name: &str) -> Team {
    Team {
        id,
        name: name.into(),
        slug: name.to_lowercase(),
        sport_id: 1,
        logo: None,
        country: None,
        founded: None,
        venue: None,
        short_name: None,
        key: Key(u64::from(id)),
        as_of: DateTime::UNIX_EPOCH,
    }
}

/// Returns a scheduled match between teams 1 and 2.
#[must_use]
pub fn event(id: u32) -> Match {
    Match {
        id,
        tournament_id: 1,
        home_team_id: 1,
        away_team_id: 2,
        start: DateTime::UNIX_EPOCH,
        status: Status::Scheduled,
        venue: None,
        score: None,
        room: format!("!match{id}:touchline.local").into(),
        room_name_hash: 0,
        shards: 4,
        pause: None,
        revision: 0,
        key: Key(u64::from(id)),
        as_of: DateTime::UNIX_EPOCH,
    }
}
