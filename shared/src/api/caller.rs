//! Who can call an endpoint.

use super::ErrorCode;
use crate::domain::{Token, UserId};

/// The kind of caller that an endpoint accepts. The router identifies the caller before the handler runs.
pub trait Caller: Sized + Send {
    /// Whether the caller must send a user's token.
    const NEEDS_TOKEN: bool;
    /// The errors that can occur while the router identifies the caller.
    const ERRORS: &'static [ErrorCode];
    /// The format of error responses.
    const ERROR_FORMAT: ErrorFormat = ErrorFormat::Touchline;
    /// The maximum size of a request body in bytes. The default is far more than a client needs.
    const MAX_BODY: usize = 64 * 1024;

    /// Returns the id of the caller if the caller is a user.
    fn user_id(&self) -> Option<UserId> {
        None
    }
}

/// The format of error responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorFormat {
    /// `message` and `code`, with further fields for some codes.
    Touchline,
    /// `errcode` and `error`, as the Matrix specification defines them.
    Matrix,
}

/// Any caller. A token in the request is ignored.
#[derive(Debug, Clone, Copy)]
pub struct Anyone;

impl Caller for Anyone {
    const NEEDS_TOKEN: bool = false;
    const ERRORS: &'static [ErrorCode] = &[];
}

/// A developer, who reads the codes that were sent. In staging, which is on the internet, a developer sends a secret. A local
/// stack and tests need none.
#[derive(Debug, Clone, Copy)]
pub struct Developer;

/// The header in which a developer sends the secret.
pub const LOG_SECRET_HEADER: &str = "x-touchline-log-secret";

impl Caller for Developer {
    const NEEDS_TOKEN: bool = false;
    const ERRORS: &'static [ErrorCode] = &[];
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
    const ERRORS: &'static [ErrorCode] =
        &[ErrorCode::TokenMissing, ErrorCode::TokenInvalid, ErrorCode::TokenExpired];

    fn user_id(&self) -> Option<UserId> {
        Some(self.user)
    }
}

/// The Matrix homeserver, which pushes room events.
#[derive(Debug, Clone, Copy)]
pub struct Homeserver;

impl Caller for Homeserver {
    const NEEDS_TOKEN: bool = false;
    const ERRORS: &'static [ErrorCode] = &[ErrorCode::TokenMissing, ErrorCode::NotTheHomeserver];
    const ERROR_FORMAT: ErrorFormat = ErrorFormat::Matrix;
    // The homeserver sends up to a hundred events in one request. 6 MB is the most that Lambda accepts.
    const MAX_BODY: usize = 6 * 1024 * 1024;
}
