//! Parsing one value of a request. Every type that a request can carry implements [`Field`].

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

/// Why a value is invalid: a full sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(Text);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Text {
    Sentence(Cow<'static, str>),
    /// The end of a sentence that starts with "The field <name>".
    AboutField(&'static str),
}

impl Reason {
    const REQUIRED: Self = Self(Text::AboutField("is required."));

    /// Creates a reason whose sentence names the field. For mistakes of the client program, such as a wrong
    /// type.
    const fn about_field(rest: &'static str) -> Self {
        Self(Text::AboutField(rest))
    }

    /// Returns the full sentence about the field named `field`.
    #[must_use]
    pub fn sentence(&self, field: &str) -> String {
        match &self.0 {
            Text::Sentence(sentence) => sentence.clone().into_owned(),
            Text::AboutField(rest) => format!("The field {field} {rest}"),
        }
    }
}

impl From<&'static str> for Reason {
    fn from(sentence: &'static str) -> Self {
        Self(Text::Sentence(Cow::Borrowed(sentence)))
    }
}

impl From<String> for Reason {
    fn from(sentence: String) -> Self {
        Self(Text::Sentence(Cow::Owned(sentence)))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Text::Sentence(sentence) => f.write_str(sentence),
            Text::AboutField(rest) => write!(f, "The field {rest}"),
        }
    }
}

/// A value before it is parsed. JSON has types; a query string has only text.
#[derive(Debug, Clone, Copy)]
pub enum Raw<'a> {
    Json(&'a Value),
    Text(&'a str),
}

impl<'a> Raw<'a> {
    pub fn text(self) -> Result<&'a str, Reason> {
        match self {
            Self::Text(text) => Ok(text),
            Self::Json(Value::String(text)) => Ok(text),
            Self::Json(_) => Err(Reason::about_field("must be a string.")),
        }
    }

    pub fn integer(self) -> Result<i64, Reason> {
        match self {
            Self::Text(text) => text.parse().ok(),
            // Some clients write the integer 32 as 32.0. In JSON, both are the same number.
            Self::Json(value) => value.as_i64().or_else(|| whole(value.as_f64()?)),
        }
        .ok_or(Reason::about_field("must be an integer."))
    }

    pub fn boolean(self) -> Result<bool, Reason> {
        match self {
            Self::Text("true") => Some(true),
            Self::Text("false") => Some(false),
            Self::Text(_) => None,
            Self::Json(value) => value.as_bool(),
        }
        .ok_or(Reason::about_field("must be true or false."))
    }

    /// Reads an id. An id above `u32::MAX` is accepted and matches no row.
    pub fn id(self) -> Result<u32, Reason> {
        match self.integer()? {
            ..0 => Err(Reason::about_field("must not be negative.")),
            id => Ok(u32::try_from(id).unwrap_or(u32::MAX)),
        }
    }

    pub fn array(self) -> Result<&'a [Value], Reason> {
        match self {
            Self::Json(Value::Array(values)) => Ok(values),
            _ => Err(Reason::about_field("must be an array.")),
        }
    }

    pub fn object(self) -> Result<&'a serde_json::Map<String, Value>, Reason> {
        match self {
            Self::Json(Value::Object(members)) => Ok(members),
            _ => Err(Reason::about_field("must be an object.")),
        }
    }
}

/// Converts a float to an integer. Returns `None` if the float has a fraction, or is so large that it may
/// have been rounded.
fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    #[expect(clippy::cast_possible_truncation, reason = "the number is whole and in range")]
    (number.fract() == 0.0 && number.abs() < EXACT).then_some(number as i64)
}

/// A type that parses itself from one field of a request.
pub trait Field: Sized {
    fn read(raw: Raw<'_>) -> Result<Self, Reason>;

    /// Returns the value of a missing field or of `null`. The default implementation returns an error: the
    /// field is required.
    fn absent() -> Result<Self, Reason> {
        Err(Reason::REQUIRED)
    }

    /// Returns the JSON Schema of the values that [`Field::read`] accepts.
    #[cfg(feature = "openapi")]
    fn schema() -> Value;
}

impl<T: Field> Field for Option<T> {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        T::read(raw).map(Some)
    }

    fn absent() -> Result<Self, Reason> {
        Ok(None)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> Value {
        T::schema()
    }
}

impl Field for bool {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        raw.boolean()
    }

    #[cfg(feature = "openapi")]
    fn schema() -> Value {
        serde_json::json!({ "type": "boolean" })
    }
}

/// The id of a team, tournament, sport or match in a body or a query. An id above `u32::MAX` is accepted and
/// matches no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Id(pub u32);

impl Field for Id {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        raw.id().map(Self)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> Value {
        serde_json::json!({ "type": "integer", "format": "int64", "minimum": 0, "maximum": i64::MAX })
    }
}

/// Implements `schemars::JsonSchema` for a type that is a plain string or number in responses.
#[cfg(feature = "openapi")]
macro_rules! response_schema {
    ($kind:ident, $schema:tt) => {
        impl schemars::JsonSchema for $kind {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    };
}
#[cfg(feature = "openapi")]
pub(crate) use response_schema;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_integers_can_be_written_with_a_zero_fraction() {
        let read = |value: Value| Raw::Json(&value).integer().ok();
        assert_eq!((read(json!(32)), read(json!(32.0)), read(json!(-0.0))), (Some(32), Some(32), Some(0)));
        for value in [json!(32.5), json!(1e300), json!("32"), json!(null), json!(u64::MAX)] {
            assert_eq!(read(value.clone()), None, "{value}");
        }
    }

    #[test]
    fn a_wrong_type_is_reported_with_the_name_of_the_field() {
        let reason = Raw::Json(&json!(7)).text().unwrap_err();
        assert_eq!(reason.sentence("phone"), "The field phone must be a string.");
        assert_eq!(Reason::from("Choose one.").sentence("pick"), "Choose one.");
    }

    #[test]
    fn ids_above_u32_max_become_u32_max_and_negative_ids_are_rejected() {
        assert_eq!(Raw::Text("99999999999").id(), Ok(u32::MAX));
        assert!(Raw::Text("-1").id().is_err());
    }
}
