//! The service about itself.

use serde::Serialize;
use serde_json::value::RawValue;

use super::{Data, Nothing, endpoint};
use crate::http::Anyone;

endpoint! {
    /// Whether the service and its store answer.
    Health: GET "/api/health", in "meta", by Anyone, Nothing => Data<Healthy>
}

endpoint! {
    /// This description.
    Description: GET "/api/openapi.json", in "meta", by Anyone, Nothing => Document
}

/// A JSON document as it is.
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
                "openapi": { "type": "string" }, "info": { "type": "object" }, "paths": { "type": "object" },
            },
            "required": ["openapi", "info", "paths"],
        })
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Healthy {
    pub status: &'static str,
    pub version: &'static str,
}
