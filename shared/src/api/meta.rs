//! The endpoints for the service's health and for the OpenAPI document.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Anyone, Data, NoInput, endpoint};

endpoint! {
    /// Check the service's health
    ///
    /// Responds with 200 if the service can read its database.
    Health: GET "/api/health", in "meta", by Anyone, NoInput => Data<Healthy>
}

endpoint! {
    /// Read this OpenAPI document
    ///
    /// The document that describes the API.
    Description: GET "/api/openapi.json", in "meta", by Anyone, NoInput => Document, with etag
}

endpoint! {
    /// Open the page for deleting an account
    ///
    /// A page for people who no longer have the app. It asks for the phone number and a code.
    DeletionPage: GET "/account/delete", in "meta", by Anyone, NoInput => Html, as "text/html; charset=utf-8"
}

/// A page, sent unchanged.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Html(pub &'static str);

/// A JSON document, sent unchanged.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Document(pub &'static RawValue);

#[cfg(feature = "openapi")]
impl schemars::JsonSchema for Document {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Document".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "properties": {
                "openapi": { "type": "string", "description": "The version of the OpenAPI format." },
                "info": { "type": "object", "description": "The title and version of the API." },
                "paths": { "type": "object", "description": "The operations by path and method." },
            },
            "required": ["openapi", "info", "paths"],
        })
    }
}

/// The state of a healthy service.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Healthy {
    /// Always `ok`.
    pub status: &'static str,
    /// The version of the service.
    pub version: &'static str,
}
