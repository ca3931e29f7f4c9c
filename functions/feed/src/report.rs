use serde::Serialize;

use crate::document::Rejected;

/// The result of an import. The first four fields are numbers of rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub created: usize,
    pub updated: usize,
    pub unchanged: usize,
    pub rejected: usize,
    /// The first 100 rejected rows, each with the reason.
    pub reasons: Vec<Rejected>,
}
