use chrono::DateTime;

use super::{Key, Team};

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
        key: Key(u64::from(id)),
        as_of: DateTime::UNIX_EPOCH,
    }
}
