//! Checks that the JSON Schema and the parser of every input type accept the same values.

use std::collections::BTreeSet;
use std::fmt::Debug;

use proptest::prelude::*;
use proptest::string::string_regex;
use proptest::test_runner::TestRunner;
use regex::Regex;
use serde_json::{Value, json};

use crate::api::chat::{OwnRoom, RoomsPosition};
use crate::api::coins::BelowEntry;
use crate::api::leaderboards::{AfterPlace, Around, ScopeName};
use crate::api::matches::Include;
use crate::api::predictions::{AfterMember, AfterPredictor, BeforePrediction};
use crate::api::{Cursor, OPERATIONS, PageNumber, PerPage, Position};
use crate::domain::catalog::{ListPosition, ShownStatus};
use crate::domain::coins::{Amount, ReferenceId};
use crate::domain::invisible;
use crate::domain::prediction::{Confidence, Stamp};
use crate::domain::report::{MessageId, ReportReason, ReportText};
use crate::domain::room::{RoomName, Topic};
use crate::domain::sms::{LogPosition, SmsStatus};
use crate::domain::standings::Span;
use crate::domain::username::{UsernameBase, UsernamePrefix};
use crate::domain::{
    Email, Field, Id, Name, OneTimeCode, Phone, Pick, Raw, RoomId, SearchText, UserId, Username,
};

/// Returns whether the parser accepts a text. Checks that the result is the same in a body and in a query.
#[track_caller]
fn parser_accepts<T: Field>(text: &str) -> bool {
    let in_body = T::read(Raw::Json(&json!(text))).is_ok();
    let in_query = T::read(Raw::Text(text)).is_ok();
    assert_eq!(in_body, in_query, "{text:?} has different results in a body and in a query");
    in_body
}

/// The JSON Schema of a string with at least one pattern.
#[derive(Debug, Clone)]
struct TextSchema {
    /// A text must match every pattern.
    patterns: Vec<Regex>,
    /// The maximum number of characters.
    max_length: usize,
}

impl TextSchema {
    fn of<T: Field>() -> Self {
        let schema = T::schema();
        assert_eq!(schema["type"], "string");
        // `accepts` ignores `minLength`: the patterns reject the empty text, so a `minLength` of 1 adds
        // nothing.
        assert!(schema["minLength"].as_u64().is_none_or(|min| min == 1));
        let max_length = schema["maxLength"].as_u64().map_or(usize::MAX, |max| max.try_into().unwrap());
        Self { patterns: patterns(&schema).map(|pattern| Regex::new(pattern).unwrap()).collect(), max_length }
    }

    fn accepts(&self, text: &str) -> bool {
        text.chars().count() <= self.max_length && self.patterns.iter().all(|pattern| pattern.is_match(text))
    }

    /// Generates texts that the schema accepts. `*` and `+` repeat at most twice, so that most texts are
    /// short.
    fn accepted_texts(&self) -> impl Strategy<Value = String> + use<> {
        let pattern = self.patterns[0].as_str().trim_start_matches('^').trim_end_matches('$');
        let pattern = pattern.replace('*', "{0,2}").replace(")+", "){1,2}");
        let schema = self.clone();
        string_regex(&pattern).unwrap().prop_filter("not accepted", move |text| schema.accepts(text))
    }

    /// Generates accepted texts with one character inserted, removed or replaced. The schema rejects many of
    /// them.
    fn almost_accepted_texts(&self) -> impl Strategy<Value = String> + use<> {
        // Characters that some types accept and others reject.
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

    /// Generates accepted, almost accepted and random texts.
    fn texts(&self) -> impl Strategy<Value = String> + use<> {
        prop_oneof![self.accepted_texts(), self.almost_accepted_texts(), any::<String>()]
    }
}

/// Lists the pattern of a schema, then the patterns in its `allOf`.
fn patterns(schema: &Value) -> impl Iterator<Item = &str> {
    let further = schema["allOf"].as_array().into_iter().flatten();
    std::iter::once(schema).chain(further).filter_map(|schema| schema["pattern"].as_str())
}

/// Runs a test on texts that the schema of `T` accepts or almost accepts, and on random texts. The number of
/// texts is higher than proptest's default.
#[track_caller]
fn for_texts_of<T: Field>(test: impl Fn(&TextSchema, &str) -> Result<(), TestCaseError>) {
    let schema = TextSchema::of::<T>();
    let config = ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() };
    TestRunner::new(config).run(&schema.texts(), |text| test(&schema, &text)).unwrap();
}

#[track_caller]
fn schema_and_parser_agree<T: Field>() {
    for_texts_of::<T>(|schema, text| {
        prop_assert_eq!(
            schema.accepts(text),
            parser_accepts::<T>(text),
            "schema and parser differ: {:?}",
            text
        );
        Ok(())
    });
}

/// Compares schema and parser like [`schema_and_parser_agree`]. The schema also accepts texts with characters whose
/// acceptance depends on their neighbours, because a pattern cannot express that.
#[track_caller]
fn public_text_schema_and_parser_agree<T: Field>() {
    for_texts_of::<T>(|schema, text| {
        let (by_schema, by_parser) = (schema.accepts(text), parser_accepts::<T>(text));
        prop_assert!(by_schema || !by_parser, "only the parser accepts {text:?}");
        let is_exact = !text.chars().any(invisible::depends_on_neighbours);
        prop_assert!(by_parser || !by_schema || !is_exact, "only the schema accepts {text:?}");
        Ok(())
    });
    let schema = TextSchema::of::<T>();
    for character in ('\0'..'\u{10000}').filter(|character| !invisible::depends_on_neighbours(*character)) {
        let text = format!("x{character}x");
        assert_eq!(schema.accepts(&text), parser_accepts::<T>(&text), "{text:?}");
    }
}

#[test]
fn the_one_time_code_schema_and_parser_accept_the_same_texts() {
    schema_and_parser_agree::<OneTimeCode>();
}

#[test]
fn the_username_schema_and_parser_accept_the_same_texts() {
    schema_and_parser_agree::<Username>();
}

#[test]
fn the_schema_and_the_parser_accept_the_same_beginnings_of_usernames() {
    schema_and_parser_agree::<UsernamePrefix>();
}

#[test]
fn the_name_schema_and_parser_accept_the_same_texts() {
    public_text_schema_and_parser_agree::<Name>();
}

#[test]
fn the_room_name_schema_and_parser_accept_the_same_texts() {
    public_text_schema_and_parser_agree::<RoomName>();
}

#[test]
fn the_topic_schema_and_parser_accept_the_same_texts() {
    public_text_schema_and_parser_agree::<Topic>();
}

#[test]
fn the_search_text_schema_and_parser_accept_the_same_texts() {
    schema_and_parser_agree::<SearchText>();
}

#[test]
fn the_reference_id_schema_and_parser_accept_the_same_texts() {
    schema_and_parser_agree::<ReferenceId>();
}

#[test]
fn the_schemas_and_parsers_of_a_report_accept_the_same_texts() {
    schema_and_parser_agree::<RoomId>();
    schema_and_parser_agree::<MessageId>();
    schema_and_parser_agree::<ReportText>();
}

/// This test reads the texts from a body. In a query, the parser also accepts a space instead of the plus.
#[test]
fn the_phone_schema_and_parser_accept_the_same_texts() {
    for_texts_of::<Phone>(|schema, text| {
        prop_assert_eq!(schema.accepts(text), Phone::read(Raw::Json(&json!(text))).is_ok(), "{:?}", text);
        Ok(())
    });
}

/// Beyond ASCII the schema accepts more texts than the parser, because a pattern cannot tell which characters
/// have a transliteration.
#[test]
fn the_username_base_schema_and_parser_accept_the_same_ascii_texts() {
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

/// The schema accepts more texts than the parser, because a pattern cannot tell which texts encode a
/// position in a list.
#[test]
fn the_cursor_schema_accepts_every_cursor_that_the_parser_accepts() {
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
    check::<AfterPlace>();
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
    fn the_schema_and_the_parser_accept_every_cursor_that_the_service_writes(
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
        let joined_at = chrono::DateTime::from_timestamp_millis(milliseconds);
        assert_round_trip(&owner, &RoomsPosition::Own(OwnRoom::new(joined_at, room.clone())));
        assert_round_trip(&owner, &RoomsPosition::Own(OwnRoom::new(None, room)));
        let in_list = ListPosition::parse(&format!("2.-{}.{nonce}", milliseconds + 1)).unwrap();
        assert_round_trip(&owner, &RoomsPosition::Match(in_list));
        assert_round_trip(&owner, &RoomsPosition::Directory(sort_key));
        assert_round_trip(&owner, &log);
    }

    /// The schema of e-mail addresses has a format instead of a pattern, so this test checks only the
    /// parser.
    #[test]
    fn the_parser_accepts_plain_email_addresses(
        address in "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,30}(\\.[a-z0-9]{1,10}){0,2}@([a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?\\.){1,3}[a-z]{2,10}",
    ) {
        prop_assert!(parser_accepts::<Email>(&address));
    }
}

/// The tests above rarely generate a text of the maximum length, so this test checks that length.
#[test]
fn the_schema_and_the_parser_have_the_same_maximum_length() {
    fn check<T: Field>(max: usize) {
        let schema = TextSchema::of::<T>();
        // The maximum counts characters, not bytes or UTF-16 code units. `é` has two bytes. `😀` has four bytes
        // and two UTF-16 code units.
        for character in ["x", "é", "😀"] {
            let longest = character.repeat(max);
            let padded = format!("  {longest}  ");
            let too_long = format!("{longest}{character}");
            for (text, is_valid) in [(longest, true), (padded, true), (too_long, false)] {
                assert_eq!(schema.accepts(&text), is_valid, "the schema decides wrongly about {text:?}");
                assert_eq!(parser_accepts::<T>(&text), is_valid, "the parser decides wrongly about {text:?}");
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
fn integer_parsers_have_the_bounds_and_the_default_of_their_schema() {
    fn check<T: Field + Debug>() {
        let schema = T::schema();
        assert_eq!(schema["type"], "integer");
        let bound = |name: &str| schema[name].as_i64().expect("the schema has both bounds");
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
fn parsers_accept_the_words_that_their_schema_lists_and_no_similar_words() {
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
    check::<ReportReason>();
    check::<SmsStatus>();
    check::<ShownStatus>();
    check::<Around>();
    check::<ScopeName>();
    check::<Span>();
}

#[test]
fn the_schema_and_the_parser_accept_the_same_names_of_what_to_include() {
    let schema = TextSchema::of::<Include>();
    for (text, is_valid) in [
        ("picks", true),
        ("my_prediction", true),
        ("picks,my_prediction", true),
        ("picks,picks", true),
        ("", false),
        ("picks,", false),
        (",picks", false),
        ("picks, my_prediction", false),
        ("Picks", false),
        ("pick", false),
    ] {
        assert_eq!(schema.accepts(text), is_valid, "the schema decides wrongly about {text:?}");
        assert_eq!(parser_accepts::<Include>(text), is_valid, "the parser decides wrongly about {text:?}");
    }
}

/// Fails when an input gets a pattern that no test above compares with its parser.
#[test]
fn every_pattern_of_an_input_is_compared_with_its_parser() {
    let tested: BTreeSet<String> = [
        OneTimeCode::schema(),
        Username::schema(),
        Name::schema(),
        RoomName::schema(),
        Topic::schema(),
        SearchText::schema(),
        ReferenceId::schema(),
        RoomId::schema(),
        MessageId::schema(),
        ReportText::schema(),
        Phone::schema(),
        UsernameBase::schema(),
        UsernamePrefix::schema(),
        Include::schema(),
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
