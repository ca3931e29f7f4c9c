//! Names of teams, in the forms that search, URLs and statistics need.

use std::collections::BTreeSet;

use super::Team;

/// The statistics key for members who support none of the teams in the statistics.
pub const NEUTRAL: &str = "neutral";

/// Prepares a text for comparison: lower case, ASCII, without accents.
#[must_use]
pub fn fold(text: &str) -> String {
    deunicode::deunicode(text).to_lowercase()
}

/// Makes the slug of a name, for URLs: `1. FC Köln` becomes `1-fc-koln`. The slug of a name without letters or
/// digits is empty.
#[must_use]
pub fn slug(name: &str) -> String {
    join_words(name, "-")
}

/// Folds a text and joins its words with `separator`.
fn join_words(text: &str, separator: &str) -> String {
    let folded = fold(text);
    let words = folded.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(separator)
}

/// Returns the statistics keys of `teams`, in the same order.
///
/// A key is the slug of the team in snake case: `FC-Sample.City` becomes `fc_sample_city`. If the slug has no
/// letters or digits, the key is `team_<id>`. If the key is [`NEUTRAL`] or the key of an earlier team, the
/// team's own id is appended.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing;
    use super::*;

    fn keys(slugs: &[&str]) -> Vec<String> {
        let team = |(id, slug): (u32, &&str)| Team { slug: (*slug).into(), ..testing::team(id, "A team") };
        let teams: Vec<Team> = (1..).zip(slugs).map(team).collect();
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
    fn slugs_become_keys_in_snake_case() {
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
    fn a_key_uses_the_team_id_if_the_slug_has_no_letters_or_digits() {
        assert_eq!(keys(&["", "--", "a"]), ["team_1", "team_2", "a"]);
    }

    #[test]
    fn a_duplicate_key_gets_the_team_id_appended() {
        assert_eq!(keys(&["fc-a", "fc.a", "FC_A"]), ["fc_a", "fc_a_2", "fc_a_3"]);
        assert_eq!(keys(&["a-3", "a", "A"]), ["a_3", "a", "a_3_3"], "`a_3` is taken: append the id again");
    }

    #[test]
    fn no_team_has_the_neutral_key() {
        assert_eq!(keys(&["neutral"]), ["neutral_1"]);
    }

    proptest! {
        #[test]
        fn keys_are_unique_and_in_snake_case(slugs in proptest::collection::vec("\\PC{0,8}", 0..6)) {
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
}
