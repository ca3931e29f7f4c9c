use serde::Serialize;

use crate::document::Rejected;

/// The result of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub created: usize,
    pub updated: usize,
    pub unchanged: usize,
    pub rejected: usize,
    /// The first hundred rejected rows.
    pub reasons: Vec<Rejected>,
}
