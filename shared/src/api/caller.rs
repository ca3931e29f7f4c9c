//! Who can call an endpoint.

use super::ErrorCode;
use crate::domain::{Token, UserId};

/// The kind of caller that an endpoint accepts. The router identifies the caller before the handler runs.
pub trait Caller: Sized + Send {
    /// Whether the caller must send a user's token.
    const NEEDS_TOKEN: bool;
    /// The errors of identifying the caller.
    const ERRORS: &'static [ErrorCode];
    /// The format of error responses.
    const ERROR_FORMAT: ErrorFormat = ErrorFormat::Touchline;
    /// The size limit of a body in bytes. The largest request of an app is far smaller than the default.
    const MAX_BODY: usize = 64 * 1024;
}

/// The format of error responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorFormat {
    /// `message` and `code`, with further fields for some codes.
    Touchline,
    /// `errcode` and `error`, as the Matrix specification defines them.
    Matrix,
}

/// Any caller. A token is ignored.
#[derive(Debug, Clone, Copy)]
pub struct Anyone;

impl Caller for Anyone {
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
}

/// The Matrix homeserver, which pushes room events.
#[derive(Debug, Clone, Copy)]
pub struct Homeserver;

impl Caller for Homeserver {
    const NEEDS_TOKEN: bool = false;
    const ERRORS: &'static [ErrorCode] = &[ErrorCode::TokenMissing, ErrorCode::NotTheHomeserver];
    const ERROR_FORMAT: ErrorFormat = ErrorFormat::Matrix;
    // A transaction has up to a hundred events. This is Lambda's own limit.
    const MAX_BODY: usize = 6 * 1024 * 1024;
}
