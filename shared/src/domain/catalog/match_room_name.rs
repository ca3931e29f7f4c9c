//! The name of a match's chat room, and the hash by which an import finds the rooms to rename.

use sha2::{Digest as _, Sha256};

use super::Team;

/// The maximum length of a chat room's name, in characters.
const MAX_ROOM_NAME: usize = 100;

/// The separator between the team names in the name of a match room.
const VERSUS: &str = " – ";

/// Names the chat room of a match: `Strandby IF – Aalhavn SK`. Long team names are cut, so that the name of
/// the room has at most 100 characters.
#[must_use]
pub fn match_room_name(home: &Team, away: &Team) -> String {
    let (home, away) = (home.name.as_str(), away.name.as_str());
    let space = MAX_ROOM_NAME - VERSUS.chars().count();
    let half = space / 2;
    let (home_length, away_length) = (home.chars().count(), away.chars().count());
    // A short team name leaves its unused characters to the name of the other team.
    let home_limit = space.saturating_sub(away_length).max(half);
    let away_limit = space.saturating_sub(home_length).max(half);
    format!("{}{VERSUS}{}", cut(home, home_limit), cut(away, away_limit))
}

/// The end of a text that was cut.
const CUT: char = '…';

/// Cuts a text to at most `limit` characters. A text that was cut ends in an ellipsis.
fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let start: String = text.chars().take(limit.saturating_sub(1)).collect();
    format!("{}{CUT}", start.trim_end())
}

/// Hashes the name of a room. By comparing hashes, an import finds the rooms to rename. The hash is never 0,
/// because 0 stands for an unknown name.
#[must_use]
pub fn room_name_hash(name: &str) -> u32 {
    let digest = Sha256::digest(name.as_bytes());
    u32::from_be_bytes(std::array::from_fn(|at| digest[at])).max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::team;
    use super::*;
    use crate::domain::text;

    #[test]
    fn match_rooms_are_named_after_their_teams() {
        let name = match_room_name(&team(1, "Strandby IF"), &team(2, "Aalhavn SK"));
        assert_eq!(name, "Strandby IF – Aalhavn SK");
    }

    #[test]
    fn long_team_names_are_cut_and_short_ones_are_not() {
        let (short, long) = (team(1, "Aalhavn SK"), team(2, &"Long ".repeat(40)));
        let name = match_room_name(&short, &long);
        assert_eq!(name.chars().count(), 100);
        assert!(name.starts_with("Aalhavn SK – Long Long") && name.ends_with('…'), "{name}");
        let name = match_room_name(&long, &short);
        assert!(name.starts_with("Long Long") && name.ends_with("… – Aalhavn SK"), "{name}");
        let exact = team(3, &"x".repeat(87));
        assert_eq!(match_room_name(&exact, &short), format!("{} – Aalhavn SK", "x".repeat(87)));
    }

    proptest! {
        #[test]
        fn every_name_of_a_match_room_is_a_line_of_at_most_100_characters(home in "\\PC{1,200}", away in "\\PC{1,200}") {
            prop_assume!(!home.trim().is_empty() && !away.trim().is_empty());
            let name = match_room_name(&team(1, home.trim()), &team(2, away.trim()));
            prop_assert_eq!(text::line(&name, 100), Ok(name));
        }
    }

    #[test]
    fn a_room_name_hash_depends_on_the_name_and_is_not_0() {
        assert_ne!(room_name_hash("event 1"), room_name_hash("Strandby IF – Aalhavn SK"));
        assert_ne!(room_name_hash(""), 0);
    }
}
