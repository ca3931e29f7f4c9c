use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Field, Raw, Reason};

/// How many digits a number has, with its country code.
const MIN_DIGITS: usize = 7;
const MAX_DIGITS: usize = 15;

/// The national trunk prefix, as people write it after the country code: `+44 (0)7700 900123`.
const TRUNK_PREFIX: &str = "(0)";

/// A phone number in international form: `+`, then 7 to 15 digits, the first not zero.
///
/// Its `Debug` form hides the digits, so that a number cannot reach a log by accident.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Phone(String);

impl Phone {
    /// The length of the longest text that [`Self::parse`] accepts, in characters.
    pub const MAX_LENGTH: usize = 40;

    /// Matches exactly the texts that [`Self::parse`] accepts, apart from their length.
    ///
    /// The trunk prefix can follow digits 1 to 3, because a country code has 1 to 3 digits.
    pub const PATTERN: &str =
        r"^[ ()-]*\+[ ()-]*[1-9](?:(?:[ ()-]|\(0\))*[0-9]){3}(?:[ ()-]*[0-9]){3,11}[ ()-]*$";

    /// Matches the form of [`Self::as_str`].
    pub const CANONICAL_PATTERN: &str = r"^\+[1-9][0-9]{6,14}$";

    /// Reads a number as people write it. Spaces, dashes and brackets are stripped.
    ///
    /// A `(0)` after the country code is the national trunk prefix, which is not part of the international number. It is
    /// dropped as long as enough digits remain. A 0 in any other form stays: in some countries numbers start with 0.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        if text.chars().count() > Self::MAX_LENGTH {
            return Err(format!("A phone number has at most {} characters.", Self::MAX_LENGTH).into());
        }
        let Some(number) = text.trim_start_matches(is_separator).strip_prefix('+') else {
            return Err("Include the country code, for example +44 7700 900123.".into());
        };
        let digits = digits(number)?;
        if digits.starts_with('0') {
            return Err("A country code does not start with 0. Write the number like +44 7700 900123.".into());
        }
        if !(MIN_DIGITS..=MAX_DIGITS).contains(&digits.len()) {
            let found = digits.len();
            return Err(format!(
                "A phone number has {MIN_DIGITS} to {MAX_DIGITS} digits after the +, but this one has {found}."
            )
            .into());
        }
        Ok(Self(format!("+{digits}")))
    }

    /// Reads a number from a query string, in which an unescaped `+` arrives as a space.
    pub fn parse_query(text: &str) -> Result<Self, Reason> {
        match text.strip_prefix(' ') {
            Some(number) if !number.contains('+') => Self::parse(&format!("+{number}")),
            _ => Self::parse(text),
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the number starts with one of `prefixes`, such as `+44`. An empty list allows every number.
    #[must_use]
    pub fn is_allowed(&self, prefixes: &[String]) -> bool {
        prefixes.is_empty() || prefixes.iter().any(|prefix| self.0.starts_with(prefix))
    }
}

impl Field for Phone {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match raw {
            Raw::Text(text) => Self::parse_query(text),
            Raw::Json(_) => Self::parse(raw.text()?),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "maxLength": Self::MAX_LENGTH, "pattern": Self::PATTERN, "examples": ["+447700900123"],
            "description": "A phone number with its country code. Spaces, dashes and brackets are stripped. \
                            So is a `(0)` after the country code.",
        })
    }
}

#[cfg(feature = "openapi")]
super::field::response_schema!(Phone, { "type": "string", "pattern": (Phone::CANONICAL_PATTERN) });

impl fmt::Debug for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Phone(hidden)")
    }
}

fn is_separator(c: char) -> bool {
    matches!(c, ' ' | '-' | '(' | ')')
}

/// The digits of `number` without separators and trunk prefix.
fn digits(number: &str) -> Result<String, Reason> {
    let mut spare = number.chars().filter(char::is_ascii_digit).count().saturating_sub(MIN_DIGITS);
    let mut digits = String::with_capacity(number.len());
    let mut rest = number;
    while let Some(next) = rest.chars().next() {
        if spare > 0
            && (1..=3).contains(&digits.len())
            && let Some(after) = rest.strip_prefix(TRUNK_PREFIX)
        {
            spare -= 1;
            rest = after;
            continue;
        }
        if next.is_ascii_digit() {
            digits.push(next);
        } else if !is_separator(next) {
            return Err("Use only digits, spaces, dashes and brackets after the +.".into());
        }
        rest = &rest[next.len_utf8()..];
    }
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::string::string_regex;
    use regex::Regex;

    use super::*;

    fn parsed(text: &str) -> String {
        Phone::parse(text).unwrap_or_else(|reason| panic!("{text:?}: {reason}")).as_str().to_owned()
    }

    /// Texts that match [`Phone::PATTERN`] with short runs of separators, so that most are short enough.
    fn accepted_texts() -> impl Strategy<Value = String> {
        let pattern = Phone::PATTERN.trim_start_matches('^').trim_end_matches('$').replace('*', "{0,2}");
        let texts = string_regex(&pattern).unwrap();
        texts.prop_filter("longer than MAX_LENGTH", |text| text.len() <= Phone::MAX_LENGTH)
    }

    fn matches(pattern: &str, text: &str) -> bool {
        Regex::new(pattern).unwrap().is_match(text)
    }

    #[test]
    fn separators_are_stripped() {
        for text in [
            "+447700900123",
            "+44 7700 900-123",
            "+44 (7700) 900123",
            "(+44) 7700 900123",
            " + 44--7700 (((900123",
        ] {
            assert_eq!(parsed(text), "+447700900123", "{text:?}");
        }
    }

    #[test]
    fn a_bracketed_zero_after_the_country_code_is_dropped() {
        for text in ["+44 (0)7700 900123", "+44(0)7700900123", "+44-(0)-7700-900123", "(+44) (0) 7700 900123"]
        {
            assert_eq!(parsed(text), "+447700900123", "{text:?}");
        }
        assert_eq!(parsed("+7 (0)999 123 45 67"), "+79991234567", "a country code of one digit");
        assert_eq!(parsed("+353 (0)85 012 3456"), "+353850123456", "a country code of three digits");
        assert_eq!(parsed("+44 (0)12345"), "+4412345", "the shortest number");
        assert_eq!(parsed("+44 (0)1234567890123"), "+441234567890123", "the longest number");
    }

    #[test]
    fn any_other_zero_stays() {
        for (text, number) in [
            ("+44 07700 900123", "+4407700900123"),
            ("+39 06 6982 1234", "+390669821234"),
            ("+39 (06) 6982 1234", "+390669821234"),
            ("+44 7700 (0)90012", "+447700090012"),
            ("+44 (0)1234", "+4401234"),
        ] {
            assert_eq!(parsed(text), number, "{text:?}");
        }
    }

    #[test]
    fn invalid_numbers_are_rejected_with_advice() {
        const COUNTRY_CODE: &str = "Include the country code, for example +44 7700 900123.";
        const COUNTRY_CODE_ZERO: &str =
            "A country code does not start with 0. Write the number like +44 7700 900123.";
        const CHARACTERS: &str = "Use only digits, spaces, dashes and brackets after the +.";
        let length =
            |digits| format!("A phone number has 7 to 15 digits after the +, but this one has {digits}.");
        for (text, reason) in [
            ("", COUNTRY_CODE),
            ("447700900123", COUNTRY_CODE),
            ("07700 900123", COUNTRY_CODE),
            ("+", &length(0)),
            ("+123456", &length(6)),
            ("+1234567890123456", &length(16)),
            ("+044770090", COUNTRY_CODE_ZERO),
            ("+ (0)44770090", COUNTRY_CODE_ZERO),
            ("+44x700900123", CHARACTERS),
            ("++447700900123", CHARACTERS),
            ("+44.7700.900123", CHARACTERS),
            ("+447700900123\n", CHARACTERS),
            ("+४४७७००९००१२३", CHARACTERS),
            (&format!("+447700900123{}", " ".repeat(28)), "A phone number has at most 40 characters."),
        ] {
            assert_eq!(Phone::parse(text).unwrap_err().to_string(), reason, "{text:?}");
        }
    }

    #[test]
    fn a_space_in_a_query_can_be_an_unescaped_plus() {
        for text in
            [" 447700900123", " 44 (0)7700 900123", "+447700900123", " +44 7700 900123", " (+44) 7700 900123"]
        {
            assert_eq!(Phone::parse_query(text).unwrap().as_str(), "+447700900123", "{text:?}");
        }
        // Found by Schemathesis.
        let text = " +3 ()4(-3) (- ))  3) 5(4) 6((7-";
        assert_eq!(Phone::parse_query(text).unwrap().as_str(), "+34335467");
        for text in ["447700900123", "  447700900123x", "", " "] {
            assert!(Phone::parse_query(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_allow_list_is_by_prefix() {
        let phone = Phone::parse("+447700900123").unwrap();
        assert!(phone.is_allowed(&[]));
        assert!(phone.is_allowed(&["+1".into(), "+44".into()]));
        assert!(!phone.is_allowed(&["+1".into()]));
    }

    #[test]
    fn debug_output_hides_the_number() {
        assert!(!format!("{:?}", Phone::parse("+447700900123").unwrap()).contains("7700"));
    }

    proptest! {
        #[test]
        fn texts_that_match_the_pattern_are_accepted(text in accepted_texts()) {
            let phone = Phone::parse(&text);
            prop_assert!(phone.is_ok(), "{phone:?}");
            prop_assert_eq!(Phone::parse_query(&text), phone, "in a query");
        }

        /// The texts are built from the parts that matter, so that accepted and rejected ones are both common.
        #[test]
        fn exactly_the_texts_that_match_the_pattern_are_accepted(text in "[ (]?\\+?[0-9](\\(0\\)|[0-9]|[ ()-]|x){0,24}") {
            let is_match = text.len() <= Phone::MAX_LENGTH && matches(Phone::PATTERN, &text);
            prop_assert_eq!(Phone::parse(&text).is_ok(), is_match);
        }

        #[test]
        fn a_parsed_number_is_canonical(text in accepted_texts()) {
            let number = parsed(&text);
            prop_assert!(matches(Phone::CANONICAL_PATTERN, &number));
            prop_assert_eq!(parsed(&number), number);
        }

        #[test]
        fn the_trunk_prefix_changes_nothing(number in "\\+[1-9][0-9]{6,14}", country_code in 1..=3_usize) {
            let (country_code, rest) = number.split_at(1 + country_code);
            prop_assert_eq!(parsed(&format!("{country_code} (0){rest}")), parsed(&number));
        }

        #[test]
        fn parsing_never_panics(text in any::<String>()) {
            let _ = Phone::parse(&text);
            let _ = Phone::parse_query(&text);
        }
    }
}
