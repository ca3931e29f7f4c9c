//! The reasons why a request fails. `http/error_messages.rs` maps each error to an HTTP response.

use chrono::{DateTime, Utc};

use crate::api::Invalid;
use crate::api::endpoint::{Resource, UnknownId};
use crate::domain::catalog::CatalogMissing;
use crate::domain::code::{VerificationError, WrongCode};
use crate::domain::coins::CoinError;
use crate::domain::limit::{DayLimitReached, Limited};
use crate::domain::prediction::PredictionsClosed;
use crate::domain::profile::RenameError;
use crate::domain::recovery::UndoError;
use crate::domain::session::Unauthenticated;
use crate::domain::sms_guard::{Refusal, Stopped};
use crate::ports::chat::ChatError;
use crate::ports::sms::SmsFailed;
use crate::storage::StoreError;
use crate::storage::users::{IssueError, RenameFailed, ReserveError, UndoFailed, UpdateError};
use crate::storage::wallets::AdmitError;

/// Why a request fails.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no endpoint has this path and method")]
    NotFound,
    #[error("no match has this id")]
    EventNotFound,
    #[error("no room has this id")]
    RoomNotFound,
    #[error("no user has this id or username")]
    UserNotFound,
    #[error("the caller has no active session with this id")]
    SessionNotFound,
    #[error(transparent)]
    UndoPhoneChange(#[from] UndoError),
    #[error("the change of the account's phone can be undone until {until}")]
    PhoneChangedRecently { until: DateTime<Utc> },
    #[error("no team has this id")]
    TeamNotFound,
    #[error("the caller is not a member of the room")]
    NotAMember,
    #[error("the user is already a member of the room")]
    AlreadyAMember,
    #[error("the idempotency key was used before for a different room")]
    KeyReused,
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error("the token is not the homeserver's")]
    NotTheHomeserver,
    #[error(transparent)]
    PredictionsClosed(#[from] PredictionsClosed),
    #[error("predictions for the match are paused")]
    PredictionsPaused,
    #[error(transparent)]
    Coins(#[from] CoinError),
    #[error(transparent)]
    CatalogMissing(#[from] CatalogMissing),
    #[error("the body is not valid JSON")]
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
    #[error("an operator has suspended the user")]
    Suspended,
    #[error(transparent)]
    Limited(#[from] Limited),
    #[error("another join of the user has just begun")]
    AnotherJoin,
    #[error("the user has joined {limit} rooms, the maximum")]
    TooManyRooms { limit: usize },
    #[error("the invited user has {limit} open invitations, the maximum")]
    TooManyInvitations { limit: usize },
    /// The invited user has blocked the caller. The response does not say so.
    #[error("the invited user does not accept invitations of the caller")]
    InvitationRejected,
    #[error("no valid invite link has this code")]
    InviteLinkNotFound,
    #[error("the caller has blocked the user who made the invite link")]
    InviterBlocked,
    #[error("the user has blocked {limit} users, the maximum")]
    TooManyBlocks { limit: usize },
    #[error(transparent)]
    DayLimitReached(#[from] DayLimitReached),
    #[error(transparent)]
    Verification(#[from] VerificationError),
    #[error(transparent)]
    Rename(#[from] RenameError),
    #[error("the SMS was not sent: {0}")]
    SmsFailed(#[from] SmsFailed),
    #[error(transparent)]
    SmsStopped(#[from] Stopped),
    #[error("the budget for text messages is used up")]
    SmsBudgetReached,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the request exceeded its time limit")]
    OutOfTime,
    /// A broken invariant: a bug, or data that another version of the service wrote.
    #[error("{0}")]
    Broken(&'static str),
}

impl From<UnknownId> for Error {
    fn from(unknown: UnknownId) -> Self {
        match unknown.0 {
            Resource::Event => Self::EventNotFound,
            Resource::Room => Self::RoomNotFound,
            Resource::Session => Self::SessionNotFound,
            Resource::User => Self::UserNotFound,
            Resource::InviteLink => Self::InviteLinkNotFound,
            Resource::Transaction => Self::NotFound,
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::BudgetReached => Self::SmsBudgetReached,
            Refusal::Stopped(stopped) => stopped.into(),
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

impl From<UndoFailed> for Error {
    fn from(error: UndoFailed) -> Self {
        match error {
            UndoFailed::Rejected(error) => error.into(),
            UndoFailed::Wrong(error) => error.into(),
            UndoFailed::Suspended => Self::Suspended,
            UndoFailed::Store(error) => error.into(),
        }
    }
}

impl From<UpdateError> for Error {
    fn from(error: UpdateError) -> Self {
        match error {
            UpdateError::BirthDate(error) => Invalid::field("date_of_birth", error).into(),
            UpdateError::Store(error) => error.into(),
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
