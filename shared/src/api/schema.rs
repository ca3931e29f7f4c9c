//! Endpoints with their JSON Schemas, for the OpenAPI document. Lambda binaries do not contain
//! this module.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::Value;

use super::{Caller as _, Endpoint, ErrorFormat, Input as _, InputField, Route};

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

#[cfg(test)]
mod tests;
