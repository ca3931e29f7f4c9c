//! Recorded requests and responses.

use std::collections::BTreeMap;

use serde_json::Value;

/// Requests and responses that become the examples of the document. An endpoint is `<method> <path>`.
#[derive(Debug, Default, Clone)]
pub struct Recorded {
    /// By endpoint.
    pub requests: BTreeMap<String, Value>,
    /// By endpoint and status.
    pub responses: BTreeMap<(String, u16), Value>,
}
