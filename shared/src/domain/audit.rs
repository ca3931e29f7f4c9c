//! The record of what operators do.

use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

/// An action of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Identifies the invocation.
    pub id: String,
    #[serde(with = "ts_milliseconds")]
    pub at: DateTime<Utc>,
    /// What the operator did, for example `suspend`.
    pub action: String,
    /// To whom or what, for example `user 7`.
    pub subject: String,
    /// Who the operator is, as they say themselves.
    pub operator: String,
    pub reason: String,
}
