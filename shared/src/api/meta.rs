//! The service about itself.

use serde::Serialize;

use super::{Data, Nothing, endpoint};
use crate::http::Anyone;

endpoint! {
    /// Whether the service and its store answer.
    Health: GET "/api/health", in "meta", by Anyone, Nothing => Data<Healthy>
}

#[derive(Debug, Clone, Serialize)]
pub struct Healthy {
    pub status: &'static str,
    pub version: &'static str,
}
