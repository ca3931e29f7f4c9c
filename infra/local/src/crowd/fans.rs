//! The fans of the demo league: invented people with names and teams. They predict more or less well.

use touchline::domain::{Name, Phone, Username};

use crate::draw::draw;

/// How many fans there are.
pub(super) const FANS: u32 = 200;

/// Salts: one for each property that is drawn for a fan.
const FIRST: u32 = 1;
const LAST: u32 = 2;
const STYLE: u32 = 3;
const SKILL: u32 = 4;
const ACTIVITY: u32 = 5;
const TEAM: u32 = 6;
const SUFFIX: u32 = 7;

/// A fan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fan(pub(super) u32);

pub(super) fn all() -> impl Iterator<Item = Fan> {
    (0..FANS).map(Fan)
}

impl Fan {
    fn draw(self, salt: u32) -> u32 {
        draw(self.0, salt)
    }

    /// Returns the fan's phone. Ofcom reserves these landline numbers for fiction, so no real phone can get an SMS.
    pub(super) fn phone(self) -> Phone {
        Phone::parse(&format!("+4416329{:05}", 60_000 + self.0)).expect("the number is valid")
    }

    fn first_name(self) -> &'static str {
        pick(&FIRST_NAMES, self.draw(FIRST))
    }

    fn last_name(self) -> &'static str {
        pick(&LAST_NAMES, self.draw(LAST))
    }

    pub(super) fn name(self) -> Name {
        Name::parse(&format!("{} {}", self.first_name(), self.last_name())).expect("the name is valid")
    }

    /// Returns usernames in order of preference. The later ones are used if the earlier ones are taken.
    pub(super) fn usernames(self) -> impl Iterator<Item = Username> {
        let (first, last) = (self.first_name().to_lowercase(), self.last_name().to_lowercase());
        let (colour, animal) = (pick(&COLOURS, self.draw(FIRST)), pick(&ANIMALS, self.draw(LAST)));
        let (word, number) = (pick(&TERRACE, self.draw(SUFFIX)), self.draw(SUFFIX) % 90 + 10);
        let preferred = match self.draw(STYLE) % 6 {
            0 => format!("{first}.{last}"),
            1 => format!("{colour}_{animal}"),
            2 => format!("{first}_{word}"),
            3 => format!("{animal}{number}"),
            4 => format!("{word}.{animal}"),
            _ => format!("{first}{number}"),
        };
        let more = [
            format!("{colour}_{animal}{number}"),
            format!("{animal}.{word}.{}", self.0),
            format!("fan_{}", self.0),
        ];
        [preferred].into_iter().chain(more).map(|name| Username::parse(&name).expect("the username is valid"))
    }

    /// Returns the number of the fan's team, from 0. Half of the fans follow the featured league.
    pub(super) fn team(self) -> u32 {
        let draw = self.draw(TEAM);
        if draw.is_multiple_of(2) { draw / 2 % 8 } else { 8 + draw / 2 % 16 }
    }

    /// Returns the percentage of results that the fan gets right without guessing.
    pub(super) fn skill(self) -> u32 {
        // The sum of two draws: most fans are average.
        self.draw(SKILL) % 30 + self.draw(SKILL + 100) % 30
    }

    /// Returns how many of a hundred matches of the featured league the fan predicts.
    pub(super) fn activity(self) -> u32 {
        7 + self.draw(ACTIVITY) % 20
    }
}

fn pick<'a>(words: &[&'a str], draw: u32) -> &'a str {
    words[draw as usize % words.len()]
}

const FIRST_NAMES: [&str; 40] = [
    "Ada", "Alma", "Anouk", "Aris", "Bela", "Bram", "Celia", "Dario", "Edda", "Elin", "Enzo", "Fenna",
    "Finn", "Greta", "Hugo", "Ida", "Ilse", "Ivo", "Jana", "Joris", "Kaya", "Lars", "Leni", "Lior", "Mara",
    "Milo", "Nils", "Nora", "Oda", "Otis", "Pia", "Quinn", "Remy", "Rosa", "Sami", "Tess", "Tilda", "Ugo",
    "Vera", "Zeno",
];

/// Invented, so that no fan is a real person.
const LAST_NAMES: [&str; 40] = [
    "Amberquay",
    "Ashwharf",
    "Birkholt",
    "Brightmoor",
    "Calloway",
    "Cinderford",
    "Dockrell",
    "Eastmere",
    "Elmsluice",
    "Fairlock",
    "Farrowgate",
    "Fjellstrand",
    "Glasswater",
    "Greyhaven",
    "Harbourne",
    "Hollowell",
    "Ironquay",
    "Kestrelby",
    "Kingsluice",
    "Lanternes",
    "Larkhythe",
    "Marlpier",
    "Mistral",
    "Moorhythe",
    "Nettlewick",
    "Northsluice",
    "Oakhythe",
    "Overwater",
    "Pierhaven",
    "Quaymond",
    "Redwharf",
    "Rivermont",
    "Saltmarsh",
    "Seagrave",
    "Sternwood",
    "Tidewell",
    "Underbridge",
    "Valdemere",
    "Westhythe",
    "Windlock",
];

const COLOURS: [&str; 16] = [
    "amber", "copper", "coral", "cobalt", "crimson", "golden", "indigo", "ivory", "jade", "lilac", "maroon",
    "ochre", "olive", "scarlet", "silver", "teal",
];

const ANIMALS: [&str; 24] = [
    "badger", "bison", "curlew", "dolphin", "falcon", "finch", "fox", "gannet", "heron", "ibis", "kestrel",
    "lynx", "magpie", "marten", "otter", "owl", "panther", "puffin", "raven", "seal", "stork", "swift",
    "walrus", "wren",
];

const TERRACE: [&str; 16] = [
    "awayend",
    "backpost",
    "corner",
    "derby",
    "extratime",
    "floodlit",
    "halfway",
    "lateshow",
    "nutmeg",
    "offside",
    "sixpointer",
    "stoppage",
    "terrace",
    "topbins",
    "byline",
    "volley",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use touchline::domain::NameRules;

    use super::*;

    #[test]
    fn every_fan_has_a_valid_name_and_most_have_their_preferred_username_to_themselves() {
        let rules = NameRules::default();
        let mut usernames = BTreeSet::new();
        for fan in all() {
            fan.name().accepted_by(&rules).unwrap();
            for username in fan.usernames() {
                username.accepted_by(&rules).unwrap();
            }
            usernames.insert(fan.usernames().next().unwrap().as_str().to_owned());
        }
        assert!(usernames.len() > FANS as usize * 9 / 10, "{}", usernames.len());
        let phones: BTreeSet<String> = all().map(|fan| fan.phone().as_str().to_owned()).collect();
        assert_eq!(phones.len(), FANS as usize);
        assert!(phones.iter().all(|phone| phone.starts_with("+4416329") && phone.len() == 13));
    }

    #[test]
    fn fans_differ_in_skill_activity_and_team() {
        let distinct = |of: fn(Fan) -> u32| all().map(of).collect::<BTreeSet<_>>().len();
        assert!(distinct(Fan::skill) > 30 && distinct(Fan::activity) > 15);
        assert_eq!(distinct(Fan::team), 24);
    }
}
