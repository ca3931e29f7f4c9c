//! Who may call an endpoint.

use crate::domain::{Token, UserId};

/// The kind of caller that an endpoint declares. The router identifies the caller before the handler runs.
pub trait Caller: Sized + Send {
    /// Whether a user's token is needed.
    const NEEDS_TOKEN: bool;
    /// The format of error responses.
    const ERROR_FORMAT: ErrorFormat = ErrorFormat::Touchline;
    /// The largest body in bytes: ample for any request of the app.
    const MAX_BODY: usize = 64 * 1024;
}

/// The format of error responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorFormat {
    Touchline,
    /// As the Matrix specification defines it.
    Matrix,
}

/// Needs no token. A token that is sent is ignored.
#[derive(Debug, Clone, Copy)]
pub struct Anyone;

impl Caller for Anyone {
    const NEEDS_TOKEN: bool = false;
}

/// A user with a valid session.
#[derive(Debug, Clone)]
pub struct SignedIn {
    pub user: UserId,
    pub token: Token,
    pub device_id: String,
}

impl Caller for SignedIn {
    const NEEDS_TOKEN: bool = true;
}

/// The Matrix homeserver, which pushes room events.
#[derive(Debug, Clone, Copy)]
pub struct Homeserver;

impl Caller for Homeserver {
    const NEEDS_TOKEN: bool = false;
    const ERROR_FORMAT: ErrorFormat = ErrorFormat::Matrix;
    // A transaction holds up to a hundred events. Lambda's own limit is 6 MB.
    const MAX_BODY: usize = 6 * 1024 * 1024;
}
