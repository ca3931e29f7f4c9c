//! What goes in and what comes out, as JSON Schema, for the description of the API. Never in a Lambda binary.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

use super::chat::RoomsCursor;
use super::coins::{CoinsCursor, ReasonWord};
use super::homeserver::Events;
use super::predictions::{EventCursor, OwnCursor, RoomCursor};
use super::{Endpoint, Field, Input as _, Number, PageNumber, PageSize, PerPage, Route, SearchText, TeamIds};
use crate::domain::catalog::{Score, ShownStatus};
use crate::domain::coins::{Amount, ReferenceId};
use crate::domain::prediction::{Confidence, Forecast};
use crate::domain::room::{RoomName, Topic};
use crate::domain::sms::{Position, SmsStatus};
use crate::domain::username::{Base, ChosenUsername};
use crate::domain::{BirthDate, Email, Name, OneTimeCode, Phone, Pick, RoomId, Timestamp, UserId, Username};
use crate::http::{Caller as _, Dialect};

/// An endpoint with all that its description says.
#[derive(Debug)]
pub struct Operation {
    /// The name of its type.
    pub name: &'static str,
    pub route: Route,
    pub dialect: Dialect,
    pub fields: Vec<TakenField>,
    pub output: Schema,
}

impl Operation {
    #[must_use]
    pub fn of<E: Endpoint<Output: JsonSchema>>(generator: &mut SchemaGenerator) -> Self {
        Self {
            name: std::any::type_name::<E>().rsplit("::").next().unwrap_or_default(),
            route: Route::of::<E>(),
            dialect: E::Caller::DIALECT,
            fields: E::Input::fields(),
            output: generator.subschema_for::<E::Output>(),
        }
    }
}

/// A field of a body, or a parameter of a query.
#[derive(Debug, Clone)]
pub struct TakenField {
    pub name: &'static str,
    pub description: &'static str,
    pub is_required: bool,
    pub schema: Value,
}

impl TakenField {
    #[must_use]
    pub fn of<T: Takes>(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            description: description.trim_ascii(),
            is_required: T::absent().is_err(),
            schema: T::takes(),
        }
    }
}

/// A field that says what it takes.
pub trait Takes: Field {
    fn takes() -> Value;
}

impl<T: Takes> Takes for Option<T> {
    fn takes() -> Value {
        T::takes()
    }
}

/// What is trimmed away, what is refused, and what a line begins and ends with.
const WHITE: &str = r"[\u0009-\u000D \u0085\u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]*";
const PLAIN: &str = r"[^\u0000-\u001F\u007F-\u009F]";
const INK: &str = r"[^\u0000-\u001F\u007F-\u009F \u00A0\u1680\u2000-\u200A\u2028\u2029\u202F\u205F\u3000]";

/// Text of a line, trimmed, of so many characters at most.
fn line(most: usize, example: &str) -> Value {
    let pattern = format!("^{WHITE}{INK}({PLAIN}{{0,{}}}{INK})?{WHITE}$", most - 2);
    json!({ "type": "string", "minLength": 1, "pattern": pattern, "examples": [example],
        "description": format!("1 to {most} characters, trimmed; no control characters."),
    })
}

/// A place in a list that an earlier answer gave; of another list it is refused.
fn cursor(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern, "description": "`meta.next_cursor` of the page before." })
}

fn username() -> Value {
    json!({
        "type": "string", "pattern": format!("^{WHITE}[A-Za-z0-9_.]{{3,30}}{WHITE}$"), "examples": ["alice"],
        "description": "Letters a to z, digits, `_` and `.`, 3 to 30 of them, kept in lower case. Some names are reserved.",
    })
}

/// A number or an id. One that no row can have is taken, and is nobody's.
fn number() -> Value {
    json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX })
}

fn rows(default: usize) -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": 100, "default": default })
}

macro_rules! takes {
    ($($kind:ty => $schema:expr),* $(,)?) => {
        $(impl Takes for $kind {
            fn takes() -> Value {
                $schema
            }
        })*
    };
}

const COUNT: &str = "(0|[1-9][0-9]{0,9})";

takes! {
    bool => json!({ "type": "boolean" }),
    Number => number(),
    UserId => number(),
    PerPage => rows(PerPage::default().0),
    PageSize => rows(20),
    PageNumber => json!({ "type": "integer", "minimum": 1, "maximum": i64::MAX, "default": 1 }),
    SearchText => line(100, "rovers"),
    Name => line(100, "Ada Lovelace"),
    RoomName => line(100, "North Stand"),
    Topic => json!({
        "type": "string", "pattern": format!("^{WHITE}({INK}({PLAIN}{{0,498}}{INK})?)?{WHITE}$"),
        "examples": ["Set pieces"],
    }),
    Base => {
        let mut schema = line(100, "José García");
        schema["description"] = "Whatever a person typed; it needs a letter or a digit of any script.".into();
        schema
    },
    Phone => json!({
        "type": "string", "maxLength": Phone::MAX_LENGTH, "pattern": Phone::PATTERN, "examples": ["+447700900123"],
        "description": "A phone number with its country code. Spaces, dashes and brackets are stripped. So is a `(0)` after the country code.",
    }),
    OneTimeCode => json!({
        "type": "string", "pattern": format!("^{WHITE}[0-9]{{6}}{WHITE}$"), "examples": ["123456"],
    }),
    Username => username(),
    ChosenUsername => username(),
    Email => json!({ "type": "string", "format": "idn-email", "maxLength": 254, "examples": ["ada@example.org"] }),
    BirthDate => json!({
        "type": "string", "format": "date", "examples": ["1990-05-17"],
        "description": "1900-01-01 or later, and at least 13 years ago.",
    }),
    chrono::NaiveDate => json!({ "type": "string", "format": "date" }),
    ShownStatus => json!({ "type": "string", "enum": ["live", "scheduled", "finished"] }),
    SmsStatus => json!({ "type": "string", "enum": ["sent", "failed"] }),
    Pick => json!({ "type": "string", "enum": ["home", "draw", "away"] }),
    Confidence => json!({
        "type": "integer", "minimum": 0, "maximum": 100, "default": Confidence::default().percent(),
    }),
    Score => {
        let goals = json!({ "type": "integer", "minimum": 0, "maximum": Forecast::MOST_GOALS });
        json!({
            "type": "object", "properties": { "home": goals, "away": goals }, "required": ["home", "away"],
            "description": "It has to agree with `prediction`.",
        })
    },
    TeamIds => json!({ "type": "array", "items": number(), "maxItems": 5, "uniqueItems": true }),
    Amount => json!({ "type": "integer", "minimum": 1, "maximum": Amount::MOST }),
    ReasonWord => json!({
        "type": "string", "examples": ["purchase", "wager", "gift", "other"],
        "description": "One of the words that the operator has set (`CoinReasons`): these, unless changed.",
    }),
    ReferenceId => json!({
        "type": "string", "pattern": format!("^{PLAIN}{{1,64}}$"), "examples": ["order-1"],
        "description": "The caller's own name for the movement: the same again is the same movement.",
    }),
    Events => json!({ "type": "array", "items": {}, "description": "Matrix events." }),
    EventCursor => cursor(&format!(r"^e{COUNT}\.{COUNT}$")),
    OwnCursor => cursor(&format!(r"^o{COUNT}\.[0-9]{{13}}-[0-9a-f]{{8}}$")),
    RoomCursor => cursor(&format!(r"^r[0-9a-f]{{8}}\.{COUNT}$")),
    CoinsCursor => cursor(&format!(r"^c{COUNT}\.{COUNT}$")),
    RoomsCursor => cursor("^[od]([0-9a-f]{2})+$"),
    Position => cursor(r"^[0-9]{16}\.[A-Za-z0-9.-]{1,47}$"),
}

/// Texts of a form of their own, as they are shown.
macro_rules! shows {
    ($($kind:ident => $schema:tt),* $(,)?) => {
        $(impl JsonSchema for $kind {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        })*
    };
}

shows! {
    UserId => { "type": "integer", "format": "int64", "minimum": 1 },
    Phone => { "type": "string", "pattern": (Phone::CANONICAL_PATTERN) },
    Username => { "type": "string", "pattern": "^[a-z0-9_.]{3,30}$" },
    Name => { "type": "string" },
    Email => { "type": "string", "format": "idn-email" },
    RoomId => { "type": "string", "pattern": "^!" },
    ReferenceId => { "type": "string" },
    Timestamp => { "type": "string", "format": "date-time", "pattern": "Z$" },
}
