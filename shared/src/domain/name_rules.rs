//! What names must not say: names of the service and its staff, and offensive words.

use super::offensive::{OffensiveWords, only_letters, words};
use super::{Reason, lookalike};

/// Usernames that could be mistaken for the service or its staff.
const RESERVED: &[&str] = &[
    "admin",
    "administrator",
    "anonymous",
    "api",
    "bot",
    "deleted",
    "everyone",
    "help",
    "mod",
    "moderator",
    "null",
    "official",
    "root",
    "security",
    "service",
    "staff",
    "support",
    "system",
    "team",
    "touchline",
    "undefined",
    "webmaster",
];

/// Words by which a user poses as the service or its staff, wherever they stand in a name. Words that names of rooms
/// often have, such as `team` or `help`, are not among them.
const IMPERSONATING: &[&str] = &[
    "admin",
    "admins",
    "administrator",
    "administrators",
    "moderator",
    "moderators",
    "official",
    "support",
    "touchline",
];

/// Why no user can choose a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsuitable {
    Reserved,
    Offensive,
}

/// The rules that depend on the settings of a deployment.
#[derive(Debug, Clone)]
pub struct NameRules {
    offensive: OffensiveWords,
}

impl NameRules {
    #[must_use]
    pub fn new(offensive: OffensiveWords) -> Self {
        Self { offensive }
    }

    /// Checks a username, in small letters.
    pub fn check_username(&self, name: &str) -> Result<(), Unsuitable> {
        let whole = lookalike::skeleton(&only_letters(name));
        if whole.is_empty() || RESERVED.iter().any(|word| lookalike::skeleton(word) == whole) {
            return Err(Unsuitable::Reserved);
        }
        // All characters of a username are ASCII and in lower case.
        self.check_words(name, str::to_owned)
    }

    /// Checks the name of a room or a person.
    pub fn check_name(&self, name: &str) -> Result<(), Reason> {
        self.check_words(name, lookalike::latin).map_err(|unsuitable| match unsuitable {
            Unsuitable::Reserved => {
                "Only the service uses the words admin, moderator, official, support and Touchline in names. Choose \
                 another name."
                    .into()
            }
            Unsuitable::Offensive => "The name has a word that is not allowed. Choose another name.".into(),
        })
    }

    /// Checks the topic of a room. Any topic can have the words of the service, for example "Support for Strandby IF".
    pub fn check_topic(&self, topic: &str) -> Result<(), Reason> {
        if self.offensive.occur_in(topic, lookalike::latin) {
            return Err("The topic has a word that is not allowed. Change the topic.".into());
        }
        Ok(())
    }

    /// Checks the words of a name. `read` converts a word to small Latin letters.
    fn check_words(&self, name: &str, read: fn(&str) -> String) -> Result<(), Unsuitable> {
        let impersonating = |word: &String| {
            let word = only_letters(&lookalike::skeleton(&read(word)));
            IMPERSONATING.iter().any(|reserved| lookalike::skeleton(reserved) == word)
        };
        // A reserved word can be divided in two, as in "Touch line".
        let pieces: Vec<&str> =
            name.split(|c: char| !c.is_alphanumeric()).filter(|it| !it.is_empty()).collect();
        let pairs = pieces.windows(2).map(<[&str]>::concat);
        if words(name).into_iter().chain(pairs).any(|word| impersonating(&word)) {
            return Err(Unsuitable::Reserved);
        }
        if self.offensive.occur_in(name, read) {
            return Err(Unsuitable::Offensive);
        }
        Ok(())
    }
}

impl Default for NameRules {
    fn default() -> Self {
        Self::new(OffensiveWords::new(Vec::new(), Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn usernames_that_look_like_reserved_ones_are_reserved() {
        let rules = NameRules::default();
        for name in [
            "admin",
            "adm1n",
            "a.dmin",
            "a_d_m_i_n",
            "adrnin",
            "4dmin",
            "admln",
            "0fficial",
            "officia1",
            "r00t",
            "t0uchl1ne",
            "touch_line",
            "tearn",
            "b0t",
            "m0d",
            "5upport",
            "sys7em",
            "admin1",
            "admin_bob",
            "touchline.support",
            "official_strandby",
            "___",
            "...",
        ] {
            assert_eq!(rules.check_username(name), Err(Unsuitable::Reserved), "{name}");
        }
        for name in [
            "alice",
            "unofficial",
            "supporter",
            "supporters_club",
            "administer",
            "modest",
            "robot",
            "teamwork",
            "helper",
            "my_team",
            "joe.root",
            "adminfc",
            "bobby",
        ] {
            assert_eq!(rules.check_username(name), Ok(()), "{name}");
        }
        assert_eq!(rules.check_username("fuck"), Err(Unsuitable::Offensive));
    }

    #[test]
    fn names_must_not_pose_as_the_service() {
        let rules = NameRules::default();
        for name in [
            "Touchline",
            "Touchline Support",
            "OFFICIAL room",
            "Оffiсial",
            "Offıcial",
            "Officia1",
            "OfficiaI",
            "Strandby (official)",
            "support-desk",
            "A d m i n",
            "Adm!n",
            "T0uchl1ne",
            "Moderator: Bob",
            "ᴀᴅᴍɪɴ",
            "a.d.m.i.n",
            "Admins",
            "aɗmin",
            "Touch line",
            "The touch-line team",
        ] {
            assert!(rules.check_name(name).is_err(), "{name}");
        }
        for name in [
            "Ada Lovelace",
            "Joe Root",
            "Unofficial Strandby",
            "Supporters of Aalhavn",
            "Team talk",
            "Help needed",
            "Room 7 of 11",
            "Name 42",
            "Спартак",
            "北京国安",
            "الهلال",
            "⚽ fans",
        ] {
            assert!(rules.check_name(name).is_ok(), "{name}");
        }
        assert!(rules.check_topic("Official support for Strandby").is_ok());
        assert!(rules.check_topic("What the f.u.c.k").is_err());
    }

    proptest! {
        /// Separators and digits do not hide a reserved word.
        #[test]
        fn disguised_reserved_usernames_are_reserved(
            word in prop::sample::select(RESERVED), separators in prop::collection::vec("[._]{0,1}", 14), digits: [bool; 14],
        ) {
            let mut name = String::new();
            for (at, letter) in word.chars().enumerate() {
                name.push_str(&separators[at]);
                name.push(match letter {
                    'o' if digits[at] => '0',
                    'i' | 'l' if digits[at] => '1',
                    'e' if digits[at] => '3',
                    's' if digits[at] => '5',
                    other => other,
                });
            }
            prop_assert_eq!(NameRules::default().check_username(&name), Err(Unsuitable::Reserved), "{}", name);
        }

        #[test]
        fn every_text_can_be_checked(text: String) {
            let rules = NameRules::default();
            let _ = (rules.check_name(&text), rules.check_topic(&text));
        }
    }
}
