//! HTTP: routes requests to handlers, identifies callers, parses input and writes responses.

mod caller;
mod compression;
mod edge;
mod error_messages;
mod etag;
mod negotiation;
mod reply;
mod request;
mod response;
mod router;

pub use caller::Identify;
pub use edge::{ORIGIN_SECRET_HEADER, VIEWER_ADDRESS_HEADER};
#[cfg(feature = "openapi")]
pub use error_messages::{Example, examples};
pub use reply::Reply;
#[cfg(feature = "openapi")]
pub use request::idempotency_key_schema;
pub use router::{Call, RequestReport, Router, log_user};
