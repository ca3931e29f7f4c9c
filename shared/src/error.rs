//! What can keep a request from succeeding. Knows no HTTP: `http/problem.rs` maps it to responses.

use crate::api::Invalid;
use crate::api::endpoint::{Kind, UnknownId};
use crate::domain::catalog::CatalogMissing;
use crate::domain::code::{VerificationError, WrongCode};
use crate::domain::coins::CoinError;
use crate::domain::limit::Limited;
use crate::domain::prediction::Closed;
use crate::domain::profile::RenameError;
use crate::domain::session::Unauthenticated;
use crate::ports::chat::ChatError;
use crate::ports::sms::SmsFailed;
use crate::storage::StoreError;
use crate::storage::users::{IssueError, RenameFailed, ReserveError};
use crate::storage::wallets::AdmitError;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no such route")]
    NotFound,
    #[error("unknown match")]
    EventNotFound,
    #[error("unknown room")]
    RoomNotFound,
    #[error("unknown user")]
    UserNotFound,
    #[error("unknown team")]
    TeamNotFound,
    #[error("the caller is not a member of the room")]
    NotAMember,
    #[error("already a member of the room")]
    AlreadyAMember,
    #[error("the idempotency key belongs to another room")]
    KeyReused,
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error("not the homeserver's token")]
    NotTheHomeserver,
    #[error(transparent)]
    PredictionsClosed(#[from] Closed),
    #[error(transparent)]
    Coins(#[from] CoinError),
    #[error(transparent)]
    CatalogMissing(#[from] CatalogMissing),
    #[error("the body is not JSON")]
    MalformedJson,
    #[error("the body is larger than {limit} bytes")]
    BodyTooLarge { limit: usize },
    #[error("the content type is not JSON")]
    UnsupportedMediaType,
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error(transparent)]
    Unauthenticated(#[from] Unauthenticated),
    #[error(transparent)]
    WrongCode(#[from] WrongCode),
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error(transparent)]
    Verification(#[from] VerificationError),
    #[error(transparent)]
    Rename(#[from] RenameError),
    #[error("the message was not sent: {0}")]
    SmsFailed(#[from] SmsFailed),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the request took too long")]
    OutOfTime,
    /// A broken invariant: a bug, or data that another version wrote.
    #[error("{0}")]
    Broken(&'static str),
}

impl From<UnknownId> for Error {
    fn from(unknown: UnknownId) -> Self {
        match unknown.0 {
            Kind::Event => Self::EventNotFound,
            Kind::Room => Self::RoomNotFound,
            Kind::User => Self::UserNotFound,
            Kind::Transaction => Self::NotFound,
        }
    }
}

impl From<IssueError> for Error {
    fn from(error: IssueError) -> Self {
        match error {
            IssueError::Limited(error) => error.into(),
            IssueError::Verification(error) => error.into(),
            IssueError::Store(error) => error.into(),
        }
    }
}

impl From<AdmitError> for Error {
    fn from(error: AdmitError) -> Self {
        match error {
            AdmitError::Limited(error) => error.into(),
            AdmitError::Store(error) => error.into(),
        }
    }
}

impl From<ReserveError> for Error {
    fn from(error: ReserveError) -> Self {
        match error {
            ReserveError::Wrong(error) => error.into(),
            ReserveError::Verification(error) => error.into(),
            ReserveError::Store(error) => error.into(),
        }
    }
}

impl From<RenameFailed> for Error {
    fn from(error: RenameFailed) -> Self {
        match error {
            RenameFailed::Rejected(error) => error.into(),
            RenameFailed::Store(error) => error.into(),
        }
    }
}
