//! From a request's fields to typed values, with every fault named.

use std::collections::BTreeMap;

use serde_json::Value;

use super::chat::RoomsCursor;
use super::coins::{CoinsCursor, ReasonWord};
use super::homeserver::Events;
use super::predictions::{EventCursor, OwnCursor, RoomCursor};
use super::{Number, PageNumber, PageSize, PerPage, SearchText, TeamIds};
use crate::domain::catalog::Score;
use crate::domain::coins::{Amount, ReferenceId};
use crate::domain::prediction::{Confidence, Forecast};
use crate::domain::room::{RoomName, Topic};
use crate::domain::username::{Base, ChosenUsername};
use crate::domain::{
    BirthDate, Email, Name, OneTimeCode, Phone, Pick, Reason, UserId, Username, line, sms, time,
};

/// Faults by field: the `errors` of a 422.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
#[error("{} invalid field(s)", errors.len())]
pub struct Invalid {
    pub errors: BTreeMap<String, Vec<String>>,
}

impl Invalid {
    #[must_use]
    pub fn field(name: &str, reason: impl Into<Reason>) -> Self {
        let mut invalid = Self::default();
        invalid.add(name, &reason.into());
        invalid
    }

    fn add(&mut self, name: &str, reason: &Reason) {
        self.errors.entry(name.to_owned()).or_default().push(reason.to_string());
    }
}

/// A value as it arrived: JSON knows types, a query string does not.
#[derive(Debug, Clone, Copy)]
pub enum Raw<'a> {
    Json(&'a Value),
    Text(&'a str),
}

impl<'a> Raw<'a> {
    fn text(self) -> Result<&'a str, Reason> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Json(Value::String(text)) => Ok(text),
            Self::Json(_) => Err("must be a string".into()),
        }
    }

    fn integer(self) -> Result<i64, Reason> {
        match self {
            Self::Text(text) => text.parse().ok(),
            // Some clients write whole numbers as 32.0, and JSON knows no difference.
            Self::Json(value) => value.as_i64().or_else(|| whole(value.as_f64()?)),
        }
        .ok_or_else(|| "must be an integer".into())
    }

    fn boolean(self) -> Result<bool, Reason> {
        match self {
            Self::Text("true") => Some(true),
            Self::Text("false") => Some(false),
            Self::Text(_) => None,
            Self::Json(value) => value.as_bool(),
        }
        .ok_or_else(|| "must be true or false".into())
    }
}

/// A number without a fraction, as far as such a one holds every integer.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "it is whole, and within range")]
    (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64)
}

/// A type that reads itself from one field.
pub trait Field: Sized {
    fn read(raw: Raw<'_>) -> Result<Self, Reason>;

    /// What a missing field (or `null`) means.
    fn absent() -> Result<Self, Reason> {
        Err("is required".into())
    }
}

impl<T: Field> Field for Option<T> {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        T::read(raw).map(Some)
    }

    fn absent() -> Result<Self, Reason> {
        Ok(None)
    }
}

impl Field for bool {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        raw.boolean()
    }
}

impl Field for PerPage {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        let rows = raw.integer()?;
        usize::try_from(rows)
            .ok()
            .filter(|rows| (1..=100).contains(rows))
            .map(Self)
            .ok_or_else(|| "must be 1 to 100".into())
    }

    fn absent() -> Result<Self, Reason> {
        Ok(Self::default())
    }
}

impl Field for Phone {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match raw {
            Raw::Text(text) => Self::parse_query(text),
            Raw::Json(_) => Self::parse(raw.text()?),
        }
    }
}

impl Field for Number {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        // An id that no row can have is as good as any other that none has.
        let number = raw.integer()?;
        if number < 0 {
            Err("must not be negative".into())
        } else {
            Ok(Self(u32::try_from(number).unwrap_or(u32::MAX)))
        }
    }
}

impl Field for PageNumber {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match usize::try_from(raw.integer()?) {
            Ok(page) if page >= 1 => Ok(Self(page)),
            _ => Err("must be 1 or more".into()),
        }
    }

    fn absent() -> Result<Self, Reason> {
        Ok(Self(1))
    }
}

impl Field for PageSize {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        PerPage::read(raw).map(|rows| Self(rows.0))
    }

    fn absent() -> Result<Self, Reason> {
        Ok(Self(20))
    }
}

impl Field for SearchText {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        line(raw.text()?, 100).map(Self)
    }
}

impl Field for TeamIds {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        let Raw::Json(Value::Array(values)) = raw else { return Err("must be a list of team ids".into()) };
        if values.len() > 5 {
            return Err("must hold at most 5 teams".into());
        }
        let mut ids = Vec::with_capacity(values.len());
        for value in values {
            let Number(id) =
                Number::read(Raw::Json(value)).map_err(|_| Reason::from("must hold integers alone"))?;
            if ids.contains(&id) {
                return Err(format!("holds {id} twice").into());
            }
            ids.push(id);
        }
        Ok(Self(ids))
    }
}

impl Field for UserId {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Number::read(raw).map(|id| Self(id.0))
    }
}

impl Field for Amount {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::new(raw.integer()?)
    }
}

impl Field for ReasonWord {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Ok(Self(raw.text()?.to_owned()))
    }
}

impl Field for Confidence {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::new(raw.integer()?)
    }

    fn absent() -> Result<Self, Reason> {
        Ok(Self::default())
    }
}

impl Field for Score {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        let Raw::Json(Value::Object(sides)) = raw else {
            return Err("must be an object with home and away".into());
        };
        let side = |name: &str| {
            let goals = sides.get(name).ok_or_else(|| Reason::from(format!("lacks {name}")))?;
            let goals = Raw::Json(goals).integer().map_err(|_| format!("has a {name} that is no integer"))?;
            u16::try_from(goals).ok().filter(|goals| *goals <= Forecast::MOST_GOALS).ok_or_else(|| {
                Reason::from(format!("has a {name} that is not from 0 to {}", Forecast::MOST_GOALS))
            })
        };
        Ok(Self { home: side("home")?, away: side("away")? })
    }
}

impl Field for Events {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match raw {
            Raw::Json(Value::Array(events)) => Ok(Self(events.clone())),
            _ => Err("must be a list".into()),
        }
    }
}

/// Types whose only constructor is `parse(&str)`.
macro_rules! parsed_from_text {
    ($($kind:ty => $parse:path),* $(,)?) => {
        $(impl Field for $kind {
            fn read(raw: Raw<'_>) -> Result<Self, Reason> {
                $parse(raw.text()?)
            }
        })*
    };
}

parsed_from_text! {
    Base => Base::parse,
    BirthDate => BirthDate::parse,
    ChosenUsername => ChosenUsername::parse,
    Email => Email::parse,
    Name => Name::parse,
    OneTimeCode => OneTimeCode::parse,
    Username => Username::parse,
    chrono::NaiveDate => time::parse_date,
    sms::SmsStatus => sms::SmsStatus::parse,
    crate::domain::catalog::ShownStatus => crate::domain::catalog::ShownStatus::parse,
    sms::Position => sms::Position::parse,
    Pick => Pick::parse,
    EventCursor => EventCursor::parse,
    OwnCursor => OwnCursor::parse,
    RoomCursor => RoomCursor::parse,
    RoomName => RoomName::parse,
    RoomsCursor => RoomsCursor::parse,
    Topic => Topic::parse,
    CoinsCursor => CoinsCursor::parse,
    ReferenceId => ReferenceId::parse,
}

/// The input of one endpoint. Declared with `input!`.
pub trait Input: Sized + Send {
    /// The names of its fields.
    const NAMES: &'static [&'static str];

    #[cfg(feature = "openapi")]
    fn fields() -> Vec<super::schema::TakenField>;

    fn read(from: &mut Fields<'_>) -> Option<Self>;
}

/// For endpoints that take nothing.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

impl Input for Nothing {
    const NAMES: &'static [&'static str] = &[];

    #[cfg(feature = "openapi")]
    fn fields() -> Vec<super::schema::TakenField> {
        Vec::new()
    }

    fn read(_: &mut Fields<'_>) -> Option<Self> {
        Some(Self)
    }
}

/// The fields of a request while they are read, and the faults found so far.
#[derive(Debug)]
pub struct Fields<'a> {
    values: BTreeMap<&'a str, Raw<'a>>,
    faults: Invalid,
}

impl<'a> Fields<'a> {
    /// Reads a whole input, or says everything that is wrong with it.
    pub fn parse<I: Input>(mut self) -> Result<I, Invalid> {
        match I::read(&mut self) {
            Some(input) if self.faults.errors.is_empty() => Ok(input),
            _ => Err(self.faults),
        }
    }

    /// The fields of a JSON body. One that is no object has no fields, and says so.
    #[must_use]
    pub fn of_body(body: &'a Value) -> Self {
        match body {
            Value::Object(map) => Self {
                values: map.iter().map(|(name, value)| (name.as_str(), Raw::Json(value))).collect(),
                faults: Invalid::default(),
            },
            _ => Self { values: BTreeMap::new(), faults: Invalid::field("body", "must be a JSON object") },
        }
    }

    /// The parameters of a query string; of a repeated one, the last counts.
    pub fn of_query(parameters: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        Self {
            values: parameters.map(|(name, value)| (name, Raw::Text(value))).collect(),
            faults: Invalid::default(),
        }
    }

    /// One field, or `None` with its fault noted.
    pub fn take<T: Field>(&mut self, name: &str) -> Option<T> {
        let read = match self.values.get(name) {
            None | Some(Raw::Json(Value::Null)) => T::absent(),
            Some(raw) => T::read(*raw),
        };
        read.map_err(|reason| self.faults.add(name, &reason)).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    crate::api::input! {
        Sample { phone: Phone, code: OneTimeCode, username: Option<Username>, loud: Option<bool> }
    }

    fn faults(body: &Value) -> BTreeMap<String, Vec<String>> {
        Fields::of_body(body).parse::<Sample>().unwrap_err().errors
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let errors = faults(&json!({ "phone": 7, "username": "x", "loud": "yes" }));
        assert_eq!(errors.keys().collect::<Vec<_>>(), ["code", "loud", "phone", "username"]);
        assert_eq!(errors["code"], ["is required"]);
        assert_eq!(errors["phone"], ["must be a string"]);
    }

    #[test]
    fn whole_numbers_are_integers_however_they_are_written() {
        let read = |value: Value| Raw::Json(&value).integer().ok();
        assert_eq!((read(json!(32)), read(json!(32.0)), read(json!(-0.0))), (Some(32), Some(32), Some(0)));
        for value in [json!(32.5), json!(1e300), json!("32"), json!(null), json!(u64::MAX)] {
            assert_eq!(read(value.clone()), None, "{value}");
        }
    }

    #[test]
    fn null_means_absent_and_unknown_fields_are_passed_over() {
        let body = json!({ "phone": "+447700900123", "code": "123456", "username": null, "extra": [] });
        let sample = Fields::of_body(&body).parse::<Sample>().unwrap();
        assert_eq!((sample.phone.as_str(), sample.code.as_str()), ("+447700900123", "123456"));
        assert_eq!((sample.username, sample.loud), (None, None));
    }

    #[test]
    fn a_body_that_is_no_object_names_its_fields() {
        for body in [json!([]), json!("x"), json!(1), json!(null)] {
            assert_eq!(faults(&body).keys().collect::<Vec<_>>(), ["body", "code", "phone"], "{body}");
        }
    }

    #[test]
    fn a_query_carries_booleans_as_words() {
        let query = [("phone", "+447700900123"), ("code", "123456"), ("loud", "true")];
        assert_eq!(Fields::of_query(query.into_iter()).parse::<Sample>().unwrap().loud, Some(true));
    }
}
