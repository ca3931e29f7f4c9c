//! The published patterns and the parsers accept the same texts.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;
use regex::Regex;
use serde_json::json;

use super::chat::RoomsPosition;
use super::coins::BelowEntry;
use super::predictions::{AfterMember, AfterPredictor, BeforePrediction};
use super::{Cursor, Position, SearchText};
use crate::domain::coins::ReferenceId;
use crate::domain::prediction::Stamp;
use crate::domain::room::{RoomName, Topic};
use crate::domain::sms::LogPosition;
use crate::domain::username::{Base, ChosenUsername};
use crate::domain::{Email, Field, Name, OneTimeCode, Phone, Raw, RoomId, UserId, Username};

/// Whether the type accepts a text, which is the same in a body and in a query string.
#[track_caller]
fn accepts<T: Field + Debug>(text: &str) -> bool {
    let body = T::read(Raw::Json(&json!(text))).is_ok();
    let query = T::read(Raw::Text(text)).is_ok();
    assert_eq!(body, query, "{text:?} in a body and in a query");
    body
}

/// The part of a schema that concerns the text alone.
struct TextSchema {
    pattern: String,
    regex: Regex,
    max_length: usize,
}

impl TextSchema {
    fn of<T: Field>() -> Self {
        let schema = T::schema();
        assert_eq!(schema["type"], "string");
        let pattern = schema["pattern"].as_str().expect("the schema has a pattern").to_owned();
        let max_length = schema["maxLength"].as_u64().map_or(usize::MAX, |most| most.try_into().unwrap());
        // The patterns already exclude the empty text where `minLength` does.
        assert!(schema["minLength"].as_u64().is_none_or(|least| least == 1));
        Self { regex: Regex::new(&pattern).unwrap(), pattern, max_length }
    }

    fn accepts(&self, text: &str) -> bool {
        text.chars().count() <= self.max_length && self.regex.is_match(text)
    }

    /// Texts that the schema accepts. Unbounded repetitions are short, so that most texts are.
    fn accepted_texts(&self) -> impl Strategy<Value = String> {
        let unanchored = self.pattern.trim_start_matches('^').trim_end_matches('$');
        let (regex, max_length) = (self.regex.clone(), self.max_length);
        string_regex(&unanchored.replace('*', "{0,2}")).unwrap().prop_filter("not a match", move |text| {
            text.chars().count() <= max_length && regex.is_match(text)
        })
    }
}

/// Texts that the schema accepts with one change: a character inserted, removed or replaced.
fn nearly(accepted: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    // The characters on which the types differ: white space, control characters, letters, digits, punctuation.
    let inserted = prop::option::of(prop_oneof![
        any::<char>(),
        prop::sample::select(
            "\u{0}\u{1f}\u{7f}\u{85}\u{9f}\u{a0}\u{200b}\u{2028}\u{3000}\u{feff} \t\nAaZz09+-_.(){}"
                .chars()
                .collect::<Vec<_>>()
        ),
    ]);
    (accepted, any::<prop::sample::Index>(), inserted, any::<bool>()).prop_map(
        |(text, at, inserted, removes)| {
            let mut text: Vec<char> = text.chars().collect();
            let at = at.index(text.len() + 1);
            if removes && at < text.len() {
                text.remove(at);
            }
            let inserted = inserted.into_iter();
            text.splice(at..at, inserted);
            text.into_iter().collect()
        },
    )
}

/// Checks that the schema and the parser of `T` accept the same texts.
#[track_caller]
fn schema_and_parser_agree<T: Field + Debug>() {
    let schema = TextSchema::of::<T>();
    let same = |text: String| {
        prop_assert_eq!(schema.accepts(&text), accepts::<T>(&text), "schema, parser: {:?}", text);
        Ok(())
    };
    let mut runner = TestRunner::default();
    runner.run(&schema.accepted_texts(), same).unwrap();
    runner.run(&nearly(schema.accepted_texts()), same).unwrap();
    runner.run(&any::<String>(), same).unwrap();
}

#[test]
fn one_time_codes_agree() {
    schema_and_parser_agree::<OneTimeCode>();
}

#[test]
fn usernames_agree() {
    schema_and_parser_agree::<Username>();
}

#[test]
fn names_agree() {
    schema_and_parser_agree::<Name>();
}

#[test]
fn room_names_agree() {
    schema_and_parser_agree::<RoomName>();
}

#[test]
fn topics_agree() {
    schema_and_parser_agree::<Topic>();
}

#[test]
fn search_texts_agree() {
    schema_and_parser_agree::<SearchText>();
}

#[test]
fn reference_ids_agree() {
    schema_and_parser_agree::<ReferenceId>();
}

/// The property tests of the pattern are beside the parser of phones.
#[test]
fn phones_have_the_pattern_of_their_parser() {
    let schema = Phone::schema();
    assert_eq!(schema["pattern"], Phone::PATTERN);
    assert_eq!(schema["maxLength"], Phone::MAX_LENGTH);
}

/// The longest texts, which generated ones rarely reach.
#[test]
fn lengths_agree() {
    fn check<T: Field + Debug>(most: usize) {
        let schema = TextSchema::of::<T>();
        // One byte, two bytes, and four bytes, which are two UTF-16 code units.
        for character in ["x", "é", "😀"] {
            let longest = character.repeat(most);
            for (text, is_accepted) in
                [(format!("{longest}{character}"), false), (format!("  {longest}  "), true), (longest, true)]
            {
                assert_eq!(schema.accepts(&text), is_accepted, "the schema: {text:?}");
                assert_eq!(accepts::<T>(&text), is_accepted, "the parser: {text:?}");
            }
        }
    }
    check::<Name>(100);
    check::<RoomName>(100);
    check::<SearchText>(100);
    check::<Base>(100);
    check::<Topic>(500);
}

/// No pattern can say which usernames are reserved.
#[test]
fn chosen_usernames_are_the_usernames_that_are_not_reserved() {
    assert_eq!(ChosenUsername::schema(), Username::schema());
    TestRunner::default()
        .run(&TextSchema::of::<Username>().accepted_texts(), |text| {
            let is_reserved = Username::parse(&text).unwrap().is_reserved();
            prop_assert_eq!(accepts::<ChosenUsername>(&text), !is_reserved);
            Ok(())
        })
        .unwrap();
}

/// No pattern can say which characters have a transliteration.
#[test]
fn a_base_with_a_latin_letter_or_a_digit_is_accepted() {
    let schema = TextSchema::of::<Base>();
    let mut runner = TestRunner::default();
    runner
        .run(&schema.accepted_texts(), |text| {
            prop_assert!(
                accepts::<Base>(&text) || !text.contains(|c: char| c.is_ascii_alphanumeric()),
                "{text:?}"
            );
            Ok(())
        })
        .unwrap();
    assert!(accepts::<Base>(&format!("{}a", ".".repeat(99))));
    runner
        .run(&"[ _.!]{0,60}[A-Za-z0-9][ _.!é]{0,38}", |text| {
            prop_assert!(accepts::<Base>(&text), "{text:?}");
            Ok(())
        })
        .unwrap();
    runner
        .run(&nearly(schema.accepted_texts()), |text| {
            prop_assert!(schema.accepts(&text) || !accepts::<Base>(&text), "{text:?}");
            Ok(())
        })
        .unwrap();
}

proptest! {
    /// E-mail addresses have a format instead of a pattern.
    #[test]
    fn plain_email_addresses_are_accepted(
        address in "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,30}(\\.[a-z0-9]{1,10}){0,2}@([a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?\\.){1,3}[a-z]{2,10}",
    ) {
        prop_assert!(accepts::<Email>(&address));
    }

    /// The form of a cursor is no promise: one of another list matches the pattern too. So this shows one direction only.
    #[test]
    fn cursors_that_this_service_writes_match_the_schema_and_are_accepted(
        owner in "\\PC{0,20}",
        user: u32,
        entry: u64,
        milliseconds in 0..10_000_000_000_000_i64,
        nonce: u32,
        room in "![a-zA-Z0-9._=/-]{1,30}:[a-z0-9.:-]{1,30}",
        directory in "\\PC{1,200}",
        log in "[0-9]{16}\\.[0-9]{13}-[0-9a-f]{8}",
    ) {
        let user = UserId(user);
        let created = Stamp::new(chrono::DateTime::from_timestamp_millis(milliseconds).unwrap(), nonce);
        is_read_back(&owner, AfterPredictor(user));
        is_read_back(&owner, AfterMember(user));
        is_read_back(&owner, BeforePrediction(created));
        is_read_back(&owner, BelowEntry(entry));
        is_read_back(&owner, RoomsPosition::Own(RoomId::parse(&room).unwrap()));
        is_read_back(&owner, RoomsPosition::Directory(directory));
        is_read_back(&owner, LogPosition::parse(&log).unwrap());
    }
}

#[track_caller]
fn is_read_back<P: Position + Clone + Debug + PartialEq>(owner: &str, position: P) {
    let text = Cursor::new(owner, position.clone()).to_string();
    assert!(TextSchema::of::<Cursor<P>>().accepts(&text), "{text}");
    assert!(accepts::<Cursor<P>>(&text), "{text}");
    let cursor = Cursor::<P>::read(Raw::Text(&text)).unwrap();
    assert_eq!(cursor.position_in(owner), Ok(position));
}
