//! HTTP in and out: which handler, who calls, what they sent, what they get.

mod caller;
mod error;
mod request;
mod router;

use lambda_http::http::StatusCode;

pub use caller::{Anyone, Caller, Dialect, Homeserver, SignedIn};
pub use error::Error;
#[cfg(feature = "openapi")]
pub use error::{Example, examples};
pub use router::{Answered, Call, Router};

/// A success: the body, and its status.
#[derive(Debug)]
pub struct Reply<T> {
    pub status: StatusCode,
    pub body: T,
    headers: Vec<(&'static str, &'static str)>,
}

impl<T> Reply<T> {
    #[must_use]
    pub fn new(status: StatusCode, body: T) -> Self {
        Self { status, body, headers: Vec::new() }
    }

    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }
}

impl<T> From<T> for Reply<T> {
    fn from(body: T) -> Self {
        Self::new(StatusCode::OK, body)
    }
}
