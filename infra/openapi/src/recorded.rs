//! Requests and responses that the tests recorded.

use std::collections::BTreeMap;

use serde_json::Value;

/// Requests and responses that become the examples of the OpenAPI document. The keys name an endpoint
/// as `<method> <path>`.
#[derive(Debug, Default, Clone)]
pub struct Recorded {
    /// The request bodies by endpoint.
    pub requests: BTreeMap<String, Value>,
    /// The response bodies by endpoint and status.
    pub responses: BTreeMap<(String, u16), Value>,
}
