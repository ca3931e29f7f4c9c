//! The schemas and the parsers accept the same values.

use std::collections::BTreeSet;
use std::fmt::Debug;

use proptest::prelude::*;
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;
use regex::Regex;
use serde_json::{Value, json};

use crate::api::chat::RoomsPosition;
use crate::api::coins::BelowEntry;
use crate::api::predictions::{AfterMember, AfterPredictor, BeforePrediction};
use crate::api::{Cursor, OPERATIONS, PageNumber, PerPage, Position};
use crate::domain::catalog::ShownStatus;
use crate::domain::coins::{Amount, ReferenceId};
use crate::domain::prediction::{Confidence, Stamp};
use crate::domain::room::{RoomName, Topic};
use crate::domain::sms::{LogPosition, SmsStatus};
use crate::domain::username::{ChosenUsername, UsernameBase};
use crate::domain::{
    Email, Field, Id, Name, OneTimeCode, Phone, Pick, Raw, RoomId, SearchText, UserId, Username,
};

/// Whether the parser accepts a text in a body. A query must give the same result.
#[track_caller]
fn parser_accepts<T: Field>(text: &str) -> bool {
    let in_body = T::read(Raw::Json(&json!(text))).is_ok();
    let in_query = T::read(Raw::Text(text)).is_ok();
    assert_eq!(in_body, in_query, "{text:?} in a body and in a query");
    in_body
}

/// The schema of a type that is a string with a pattern.
#[derive(Debug, Clone)]
struct TextSchema {
    /// The text must match all of them.
    patterns: Vec<Regex>,
    max_length: usize,
}

impl TextSchema {
    fn of<T: Field>() -> Self {
        let schema = T::schema();
        assert_eq!(schema["type"], "string");
        // The patterns reject the empty text, so that `minLength` 1 adds nothing.
        assert!(schema["minLength"].as_u64().is_none_or(|min| min == 1));
        let max_length = schema["maxLength"].as_u64().map_or(usize::MAX, |max| max.try_into().unwrap());
        Self { patterns: patterns(&schema).map(|pattern| Regex::new(pattern).unwrap()).collect(), max_length }
    }

    fn accepts(&self, text: &str) -> bool {
        text.chars().count() <= self.max_length && self.patterns.iter().all(|pattern| pattern.is_match(text))
    }

    /// Texts that the schema accepts. `*` and `+` repeat at most twice, so that most texts are short.
    fn accepted_texts(&self) -> impl Strategy<Value = String> + use<> {
        let pattern = self.patterns[0].as_str().trim_start_matches('^').trim_end_matches('$');
        let pattern = pattern.replace('*', "{0,2}").replace(")+", "){1,2}");
        let schema = self.clone();
        string_regex(&pattern).unwrap().prop_filter("not accepted", move |text| schema.accepts(text))
    }

    /// Accepted texts with one character inserted, removed or replaced. Many of them are not accepted.
    fn almost_accepted_texts(&self) -> impl Strategy<Value = String> + use<> {
        // White space, control characters, letters, digits and punctuation, where the types differ.
        let special =
            "\u{0}\u{1f}\u{7f}\u{85}\u{9f}\u{a0}\u{200b}\u{2028}\u{3000}\u{feff} \t\nAaZz09+-_.(){}";
        let special = prop::sample::select(special.chars().collect::<Vec<_>>());
        let inserted = prop::option::of(prop_oneof![any::<char>(), special]);
        let change = |(text, at, inserted, removes): (String, prop::sample::Index, Option<char>, bool)| {
            let mut text: Vec<char> = text.chars().collect();
            let at = at.index(text.len() + 1);
            if removes && at < text.len() {
                text.remove(at);
            }
            text.splice(at..at, inserted);
            text.into_iter().collect()
        };
        (self.accepted_texts(), any::<prop::sample::Index>(), inserted, any::<bool>()).prop_map(change)
    }

    /// Accepted, almost accepted and random texts.
    fn texts(&self) -> impl Strategy<Value = String> + use<> {
        prop_oneof![self.accepted_texts(), self.almost_accepted_texts(), any::<String>()]
    }
}

/// The pattern of a schema, then those of its `allOf`.
fn patterns(schema: &Value) -> impl Iterator<Item = &str> {
    let further = schema["allOf"].as_array().into_iter().flatten();
    std::iter::once(schema).chain(further).filter_map(|schema| schema["pattern"].as_str())
}

/// Runs a test on texts around the schema of `T`, more of them than by default.
#[track_caller]
fn for_texts_of<T: Field>(test: impl Fn(&TextSchema, &str) -> Result<(), TestCaseError>) {
    let schema = TextSchema::of::<T>();
    let config = ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config).run(&schema.texts(), |text| test(&schema, &text)).unwrap();
}

#[track_caller]
fn schema_and_parser_agree<T: Field>() {
    for_texts_of::<T>(|schema, text| {
        prop_assert_eq!(schema.accepts(text), parser_accepts::<T>(text), "schema, parser: {:?}", text);
        Ok(())
    });
}

#[test]
fn the_schema_of_one_time_codes_is_exact() {
    schema_and_parser_agree::<OneTimeCode>();
}

#[test]
fn the_schema_of_usernames_is_exact() {
    schema_and_parser_agree::<Username>();
}

#[test]
fn the_schema_of_names_is_exact() {
    schema_and_parser_agree::<Name>();
}

#[test]
fn the_schema_of_room_names_is_exact() {
    schema_and_parser_agree::<RoomName>();
}

#[test]
fn the_schema_of_topics_is_exact() {
    schema_and_parser_agree::<Topic>();
}

#[test]
fn the_schema_of_search_texts_is_exact() {
    schema_and_parser_agree::<SearchText>();
}

#[test]
fn the_schema_of_reference_ids_is_exact() {
    schema_and_parser_agree::<ReferenceId>();
}

/// In a body. A query also accepts a space instead of the plus.
#[test]
fn the_schema_of_phones_is_exact() {
    for_texts_of::<Phone>(|schema, text| {
        prop_assert_eq!(schema.accepts(text), Phone::read(Raw::Json(&json!(text))).is_ok(), "{:?}", text);
        Ok(())
    });
}

/// A pattern cannot tell which usernames are reserved.
#[test]
fn chosen_usernames_are_the_usernames_that_are_not_reserved() {
    assert_eq!(ChosenUsername::schema(), Username::schema());
    for_texts_of::<Username>(|_, text| {
        let is_free = Username::parse(text).is_ok_and(|name| !name.is_reserved());
        prop_assert_eq!(parser_accepts::<ChosenUsername>(text), is_free, "{:?}", text);
        Ok(())
    });
    assert!(!parser_accepts::<ChosenUsername>(" Admin "));
}

/// A pattern cannot tell which characters beyond ASCII have a transliteration.
#[test]
fn the_schema_of_username_bases_is_exact_for_ascii() {
    for_texts_of::<UsernameBase>(|schema, text| {
        let (by_schema, by_parser) = (schema.accepts(text), parser_accepts::<UsernameBase>(text));
        prop_assert!(by_schema || !by_parser, "only the parser accepts {text:?}");
        prop_assert!(by_parser || !by_schema || !text.is_ascii(), "only the schema accepts {text:?}");
        Ok(())
    });
    let schema = TextSchema::of::<UsernameBase>();
    let ascii = "[ _.!a-zA-Z0-9-]{0,3}[ _.!]{0,60}[ _.!a]{0,40}";
    TestRunner::default()
        .run(&ascii, |text| {
            prop_assert_eq!(schema.accepts(&text), parser_accepts::<UsernameBase>(&text), "{:?}", text);
            Ok(())
        })
        .unwrap();
}

/// A pattern cannot tell which positions exist in a list.
#[test]
fn the_schema_of_cursors_matches_every_accepted_cursor() {
    fn check<P: Position>() {
        for_texts_of::<Cursor<P>>(|schema, text| {
            prop_assert!(schema.accepts(text) || !parser_accepts::<Cursor<P>>(text), "{text:?}");
            Ok(())
        });
    }
    check::<AfterPredictor>();
    check::<BeforePrediction>();
    check::<AfterMember>();
    check::<BelowEntry>();
    check::<RoomsPosition>();
    check::<LogPosition>();
}

#[track_caller]
fn assert_round_trip<P: Position + Clone + Debug + PartialEq>(owner: &str, position: &P) {
    let text = Cursor::new(owner, position.clone()).to_string();
    assert!(TextSchema::of::<Cursor<P>>().accepts(&text), "the schema rejects {text:?}");
    assert!(parser_accepts::<Cursor<P>>(&text), "the parser rejects {text:?}");
    let cursor = Cursor::<P>::read(Raw::Text(&text)).unwrap();
    assert_eq!(cursor.position_in(owner).as_ref(), Ok(position));
}

proptest! {
    #[test]
    fn cursors_of_the_service_are_accepted(
        owner in "\\PC{0,20}",
        user: u32,
        entry: u64,
        milliseconds in 0..10_000_000_000_000_i64,
        nonce: u32,
        room in "![a-zA-Z0-9._=/-]{1,30}:[a-z0-9.:-]{1,30}",
        sort_key in "\\PC{1,200}",
    ) {
        let user = UserId(user);
        let room = RoomId::parse(&room).unwrap();
        let stamp = Stamp::new(chrono::DateTime::from_timestamp_millis(milliseconds).unwrap(), nonce);
        let log = LogPosition::parse(&format!("{milliseconds:016}.{}", stamp.as_str())).unwrap();
        assert_round_trip(&owner, &AfterPredictor(user));
        assert_round_trip(&owner, &BeforePrediction(stamp));
        assert_round_trip(&owner, &AfterMember(user));
        assert_round_trip(&owner, &BelowEntry(entry));
        assert_round_trip(&owner, &RoomsPosition::Own(room));
        assert_round_trip(&owner, &RoomsPosition::Directory(sort_key));
        assert_round_trip(&owner, &log);
    }

    /// E-mail addresses have a format instead of a pattern.
    #[test]
    fn plain_email_addresses_are_accepted(
        address in "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,30}(\\.[a-z0-9]{1,10}){0,2}@([a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?\\.){1,3}[a-z]{2,10}",
    ) {
        prop_assert!(parser_accepts::<Email>(&address));
    }
}

/// Generated texts rarely have the maximum length.
#[test]
fn maximum_lengths_are_exact() {
    fn check<T: Field>(max: usize) {
        let schema = TextSchema::of::<T>();
        // Characters of one, two and four bytes. The last has two UTF-16 code units.
        for character in ["x", "é", "😀"] {
            let longest = character.repeat(max);
            let padded = format!("  {longest}  ");
            let too_long = format!("{longest}{character}");
            for (text, is_valid) in [(longest, true), (padded, true), (too_long, false)] {
                assert_eq!(schema.accepts(&text), is_valid, "the schema: {text:?}");
                assert_eq!(parser_accepts::<T>(&text), is_valid, "the parser: {text:?}");
            }
        }
    }
    check::<Name>(100);
    check::<RoomName>(100);
    check::<SearchText>(100);
    check::<UsernameBase>(100);
    check::<Topic>(500);
}

#[test]
fn the_bounds_of_integers_are_exact() {
    fn check<T: Field + Debug>() {
        let schema = T::schema();
        assert_eq!(schema["type"], "integer");
        let bound = |name: &str| schema[name].as_i64().expect("a bound");
        let (min, max) = (bound("minimum"), bound("maximum"));
        let accepts = |number: Option<i64>| {
            number.is_some_and(|number| {
                let in_query = T::read(Raw::Text(&number.to_string())).is_ok();
                assert_eq!(T::read(Raw::Json(&json!(number))).is_ok(), in_query, "{number}");
                in_query
            })
        };
        assert!(accepts(Some(min)) && accepts(Some(max)), "{schema}");
        assert!(!accepts(min.checked_sub(1)) && !accepts(max.checked_add(1)), "{schema}");
        if let Some(default) = schema.get("default") {
            assert_eq!(format!("{:?}", T::absent()), format!("{:?}", T::read(Raw::Json(default))));
        }
    }
    check::<Amount>();
    check::<Confidence>();
    check::<PageNumber>();
    check::<PerPage<20>>();
    check::<PerPage<50>>();
    check::<Id>();
    check::<UserId>();
}

#[test]
fn exactly_the_listed_words_are_accepted() {
    fn check<T: Field>() {
        let schema = T::schema();
        let words: Vec<&str> = schema["enum"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        for word in &words {
            assert!(parser_accepts::<T>(word), "{word}");
            for other in [word.to_uppercase(), format!("{word} "), word[1..].to_owned()] {
                assert!(!parser_accepts::<T>(&other), "{other}");
            }
        }
    }
    check::<Pick>();
    check::<SmsStatus>();
    check::<ShownStatus>();
}

/// Fails when an input gets a pattern that no test above compares with its parser.
#[test]
fn every_pattern_of_an_input_is_tested() {
    let tested: BTreeSet<String> = [
        OneTimeCode::schema(),
        Username::schema(),
        Name::schema(),
        RoomName::schema(),
        Topic::schema(),
        SearchText::schema(),
        ReferenceId::schema(),
        Phone::schema(),
        UsernameBase::schema(),
        Cursor::<AfterMember>::schema(),
    ]
    .iter()
    .flat_map(patterns)
    .map(str::to_owned)
    .collect();
    let mut generator = schemars::SchemaGenerator::default();
    let fields = OPERATIONS.iter().flat_map(|describe| describe(&mut generator).fields);
    let in_use: BTreeSet<String> =
        fields.flat_map(|field| patterns(&field.schema).map(str::to_owned).collect::<Vec<_>>()).collect();
    assert_eq!(in_use, tested);
}
