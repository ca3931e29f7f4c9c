//! HTTP: routes requests to handlers, identifies callers, parses input, writes responses.

mod caller;
mod problem;
mod reply;
mod request;
mod response;
mod router;

pub use caller::Identify;
#[cfg(feature = "openapi")]
pub use problem::{Example, examples};
pub use reply::Reply;
pub use router::{Call, RequestReport, Router};
