use proptest::prelude::*;
use proptest::string::string_regex;
use regex::Regex;

use super::*;

fn parsed(text: &str) -> String {
    Phone::parse(text).unwrap_or_else(|reason| panic!("{text:?}: {reason}")).as_str().to_owned()
}

/// Generates texts that match [`Phone::PATTERN`]. The runs of separators are short, so that few texts are
/// longer than [`Phone::MAX_LENGTH`].
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
    for text in ["+44 (0)7700 900123", "+44(0)7700900123", "+44-(0)-7700-900123", "(+44) (0) 7700 900123"] {
        assert_eq!(parsed(text), "+447700900123", "{text:?}");
    }
    assert_eq!(parsed("+7 (0)999 123 45 67"), "+79991234567", "a country code of one digit");
    assert_eq!(parsed("+353 (0)85 012 3456"), "+353850123456", "a country code of three digits");
    assert_eq!(parsed("+44 (0)12345"), "+4412345", "the shortest number");
    assert_eq!(parsed("+44 (0)1234567890123"), "+441234567890123", "the longest number");
}

#[test]
fn zeros_that_do_not_count_as_a_trunk_prefix_are_kept() {
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
fn a_leading_space_in_a_query_can_stand_for_a_plus() {
    for text in
        [" 447700900123", " 44 (0)7700 900123", "+447700900123", " +44 7700 900123", " (+44) 7700 900123"]
    {
        assert_eq!(Phone::parse_query(text).unwrap().as_str(), "+447700900123", "{text:?}");
    }
    // Schemathesis generated this text from the pattern in the API description, so the parser must accept it.
    let text = " +3 ()4(-3) (- ))  3) 5(4) 6((7-";
    assert_eq!(Phone::parse_query(text).unwrap().as_str(), "+34335467");
    for text in ["447700900123", "  447700900123x", "", " "] {
        assert!(Phone::parse_query(text).is_err(), "{text:?}");
    }
}

#[test]
fn a_phone_must_have_an_allowed_prefix() {
    let phone = Phone::parse("+447700900123").unwrap();
    assert!(!phone.is_allowed(&[]));
    assert!(phone.is_allowed(&["+".into()]));
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

    /// The texts mix digits, separators, trunk prefixes and an invalid letter, so that accepted and rejected
    /// texts are both common.
    #[test]
    fn the_phone_pattern_and_parser_accept_the_same_texts(
        text in "[ (]?\\+?[0-9](\\(0\\)|[0-9]|[ ()-]|x){0,24}",
    ) {
        let is_match = text.len() <= Phone::MAX_LENGTH && matches(Phone::PATTERN, &text);
        prop_assert_eq!(Phone::parse(&text).is_ok(), is_match);
    }

    #[test]
    fn a_parsed_number_has_the_canonical_form(text in accepted_texts()) {
        let number = parsed(&text);
        prop_assert!(matches(Phone::CANONICAL_PATTERN, &number));
        prop_assert_eq!(parsed(&number), number);
    }

    #[test]
    fn a_trunk_prefix_does_not_change_the_parsed_number(
        number in "\\+[1-9][0-9]{6,14}",
        country_code in 1..=3_usize,
    ) {
        let (country_code, rest) = number.split_at(1 + country_code);
        prop_assert_eq!(parsed(&format!("{country_code} (0){rest}")), parsed(&number));
    }

    #[test]
    fn parsing_never_panics(text in any::<String>()) {
        let _ = Phone::parse(&text);
        let _ = Phone::parse_query(&text);
    }
}
