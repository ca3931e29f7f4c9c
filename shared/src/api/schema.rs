//! Endpoints with their JSON Schemas, for the OpenAPI document. Lambda binaries do not contain this.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use super::{Caller as _, Endpoint, ErrorFormat, Input as _, Route};
use crate::domain::Field;

/// An endpoint with everything that the OpenAPI document contains about it.
#[derive(Debug)]
pub struct Operation {
    /// The name of the endpoint's type.
    pub name: &'static str,
    pub route: Route,
    pub error_format: ErrorFormat,
    /// The schemas of the path's parameters, in the order of the path.
    pub path: Vec<Value>,
    pub fields: Vec<InputField>,
    pub output: Schema,
}

impl Operation {
    #[must_use]
    pub fn of<E: Endpoint<Output: JsonSchema>>(generator: &mut SchemaGenerator) -> Self {
        Self {
            name: std::any::type_name::<E>().rsplit("::").next().unwrap_or_default(),
            route: Route::of::<E>(),
            error_format: E::Caller::ERROR_FORMAT,
            path: E::path_schemas(),
            fields: E::Input::fields(),
            output: generator.subschema_for::<E::Output>(),
        }
    }
}

/// A field of a body, or a parameter of a query.
#[derive(Debug, Clone)]
pub struct InputField {
    pub name: &'static str,
    pub description: &'static str,
    pub is_required: bool,
    pub schema: Value,
}

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

#[cfg(test)]
mod tests;
