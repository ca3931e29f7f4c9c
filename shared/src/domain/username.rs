//! Usernames and suggestions for them.
//!
//! A username is also the local part of a Matrix user id, so it has only characters that are valid there.

use serde::{Deserialize, Serialize};

use super::name_rules::Unsuitable;
use super::{Field, NameRules, Raw, Reason, lookalike, text};

const MIN: usize = 3;
const MAX: usize = 30;

/// A username: 3 to 30 of the characters `a-z 0-9 _ .`. Capital letters are converted to small letters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Username(String);

fn is_username_byte(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.')
}

impl Username {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        let name = text.trim().to_ascii_lowercase();
        if !name.bytes().all(is_username_byte) {
            return Err("Use only the letters a to z, digits, _ and . in a username.".into());
        }
        if !(MIN..=MAX).contains(&name.len()) {
            return Err(format!("Use {MIN} to {MAX} characters for a username.").into());
        }
        Ok(Self(name))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the username, if a user can choose it.
    pub fn accepted_by(self, rules: &NameRules) -> Result<Self, Reason> {
        match rules.check_username(&self.0) {
            Ok(()) => Ok(self),
            Err(Unsuitable::Reserved) => Err("This username is reserved. Choose another one.".into()),
            Err(Unsuitable::Offensive) => {
                Err("This username has a word that is not allowed. Choose another one.".into())
            }
        }
    }

    /// Returns the key under which usernames that look alike collide, unless it is the username itself.
    #[must_use]
    pub fn lookalike_key(&self) -> Option<String> {
        let key = lookalike::username_key(&self.0);
        (key != self.0).then_some(key)
    }
}

impl Field for Username {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        let space = text::schema::SPACE;
        serde_json::json!({
            "type": "string", "pattern": format!("^{space}[A-Za-z0-9_.]{{{MIN},{MAX}}}{space}$"), "examples": ["alice"],
            "description": "3 to 30 of the letters a to z, digits, `_` and `.`, stored in lower case. Some names are reserved.",
        })
    }
}

#[cfg(feature = "openapi")]
super::field::response_schema!(Username, { "type": "string", "pattern": "^[a-z0-9_.]{3,30}$" });

/// The beginning of a username: 2 to 30 of its characters. Capital letters are converted to small letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsernamePrefix(String);

impl UsernamePrefix {
    /// The search index is divided by this many characters.
    pub const MIN: usize = 2;

    pub fn parse(text: &str) -> Result<Self, Reason> {
        let prefix = text.trim().to_ascii_lowercase();
        if !prefix.bytes().all(is_username_byte) {
            return Err("Usernames have only the letters a to z, digits, _ and . in them.".into());
        }
        if !(Self::MIN..=MAX).contains(&prefix.len()) {
            return Err(format!("Enter {} to {MAX} characters of the username.", Self::MIN).into());
        }
        Ok(Self(prefix))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for UsernamePrefix {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        let (space, min) = (text::schema::SPACE, Self::MIN);
        serde_json::json!({
            "type": "string", "pattern": format!("^{space}[A-Za-z0-9_.]{{{min},{MAX}}}{space}$"), "examples": ["al"],
            "description": "2 to 30 of the letters a to z, digits, `_` and `.`, in upper or lower case.",
        })
    }
}

/// The text that suggestions are derived from, reduced to the characters of a username.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsernameBase(String);

impl UsernameBase {
    /// Transliterates a text: `José García` becomes `jose_garcia`. A text without a letter or digit is
    /// invalid.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        let text = text::line(text, 100)?;
        let mut base = String::new();
        for c in deunicode::deunicode(&text).chars() {
            match c.to_ascii_lowercase() {
                c @ ('a'..='z' | '0'..='9' | '.') => base.push(c),
                // Every run of characters other than letters, digits and `.` becomes one underscore.
                _ if !base.ends_with('_') => base.push('_'),
                _ => {}
            }
        }
        let base = base.trim_matches(['_', '.']);
        if base.is_empty() {
            return Err("Enter at least one letter or digit.".into());
        }
        let start = &base[..base.len().min(MAX)];
        Ok(Self(start.trim_end_matches(['_', '.']).to_owned()))
    }
}

impl Field for UsernameBase {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        let mut schema = text::schema::line(100, "José García");
        schema["description"] =
            "Up to 100 characters, with at least one letter or digit of any script.".into();
        // Rejects ASCII texts without a letter or digit. A pattern cannot tell which other characters have a
        // transliteration, so it accepts them.
        schema["allOf"] = serde_json::json!([{ "pattern": "[A-Za-z0-9]|[^\\u0000-\\u00A0]" }]);
        schema
    }
}

impl From<&Username> for UsernameBase {
    fn from(name: &Username) -> Self {
        Self(name.as_str().to_owned())
    }
}

/// Returns a random username for a new user who did not choose one. `draw` returns a random number below its
/// argument.
///
/// There are 134 million such usernames, so most of them are free.
pub fn random(mut draw: impl FnMut(u32) -> u32) -> Username {
    Username(format!("{FALLBACK}{}", number(9, &mut draw)))
}

/// The base of usernames for users whose own base gives too few.
const FALLBACK: &str = "fan";

/// How many candidates a base has to give. Otherwise, [`candidates`] adds candidates of [`FALLBACK`].
const ENOUGH: usize = 5;

/// Draws a number of `length` digits. The digits 0 and 1 look like letters, so they are not used: a number makes no
/// username look like another.
fn number(length: u32, draw: &mut impl FnMut(u32) -> u32) -> String {
    let mut rest = draw(8_u32.pow(length));
    let mut digits = String::new();
    for _ in 0..length {
        digits.extend(char::from_digit(2 + rest % 8, 10));
        rest /= 8;
    }
    digits
}

/// The prefix and the suffix of each candidate that has no number.
const AFFIXES: &[(&str, &str)] = &[
    ("", "fc"),
    ("the", ""),
    ("", "united"),
    ("real", ""),
    ("", "fan"),
    ("", "city"),
    ("", "eleven"),
    ("go", ""),
    ("", "away"),
    ("", "home"),
];

/// Returns candidates for a username, derived from `base`: all different, accepted by `rules`, and different from
/// `base`. With `with_numbers`, each candidate ends in a number. Otherwise, each has a prefix or a suffix.
///
/// Most candidates of an offensive base are offensive, too. Then there are candidates with another base.
///
/// `draw` returns a random number below its argument. The caller checks which candidates are free.
pub fn candidates(
    base: &UsernameBase,
    with_numbers: bool,
    rules: &NameRules,
    mut draw: impl FnMut(u32) -> u32,
) -> Vec<Username> {
    let mut names = candidates_of(&base.0, with_numbers, rules, &mut draw);
    if names.len() < ENOUGH {
        let more = candidates_of(FALLBACK, with_numbers, rules, &mut draw);
        let new: Vec<Username> = more.into_iter().filter(|name| !names.contains(name)).collect();
        names.extend(new);
    }
    names
}

fn candidates_of(
    base: &str,
    with_numbers: bool,
    rules: &NameRules,
    draw: &mut impl FnMut(u32) -> u32,
) -> Vec<Username> {
    // A base without a separator gives candidates without one. Storing such a username takes one item, because no other
    // spelling of it is simpler.
    let separator = if base.contains(['_', '.']) { "_" } else { "" };
    let mut names: Vec<Username> = Vec::with_capacity(AFFIXES.len());
    for (at, (before, after)) in (0..).zip(AFFIXES) {
        let (before, after) = match (with_numbers, *before, *after) {
            // Later candidates draw from a larger range, so that some are free even for a popular base.
            (true, ..) => (String::new(), number(2 + at / 3, draw)),
            (false, "", after) => (String::new(), format!("{separator}{after}")),
            (false, before, _) => (format!("{before}{separator}"), String::new()),
        };
        let room = MAX - before.len() - after.len();
        let stem = &base[..base.len().min(room)];
        if let Ok(name) = Username::parse(&format!("{before}{stem}{after}"))
            && let Ok(name) = name.accepted_by(rules)
            && name.as_str() != base
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_beginning_of_a_username_has_two_to_thirty_characters() {
        assert_eq!(UsernamePrefix::parse(" Al").unwrap().as_str(), "al");
        assert!(UsernamePrefix::parse(&"a".repeat(30)).is_ok());
        for text in ["", "a", " a ", "a b", "jos\u{e9}", "@al", &"a".repeat(31)] {
            assert!(UsernamePrefix::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn usernames_have_3_to_30_characters_and_become_lower_case() {
        assert_eq!(Username::parse("Alice.B_9").unwrap().as_str(), "alice.b_9");
        for text in ["", "ab", &"a".repeat(31), "al ice", "alice!", "älice", "alice\u{0}", "a-b-c"] {
            assert!(Username::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn reserved_and_offensive_usernames_cannot_be_chosen() {
        let chosen = |text| Username::parse(text).unwrap().accepted_by(&NameRules::default());
        assert!(chosen("alice").is_ok());
        let reason = |text| chosen(text).unwrap_err().to_string();
        assert_eq!(reason("Adm1n"), "This username is reserved. Choose another one.");
        assert_eq!(reason("Fuck"), "This username has a word that is not allowed. Choose another one.");
    }

    #[test]
    fn most_generated_usernames_look_like_no_other_username() {
        let name = random(|below| below - 1);
        assert_eq!((name.as_str(), name.lookalike_key()), ("fan999999999", None));
        let base = UsernameBase::parse("alice").unwrap();
        for with_numbers in [false, true] {
            for name in candidates(&base, with_numbers, &NameRules::default(), |below| below / 3) {
                assert_eq!(name.lookalike_key(), None, "{name:?}");
            }
        }
        let spelled = Username::parse("j0hn_smith").unwrap();
        assert_eq!(spelled.lookalike_key().as_deref(), Some("johnsmith"));
    }

    #[test]
    fn candidates_of_an_offensive_base_are_not_offensive() {
        for text in ["fuck", "Fuck You", "admin", "touchline"] {
            let base = UsernameBase::parse(text).unwrap();
            for with_numbers in [false, true] {
                let rules = NameRules::default();
                let mut drawn = 0;
                let names = candidates(&base, with_numbers, &rules, |below| {
                    drawn += 5;
                    drawn % below
                });
                assert!(names.len() >= ENOUGH, "{names:?}");
                assert!(names.iter().all(|name| rules.check_username(name.as_str()).is_ok()), "{names:?}");
            }
        }
    }

    #[test]
    fn a_username_base_is_transliterated() {
        let base = |text: &str| UsernameBase::parse(text).unwrap().0;
        assert_eq!(base("José  García!"), "jose_garcia");
        assert_eq!(base("北京"), "bei_jing");
        assert_eq!(base("__x__"), "x");
        assert_eq!(base(&format!("{}x", ".".repeat(99))), "x");
        assert_eq!(base(&format!("{}.x", "a".repeat(29))), "a".repeat(29));
        for text in ["", "!!!", "  ", "___"] {
            assert!(UsernameBase::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn there_are_at_least_five_valid_candidates(text in "\\PC{1,60}", with_numbers: bool, seed: u32) {
            let Ok(base) = UsernameBase::parse(&text) else { return Ok(()) };
            let mut state = seed;
            let rules = NameRules::default();
            let names = candidates(&base, with_numbers, &rules, |below| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state % below
            });
            prop_assert!(names.len() >= 5, "{base:?} gave {names:?}");
            for (at, name) in names.iter().enumerate() {
                prop_assert_eq!(&Username::parse(name.as_str()).unwrap(), name);
                prop_assert!(name.as_str() != base.0 && rules.check_username(name.as_str()).is_ok());
                prop_assert!(!names[..at].contains(name));
                prop_assert_eq!(with_numbers && !name.as_str().ends_with(|c: char| c.is_ascii_digit()), false);
            }
        }
    }
}
