use super::slug;

/// The operator's list of featured tournaments.
///
/// A name of the list and the name of a tournament match if their slugs are equal. So upper and lower case, accents,
/// spaces and punctuation make no difference, and a slug in the list matches too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FeaturedTournaments(Vec<Name>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Name {
    /// The name as it is in the list, for log messages.
    text: String,
    slug: String,
}

impl FeaturedTournaments {
    /// Reads a list of names that are separated by commas. Empty entries are ignored.
    #[must_use]
    pub fn parse(list: &str) -> Self {
        let names = list.split(',').map(|name| Name { text: name.trim().to_owned(), slug: slug(name) });
        Self(names.filter(|name| !name.slug.is_empty()).collect())
    }

    /// Returns whether the list has the tournament with this name.
    #[must_use]
    pub fn include(&self, tournament: &str) -> bool {
        let tournament = slug(tournament);
        self.0.iter().any(|name| name.slug == tournament)
    }

    /// Returns the names of the list that match none of the tournaments.
    #[must_use]
    pub fn without_match<'a>(&self, tournaments: impl Iterator<Item = &'a str>) -> Vec<&str> {
        let slugs: Vec<String> = tournaments.map(slug).collect();
        self.0.iter().filter(|name| !slugs.contains(&name.slug)).map(|name| name.text.as_str()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_spaces_accents_and_punctuation_make_no_difference() {
        let featured =
            FeaturedTournaments::parse(" UEFA champions league ,coupe-de-france,, Premier League 2026/27");
        for name in ["UEFA Champions League", "Coupe de France", "Premier League 2026/27"] {
            assert!(featured.include(name), "{name}");
        }
        for name in ["Champions League", "UEFA Champions League Women", "Premier League", ""] {
            assert!(!featured.include(name), "{name}");
        }
    }

    #[test]
    fn an_empty_list_features_nothing() {
        for list in ["", " ", ",", "--"] {
            let featured = FeaturedTournaments::parse(list);
            assert_eq!(featured, FeaturedTournaments::default());
            assert!(!featured.include(""), "{list:?}");
        }
    }

    #[test]
    fn names_without_a_tournament_are_reported_as_they_are_in_the_list() {
        let featured = FeaturedTournaments::parse("Copa del Rey, Premier Leage");
        assert_eq!(featured.without_match(["COPA DEL REY", "Premier League"].into_iter()), ["Premier Leage"]);
    }
}
