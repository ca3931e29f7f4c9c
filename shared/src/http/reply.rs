//! What a handler returns if the request succeeds.

use lambda_http::http::StatusCode;

/// A successful response: the status, the body and further headers.
#[derive(Debug)]
pub struct Reply<T> {
    pub status: StatusCode,
    pub body: T,
    pub(super) headers: Vec<(&'static str, &'static str)>,
}

impl<T> Reply<T> {
    #[must_use]
    pub fn new(status: StatusCode, body: T) -> Self {
        Self { status, body, headers: Vec::new() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds a header that marks the body as the result of an earlier identical request.
    #[must_use]
    pub fn replayed(self) -> Self {
        self.header("idempotency-replayed", "true")
    }
}

impl<T> From<T> for Reply<T> {
    fn from(body: T) -> Self {
        Self::new(StatusCode::OK, body)
    }
}
