//! Parses the body fields or query parameters of a request into typed values, and reports every invalid
//! field.

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::domain::{Field, Raw, Reason};

/// The invalid fields of a request, each with a sentence for the user. A 422 response lists them as
/// `errors`.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
#[error("{} invalid field(s)", fields.len())]
pub struct Invalid {
    fields: Vec<(String, String)>,
}

impl Invalid {
    /// Reports one invalid field.
    #[must_use]
    pub fn field(name: &str, reason: impl Into<Reason>) -> Self {
        let mut invalid = Self::default();
        invalid.add(name, &reason.into());
        invalid
    }

    fn add(&mut self, name: &str, reason: &Reason) {
        self.fields.push((name.to_owned(), reason.sentence(name)));
    }

    /// Returns the sentence of the first invalid field, in the order in which the endpoint declares its
    /// fields.
    #[must_use]
    pub fn first_sentence(&self) -> &str {
        self.fields.first().map_or("The request is invalid.", |(_, sentence)| sentence)
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Lists the names of the invalid fields.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }
}

impl Serialize for Invalid {
    /// Writes an object with a key for each invalid field. The value is a list with the field's sentence.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.fields.iter().map(|(name, sentence)| (name, [sentence])))
    }
}

/// The input of an endpoint: body fields or query parameters. The macro `input!` declares inputs.
pub trait Input: Sized + Send {
    /// The names of the input's fields.
    const NAMES: &'static [&'static str];

    /// Returns the input's fields with their JSON Schemas.
    #[cfg(feature = "openapi")]
    fn fields() -> Vec<InputField>;

    /// Reads every field. If a field is invalid, records the reason in `fields` and returns `None`.
    fn read(fields: &mut Fields<'_>) -> Option<Self>;
}

/// A body field or query parameter, for the OpenAPI document.
#[cfg(feature = "openapi")]
#[derive(Debug, Clone)]
pub struct InputField {
    pub name: &'static str,
    pub description: &'static str,
    pub is_required: bool,
    pub schema: Value,
}

#[cfg(feature = "openapi")]
impl InputField {
    #[must_use]
    pub fn of<T: Field>(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            description: description.trim_ascii(),
            is_required: T::absent().is_err(),
            schema: T::schema(),
        }
    }
}

/// The input of an endpoint that has no fields.
#[derive(Debug, Clone, Copy)]
pub struct NoInput;

impl Input for NoInput {
    const NAMES: &'static [&'static str] = &[];

    #[cfg(feature = "openapi")]
    fn fields() -> Vec<InputField> {
        Vec::new()
    }

    fn read(_: &mut Fields<'_>) -> Option<Self> {
        Some(Self)
    }
}

/// Declares a struct that implements [`Input`]. Each of its fields is parsed from the request's field with the
/// same name.
macro_rules! input {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])* $field:ident: $kind:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $kind),*
        }

        impl $crate::api::Input for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            #[cfg(feature = "openapi")]
            fn fields() -> Vec<$crate::api::InputField> {
                vec![$($crate::api::InputField::of::<$kind>(stringify!($field), concat!($($doc),*))),*]
            }

            fn read(fields: &mut $crate::api::Fields<'_>) -> Option<Self> {
                // Reads all fields before it returns, so that the response reports every invalid field.
                $(let $field = fields.read::<$kind>(stringify!($field));)*
                Some(Self { $($field: $field?),* })
            }
        }
    };
}
pub(crate) use input;

/// The unparsed fields of a request, and the invalid fields found so far.
#[derive(Debug)]
pub struct Fields<'a> {
    values: std::collections::BTreeMap<&'a str, Raw<'a>>,
    invalid: Invalid,
}

impl<'a> Fields<'a> {
    /// Parses all fields of an input. The error lists every invalid field.
    pub fn parse<I: Input>(mut self) -> Result<I, Invalid> {
        match I::read(&mut self) {
            Some(input) if self.invalid.is_empty() => Ok(input),
            _ => Err(self.invalid),
        }
    }

    /// Takes the fields from a JSON body. A body that is not an object is invalid and has no fields.
    #[must_use]
    pub fn of_body(body: &'a Value) -> Self {
        match body {
            Value::Object(map) => Self {
                values: map.iter().map(|(name, value)| (name.as_str(), Raw::Json(value))).collect(),
                invalid: Invalid::default(),
            },
            _ => Self {
                values: std::collections::BTreeMap::new(),
                invalid: Invalid::field("body", "The body must be a JSON object."),
            },
        }
    }

    /// Takes the fields from a query string. Of several parameters with the same name, the last one counts.
    pub fn of_query(parameters: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        Self {
            values: parameters.map(|(name, value)| (name, Raw::Text(value))).collect(),
            invalid: Invalid::default(),
        }
    }

    /// Parses one field. If the field is invalid, returns `None` and records the reason.
    pub fn read<T: Field>(&mut self, name: &str) -> Option<T> {
        let result = match self.values.get(name) {
            None | Some(Raw::Json(Value::Null)) => T::absent(),
            Some(raw) => T::read(*raw),
        };
        result.map_err(|reason| self.invalid.add(name, &reason)).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{OneTimeCode, Phone, Username};

    input! {
        Sample { phone: Phone, code: OneTimeCode, username: Option<Username>, loud: Option<bool> }
    }

    fn errors(body: &Value) -> Value {
        json!(Fields::of_body(body).parse::<Sample>().unwrap_err())
    }

    #[test]
    fn every_invalid_field_is_reported_with_a_full_sentence() {
        let errors = errors(&json!({ "phone": 7, "username": "x", "loud": "yes" }));
        assert_eq!(
            errors,
            json!({
                "phone": ["The field phone must be a string."],
                "code": ["The field code is required."],
                "username": ["Use 3 to 30 characters for a username."],
                "loud": ["The field loud must be true or false."],
            })
        );
    }

    #[test]
    fn the_first_sentence_belongs_to_the_invalid_field_declared_first() {
        let invalid = Fields::of_body(&json!({ "code": "1", "phone": 7 })).parse::<Sample>().unwrap_err();
        assert_eq!(invalid.first_sentence(), "The field phone must be a string.");
    }

    #[test]
    fn unknown_fields_are_ignored_and_null_means_absent() {
        let body = json!({ "phone": "+447700900123", "code": "123456", "username": null, "extra": [] });
        let sample = Fields::of_body(&body).parse::<Sample>().unwrap();
        assert_eq!((sample.phone.as_str(), sample.code.as_str()), ("+447700900123", "123456"));
        assert_eq!((sample.username, sample.loud), (None, None));
    }

    #[test]
    fn a_body_that_is_not_an_object_is_invalid() {
        for body in [json!([]), json!("x"), json!(1), json!(null)] {
            let invalid = Fields::of_body(&body).parse::<Sample>().unwrap_err();
            assert_eq!(invalid.names().collect::<Vec<_>>(), ["body", "phone", "code"], "{body}");
        }
    }

    #[test]
    fn the_query_parameter_value_true_is_read_as_a_boolean() {
        let query = [("phone", "+447700900123"), ("code", "123456"), ("loud", "true")];
        assert_eq!(Fields::of_query(query.into_iter()).parse::<Sample>().unwrap().loud, Some(true));
    }
}
