//! The part of a phone number that tells its country, and settings that differ between countries.

use std::fmt;

use super::Phone;

/// The prefix by which text messages are counted: the calling code of a country, such as `+44`.
///
/// Countries that share a calling code have very different prices, so they are counted apart: the North American countries
/// other than the United States and Canada (`+1876`), and Kazakhstan (`+77`).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallingPrefix(String);

/// The calling codes of two digits, as the ITU assigns them. Apart from 1 and 7, all others have three digits.
const TWO_DIGITS: [&str; 44] = [
    "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46", "47", "48",
    "49", "51", "52", "53", "54", "55", "56", "57", "58", "60", "61", "62", "63", "64", "65", "66", "81",
    "82", "84", "86", "90", "91", "92", "93", "94", "95", "98",
];

/// The area codes of `+1` that belong neither to the United States nor to Canada.
const OTHER_AREAS: [&str; 27] = [
    "242", "246", "264", "268", "284", "340", "345", "441", "473", "649", "658", "664", "670", "671", "684",
    "721", "758", "767", "784", "787", "809", "829", "849", "868", "869", "876", "939",
];

impl CallingPrefix {
    #[must_use]
    pub fn of(phone: &Phone) -> Self {
        // A phone number has at least seven digits, all of them ASCII.
        let digits = &phone.as_str()[1..];
        let length = match digits.as_bytes() {
            [b'1', ..] if OTHER_AREAS.contains(&&digits[1..4]) => 4,
            [b'7', b'6' | b'7', ..] => 2,
            [b'1' | b'7', ..] => 1,
            _ if TWO_DIGITS.contains(&&digits[..2]) => 2,
            _ => 3,
        };
        // 76 and 77 are both Kazakhstan.
        let code = if digits.starts_with("76") { "77" } else { &digits[..length] };
        Self(format!("+{code}"))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CallingPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A setting with a default and exceptions for some prefixes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerPrefix<T> {
    pub default: T,
    /// Prefixes such as `+44`, with their values.
    pub exceptions: Vec<(String, T)>,
}

impl<T: Copy> PerPrefix<T> {
    /// Returns a setting without exceptions.
    #[must_use]
    pub fn same(default: T) -> Self {
        Self { default, exceptions: Vec::new() }
    }

    /// Returns the value of the longest exception with which the prefix starts, or the default.
    #[must_use]
    pub fn of(&self, prefix: &CallingPrefix) -> T {
        let matching = self.exceptions.iter().filter(|(start, _)| prefix.0.starts_with(start.as_str()));
        matching.max_by_key(|(start, _)| start.len()).map_or(self.default, |(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefix(phone: &str) -> String {
        CallingPrefix::of(&Phone::parse(phone).unwrap()).as_str().to_owned()
    }

    #[test]
    fn a_number_is_counted_by_its_calling_code() {
        for (phone, expected) in [
            ("+447700900123", "+44"),
            ("+12025550123", "+1"),
            ("+18765550123", "+1876"),
            ("+79161234567", "+7"),
            ("+77011234567", "+77"),
            ("+76001234567", "+77"),
            ("+989121234567", "+98"),
            ("+358401234567", "+358"),
            ("+6281234567890", "+62"),
            ("+2348012345678", "+234"),
            ("+8801712345678", "+880"),
            ("+971501234567", "+971"),
            ("+290123456", "+290"),
        ] {
            assert_eq!(prefix(phone), expected, "{phone}");
        }
    }

    #[test]
    fn the_longest_exception_of_a_setting_applies() {
        let exceptions = [("+1", 5), ("+1876", 7)].map(|(start, value)| (start.to_owned(), value));
        let setting = PerPrefix { default: 3, exceptions: exceptions.into() };
        for (phone, expected) in [("+12025550123", 5), ("+18765550123", 7), ("+447700900123", 3)] {
            assert_eq!(setting.of(&CallingPrefix::of(&Phone::parse(phone).unwrap())), expected, "{phone}");
        }
    }

    proptest! {
        #[test]
        fn every_number_has_a_prefix_of_one_to_four_digits(digits in "[1-9][0-9]{6,14}") {
            let prefix = prefix(&format!("+{digits}"));
            prop_assert!((2..=5).contains(&prefix.len()), "{}", prefix);
        }
    }
}
