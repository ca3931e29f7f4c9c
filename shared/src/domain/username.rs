//! Usernames and suggestions for them.
//!
//! A username is also the local part of a Matrix user id, so it has only characters that are valid there.

use serde::{Deserialize, Serialize};

use super::{Field, Raw, Reason, text};

const MIN: usize = 3;
const MAX: usize = 30;

/// Names that could be mistaken for the service or its staff.
const RESERVED: &[&str] = &[
    "admin",
    "administrator",
    "anonymous",
    "api",
    "bot",
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

/// A username: 3 to 30 of the characters `a-z 0-9 _ .`. Capital letters are converted to small letters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Username(String);

impl Username {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        let name = text.trim().to_ascii_lowercase();
        if !name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.')) {
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

    /// Returns whether the username is reserved: it is valid, but no user can choose it.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        RESERVED.contains(&self.0.as_str())
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

/// A username that is not reserved, so that a user can choose it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenUsername(pub Username);

impl ChosenUsername {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        let name = Username::parse(text)?;
        if name.is_reserved() {
            Err("This username is reserved. Choose another one.".into())
        } else {
            Ok(Self(name))
        }
    }
}

impl Field for ChosenUsername {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        Username::schema()
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
/// There are 99 million such usernames, so most of them are free.
pub fn random(mut draw: impl FnMut(u32) -> u32) -> Username {
    Username(format!("fan{}", 1_000_000 + draw(99_000_000)))
}

/// The prefix and the suffix of each candidate that has no number.
const AFFIXES: &[(&str, &str)] = &[
    ("", "_fc"),
    ("the_", ""),
    ("", "_united"),
    ("real_", ""),
    ("", ".fan"),
    ("", "_city"),
    ("", "_eleven"),
    ("go_", ""),
    ("", "_away"),
    ("", "_home"),
];

/// Returns candidates for a username, derived from `base`: all different, not reserved, and different from
/// `base`. With `with_numbers`, each candidate ends in a number. Otherwise, each has a prefix or a suffix.
///
/// `draw` returns a random number below its argument. The caller checks which candidates are free.
pub fn candidates(
    base: &UsernameBase,
    with_numbers: bool,
    mut draw: impl FnMut(u32) -> u32,
) -> Vec<Username> {
    let mut names: Vec<Username> = Vec::with_capacity(AFFIXES.len());
    for (at, (before, after)) in AFFIXES.iter().enumerate() {
        let number = if with_numbers {
            // Later candidates draw from a larger range, so that some are free even for a popular base.
            let range = 10_u32.pow(2 + u32::try_from(at / 3).unwrap_or(0));
            format!("{}", 1 + draw(range))
        } else {
            String::new()
        };
        let (before, after) = if with_numbers { ("", "") } else { (*before, *after) };
        let room = MAX - before.len() - after.len() - number.len();
        let stem = &base.0[..base.0.len().min(room)];
        if let Ok(name) = Username::parse(&format!("{before}{stem}{after}{number}"))
            && name.as_str() != base.0
            && !name.is_reserved()
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
    fn usernames_have_3_to_30_characters_and_become_lower_case() {
        assert_eq!(Username::parse("Alice.B_9").unwrap().as_str(), "alice.b_9");
        for text in ["", "ab", &"a".repeat(31), "al ice", "alice!", "älice", "alice\u{0}", "a-b-c"] {
            assert!(Username::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn reserved_usernames_cannot_be_chosen() {
        assert!(Username::parse("Admin").unwrap().is_reserved());
        assert!(ChosenUsername::parse("Admin").is_err());
        assert!(ChosenUsername::parse("alice").is_ok());
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
            let names = candidates(&base, with_numbers, |below| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state % below
            });
            prop_assert!(names.len() >= 5, "{base:?} gave {names:?}");
            for (at, name) in names.iter().enumerate() {
                prop_assert_eq!(&Username::parse(name.as_str()).unwrap(), name);
                prop_assert!(name.as_str() != base.0 && !name.is_reserved());
                prop_assert!(!names[..at].contains(name));
                prop_assert_eq!(with_numbers && !name.as_str().ends_with(|c: char| c.is_ascii_digit()), false);
            }
        }
    }
}
