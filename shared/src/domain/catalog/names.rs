//! Names of teams and matches, in the forms that search, URLs, statistics and chat rooms need.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

use super::Team;

/// The key of members without one of the listed teams.
pub const NEUTRAL: &str = "neutral";

/// The longest name of a chat room, in characters.
const MAX_ROOM_NAME: usize = 100;

/// Between the teams in the name of a match room.
const VERSUS: &str = " – ";

/// A text for comparison: lower case, without accents, ASCII.
#[must_use]
pub fn fold(text: &str) -> String {
    deunicode::deunicode(text).to_lowercase()
}

/// A name for URLs: `1. FC Köln` becomes `1-fc-koln`. Empty if the name has no letters or digits.
#[must_use]
pub fn slug(name: &str) -> String {
    join_words(name, "-")
}

/// The words of a text, folded and joined.
fn join_words(text: &str, separator: &str) -> String {
    let folded = fold(text);
    let words = folded.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(separator)
}

/// The keys of teams in statistics: the slug in snake case, whatever its form. `FC-Sample.City` becomes
/// `fc_sample_city`. A team whose slug has no letters or digits is `team_<id>`. If two teams have the same key,
/// the second one's key ends in its id. No key is [`NEUTRAL`].
#[must_use]
pub fn distribution_keys(teams: &[&Team]) -> Vec<String> {
    let mut taken = BTreeSet::from([NEUTRAL.to_owned()]);
    let mut keys = Vec::with_capacity(teams.len());
    for team in teams {
        let mut key = join_words(&team.slug, "_");
        if key.is_empty() {
            key = format!("team_{}", team.id);
        }
        while !taken.insert(key.clone()) {
            key = format!("{key}_{}", team.id);
        }
        keys.push(key);
    }
    keys
}

/// The name of a match's chat room: `Strandby IF – Aalhavn SK`. Long team names are cut, so that the name has at
/// most 100 characters.
#[must_use]
pub fn match_room_name(home: &Team, away: &Team) -> String {
    let (home, away) = (home.name.as_str(), away.name.as_str());
    let room = MAX_ROOM_NAME - VERSUS.chars().count();
    let half = room / 2;
    let (home_length, away_length) = (home.chars().count(), away.chars().count());
    // A short name leaves the rest to the other one.
    let home_limit = room.saturating_sub(away_length).max(half);
    let away_limit = room.saturating_sub(home_length).max(half);
    format!("{}{VERSUS}{}", cut(home, home_limit), cut(away, away_limit))
}

/// A text of at most `limit` characters. One that is cut ends in an ellipsis.
fn cut(text: &str, limit: usize) -> String {
    if text.chars().count() <= limit {
        return text.to_owned();
    }
    let start: String = text.chars().take(limit.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}

/// A short hash of a room's name, by which an import knows the rooms that need another name. Never 0.
#[must_use]
pub fn room_name_hash(name: &str) -> u32 {
    let digest = Sha256::digest(name.as_bytes());
    u32::from_be_bytes(std::array::from_fn(|at| digest[at])).max(1)
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use proptest::prelude::*;

    use super::super::Key;
    use super::*;
    use crate::domain::room::RoomName;

    fn team(id: u32, name: &str, slug: &str) -> Team {
        Team {
            id,
            name: name.into(),
            slug: slug.into(),
            sport_id: 1,
            logo: None,
            country: None,
            founded: None,
            venue: None,
            key: Key(u64::from(id)),
            as_of: DateTime::UNIX_EPOCH,
        }
    }

    fn keys(slugs: &[&str]) -> Vec<String> {
        let teams: Vec<Team> = (1..).zip(slugs).map(|(id, slug)| team(id, "A team", slug)).collect();
        distribution_keys(&teams.iter().collect::<Vec<_>>())
    }

    #[test]
    fn slugs_are_lower_case_ascii_words() {
        for (name, is) in [
            ("1. FC Köln", "1-fc-koln"),
            ("São Miguel Atlético", "sao-miguel-atletico"),
            ("  Bodø/Glimt  ", "bodo-glimt"),
            ("Queen's  Park", "queen-s-park"),
            ("ФК Зенит", "fk-zenit"),
            ("***", ""),
            ("", ""),
        ] {
            assert_eq!(slug(name), is, "{name}");
        }
    }

    #[test]
    fn keys_are_snake_case_whatever_the_slugs_form() {
        for (slug, key) in [
            ("northgate-rovers", "northgate_rovers"),
            ("FC-Sample.City", "fc_sample_city"),
            ("FC--Sample__.__City", "fc_sample_city"),
            ("-1.FC köln-", "1_fc_koln"),
            ("Ísafold Þór", "isafold_thor"),
        ] {
            assert_eq!(keys(&[slug]), [key], "{slug}");
        }
    }

    #[test]
    fn a_slug_without_letters_gives_the_teams_id() {
        assert_eq!(keys(&["", "--", "a"]), ["team_1", "team_2", "a"]);
    }

    #[test]
    fn teams_with_the_same_key_are_told_apart_by_id() {
        assert_eq!(keys(&["fc-a", "fc.a", "FC_A"]), ["fc_a", "fc_a_2", "fc_a_3"]);
        assert_eq!(keys(&["a-3", "a", "A"]), ["a_3", "a", "a_3_3"], "even if the key with the id is taken");
    }

    #[test]
    fn no_team_is_counted_as_neutral() {
        assert_eq!(keys(&["neutral"]), ["neutral_1"]);
    }

    #[test]
    fn match_rooms_are_named_after_their_teams() {
        let name = match_room_name(&team(1, "Strandby IF", ""), &team(2, "Aalhavn SK", ""));
        assert_eq!(name, "Strandby IF – Aalhavn SK");
    }

    #[test]
    fn long_team_names_are_cut_and_short_ones_are_not() {
        let (short, long) = (team(1, "Aalhavn SK", ""), team(2, &"Long ".repeat(40), ""));
        let name = match_room_name(&short, &long);
        assert_eq!(name.chars().count(), 100);
        assert!(name.starts_with("Aalhavn SK – Long Long") && name.ends_with('…'), "{name}");
        let name = match_room_name(&long, &short);
        assert!(name.starts_with("Long Long") && name.ends_with("… – Aalhavn SK"), "{name}");
        let exact = team(3, &"x".repeat(87), "");
        assert_eq!(match_room_name(&exact, &short), format!("{} – Aalhavn SK", "x".repeat(87)));
    }

    proptest! {
        #[test]
        fn every_name_of_a_match_room_is_a_valid_room_name(home in "\\PC{1,200}", away in "\\PC{1,200}") {
            prop_assume!(!home.trim().is_empty() && !away.trim().is_empty());
            let name = match_room_name(&team(1, home.trim(), ""), &team(2, away.trim(), ""));
            let parsed = RoomName::parse(&name).unwrap();
            prop_assert_eq!(parsed.as_str(), name.as_str());
        }

        #[test]
        fn keys_are_unique_snake_case(slugs in proptest::collection::vec("\\PC{0,8}", 0..6)) {
            let slugs: Vec<&str> = slugs.iter().map(String::as_str).collect();
            let keys = keys(&slugs);
            let unique: BTreeSet<&String> = keys.iter().collect();
            prop_assert_eq!(unique.len(), slugs.len());
            for key in &keys {
                prop_assert!(key.split('_').all(|word| !word.is_empty()
                    && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())), "{}", key);
                prop_assert_ne!(key, NEUTRAL);
            }
        }
    }

    #[test]
    fn names_have_hashes_and_0_is_none_of_them() {
        assert_ne!(room_name_hash("event 1"), room_name_hash("Strandby IF – Aalhavn SK"));
        assert_ne!(room_name_hash(""), 0);
    }
}
