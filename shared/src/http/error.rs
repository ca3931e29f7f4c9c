//! The one mapping from what went wrong to what the caller is told.

#[cfg(feature = "openapi")]
use chrono::DateTime;
use chrono::TimeDelta;
use lambda_http::Body;
use lambda_http::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use lambda_http::http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use crate::api::Invalid;
use crate::domain::catalog::CatalogMissing;
use crate::domain::code::{VerificationError, WrongCode};
use crate::domain::coins::CoinError;
use crate::domain::limit::Limited;
use crate::domain::prediction::Closed;
use crate::domain::profile::RenameError;
use crate::domain::session::Unauthenticated;
use crate::ports::chat::ChatError;
use crate::ports::sms::SmsRefused;
use crate::storage::StoreError;
use crate::storage::users::{IssueError, RenameFailed, ReserveError};
use crate::storage::wallets::AdmitError;

/// Everything that can keep a request from succeeding.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no such route")]
    NotFound,
    #[error("no such match")]
    EventNotFound,
    #[error("no such room")]
    RoomNotFound,
    #[error("a private room that the caller is not in")]
    NotAMember,
    #[error("in the room already")]
    AlreadyAMember,
    #[error("no such user")]
    UserNotFound,
    #[error("a key that stands for another room")]
    KeyReused,
    #[error(transparent)]
    Chat(#[from] ChatError),
    #[error("not the homeserver's token")]
    NotTheHomeserver,
    #[error("no such team")]
    TeamNotFound,
    #[error(transparent)]
    PredictionsClosed(#[from] Closed),
    #[error(transparent)]
    Coins(#[from] CoinError),
    #[error(transparent)]
    CatalogMissing(#[from] CatalogMissing),
    #[error("the body is not JSON")]
    MalformedJson,
    #[error("the body is too large")]
    BodyTooLarge,
    #[error("the body is not said to be JSON")]
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
    SmsRefused(#[from] SmsRefused),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the request took too long")]
    OutOfTime,
    /// Something that cannot be, by our own rules.
    #[error("{0}")]
    Broken(&'static str),
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
            RenameFailed::Refused(error) => error.into(),
            RenameFailed::Store(error) => error.into(),
        }
    }
}

/// The body of every error.
#[derive(Debug, Serialize)]
struct Problem {
    message: String,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Invalid>,
}

impl Serialize for Invalid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.errors.serialize(serializer)
    }
}

/// How a caller hears of an error.
struct Told {
    status: StatusCode,
    code: &'static str,
    message: String,
    errors: Option<Invalid>,
    retry_after: Option<TimeDelta>,
}

fn told(status: StatusCode, code: &'static str, message: impl Into<String>) -> Told {
    Told { status, code, message: message.into(), errors: None, retry_after: None }
}

impl Told {
    fn at_field(self, field: &str) -> Self {
        let reason = self.message.clone();
        Self { errors: Some(Invalid::field(field, reason)), ..self }
    }

    fn after(self, wait: TimeDelta) -> Self {
        Self { retry_after: Some(wait), ..self }
    }
}

/// What to wait after a fault that passes by itself.
const SOON: TimeDelta = TimeDelta::seconds(1);

impl Error {
    fn tell(&self) -> Told {
        use StatusCode as S;
        match self {
            Self::NotFound => told(S::NOT_FOUND, "not_found", "There is nothing at this address."),
            Self::EventNotFound => told(S::NOT_FOUND, "event_not_found", "There is no such match."),
            Self::RoomNotFound => no_room(),
            Self::NotAMember => told(
                S::FORBIDDEN,
                "not_a_member",
                "This is for members of the room. Join it first; a private one is joined by invitation.",
            ),
            Self::AlreadyAMember => {
                told(S::CONFLICT, "already_a_member", "Already a member of this chat room.")
            }
            Self::UserNotFound => told(S::NOT_FOUND, "user_not_found", "There is no such user."),
            Self::KeyReused => told(
                S::UNPROCESSABLE_ENTITY,
                "reference_reused",
                "This key stands for another room, with another name, topic, match or privacy.",
            )
            .at_field("Idempotency-Key"),
            Self::Chat(error) => chat(error),
            Self::NotTheHomeserver => {
                told(S::FORBIDDEN, "not_the_homeserver", "The token is not the homeserver's.")
            }
            Self::TeamNotFound => told(S::NOT_FOUND, "team_not_found", "There is no such team."),
            Self::PredictionsClosed(Closed) => told(
                S::BAD_REQUEST,
                "event_started",
                "Predictions for this match are closed: it has started, is over or will not be played.",
            ),
            Self::Coins(error) => coins(*error),
            Self::CatalogMissing(CatalogMissing) => told(
                S::SERVICE_UNAVAILABLE,
                "no_catalogue",
                "Matches and teams have not been imported yet. Try again later.",
            )
            .after(TimeDelta::seconds(30)),
            Self::MalformedJson => told(S::BAD_REQUEST, "malformed_json", "The body is not valid JSON."),
            Self::BodyTooLarge => {
                told(S::PAYLOAD_TOO_LARGE, "body_too_large", "The body is larger than 64 KB.")
            }
            Self::UnsupportedMediaType => told(
                S::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "Send the body as JSON, with Content-Type: application/json.",
            ),
            Self::Invalid(invalid) => Told {
                errors: Some(invalid.clone()),
                ..told(S::UNPROCESSABLE_ENTITY, "validation_error", "Some fields are not valid; see errors.")
            },
            Self::Unauthenticated(Unauthenticated::Missing) => told(
                S::UNAUTHORIZED,
                "token_missing",
                "Log in, then send the token as Authorization: Bearer <token>.",
            ),
            Self::Unauthenticated(Unauthenticated::Unknown) => {
                told(S::UNAUTHORIZED, "token_invalid", "The token is not valid. Log in again.")
            }
            Self::Unauthenticated(Unauthenticated::Expired) => {
                told(S::UNAUTHORIZED, "token_expired", "The token has expired. Log in again.")
            }
            Self::WrongCode(WrongCode) => told(
                S::UNAUTHORIZED,
                "invalid_code",
                "The code is invalid or expired. Check it, or request a new one.",
            ),
            Self::Limited(limited) => told(
                S::TOO_MANY_REQUESTS,
                "rate_limited",
                format!("Too many requests. Try again in {}.", span(limited.retry_after)),
            )
            .after(limited.retry_after),
            Self::Verification(error) => verification(*error),
            Self::Rename(RenameError::Taken) => {
                told(S::UNPROCESSABLE_ENTITY, "username_taken", "This username is taken.")
                    .at_field("username")
            }
            Self::Rename(RenameError::Locked) => told(
                S::CONFLICT,
                "username_locked",
                "The username can no longer be changed: it is your name in chat rooms, or was changed ten times.",
            ),
            Self::SmsRefused(_) => told(
                S::SERVICE_UNAVAILABLE,
                "sms_unavailable",
                "The code could not be sent. Try again in a moment.",
            )
            .after(SOON),
            Self::Store(StoreError::Busy { .. } | StoreError::Contended { .. }) | Self::OutOfTime => {
                told(S::SERVICE_UNAVAILABLE, "busy", "The service is busy. Try again in a moment.")
                    .after(SOON)
            }
            Self::Store(StoreError::Misconfigured { .. } | StoreError::Unreadable(_)) | Self::Broken(_) => {
                told(S::INTERNAL_SERVER_ERROR, "internal", "Something went wrong on our side.")
            }
        }
    }

    pub(super) fn code(&self) -> &'static str {
        self.tell().code
    }

    /// The response; what is nobody's business but ours goes to the log.
    pub(super) fn into_response(self) -> Response<Body> {
        let Told { status, code, message, errors, retry_after } = self.tell();
        if status.is_server_error() {
            tracing::error!(error = %self, code, "request failed");
        }
        let mut response = json(status, &Problem { message, code, errors });
        let headers = response.headers_mut();
        if let Some(wait) = retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl Error {
    /// The response in the words of the Matrix specification.
    pub(super) fn into_matrix_response(self) -> Response<Body> {
        #[derive(Serialize)]
        struct MatrixProblem {
            errcode: &'static str,
            error: String,
        }
        let Told { status, code, message, .. } = self.tell();
        if status.is_server_error() {
            tracing::error!(error = %self, code, "a request of the homeserver's failed");
        }
        let (status, errcode) = match status {
            StatusCode::UNAUTHORIZED => (status, "M_MISSING_TOKEN"),
            StatusCode::FORBIDDEN => (status, "M_FORBIDDEN"),
            StatusCode::NOT_FOUND => (status, "M_NOT_FOUND"),
            StatusCode::UNPROCESSABLE_ENTITY => (StatusCode::BAD_REQUEST, "M_BAD_JSON"),
            StatusCode::BAD_REQUEST => (status, "M_NOT_JSON"),
            StatusCode::PAYLOAD_TOO_LARGE => (status, "M_TOO_LARGE"),
            _ => (status, "M_UNKNOWN"),
        };
        json(status, &MatrixProblem { errcode, error: message })
    }
}

fn no_room() -> Told {
    told(StatusCode::NOT_FOUND, "room_not_found", "There is no such chat room.")
}

/// What the chat network does not do.
fn chat(error: &ChatError) -> Told {
    use StatusCode as S;
    match error {
        ChatError::NotFound => no_room(),
        ChatError::Forbidden => told(
            S::FORBIDDEN,
            "not_allowed",
            "The chat room does not allow it. A private one is joined by invitation.",
        ),
        ChatError::Unavailable(_) => told(
            S::SERVICE_UNAVAILABLE,
            "chat_unavailable",
            "Chat is not available at the moment. Try again in a moment.",
        )
        .after(TimeDelta::seconds(5)),
        ChatError::LoginUnsupported => told(
            S::SERVICE_UNAVAILABLE,
            "chat_login_unsupported",
            "The chat server hands out credentials in its own way only. The operator has to change that.",
        )
        .after(TimeDelta::hours(1)),
    }
}

/// What keeps a phone from being verified.
fn verification(error: VerificationError) -> Told {
    use StatusCode as S;
    match error {
        VerificationError::PhoneTaken => {
            told(S::UNPROCESSABLE_ENTITY, "phone_taken", "This phone number belongs to another user.")
                .at_field("phone")
        }
        VerificationError::PhoneMismatch => told(
            S::UNPROCESSABLE_ENTITY,
            "phone_mismatch",
            "This is not the phone number that is being verified.",
        )
        .at_field("phone"),
        VerificationError::NothingPending => told(
            S::UNPROCESSABLE_ENTITY,
            "no_pending_verification",
            "No verification is pending for this phone number. Start one first.",
        )
        .at_field("phone"),
    }
}

/// What a wallet refuses.
fn coins(error: CoinError) -> Told {
    use StatusCode as S;
    match error {
        CoinError::Insufficient { balance, wanted } => told(
            S::BAD_REQUEST,
            "insufficient_balance",
            format!("{wanted} coins are needed; the balance is {balance}."),
        ),
        CoinError::AlreadyClaimed { next_claim_at } => told(
            S::BAD_REQUEST,
            "already_claimed",
            format!(
                "The bonus of the day is claimed. The next one comes at {}.",
                next_claim_at.format("%Y-%m-%dT%H:%M:%SZ")
            ),
        ),
        CoinError::ReferenceReused { by_header } => told(
            S::UNPROCESSABLE_ENTITY,
            "reference_reused",
            "This reference stands for another movement, with another amount or reason.",
        )
        .at_field(if by_header { "Idempotency-Key" } else { "reference_id" }),
    }
}

/// Rounded up: whoever comes back after them is admitted.
fn whole_seconds(wait: TimeDelta) -> u64 {
    u64::try_from(wait.num_milliseconds()).unwrap_or(0).div_ceil(1000).max(1)
}

fn span(wait: TimeDelta) -> String {
    match whole_seconds(wait) {
        1 => "1 second".into(),
        seconds if seconds < 120 => format!("{seconds} seconds"),
        seconds if seconds < 7_200 => format!("{} minutes", seconds.div_ceil(60)),
        seconds => format!("{} hours", seconds.div_ceil(3_600)),
    }
}

/// A response with a JSON body.
pub(super) fn json<T: Serialize>(status: StatusCode, body: &T) -> Response<Body> {
    // Our own types have string keys and no failing serializers; a failure here is a 500, not a panic.
    let (status, text) = match serde_json::to_string(body) {
        Ok(text) => (status, text),
        Err(error) => {
            tracing::error!(%error, "a response could not be written");
            let text = r#"{"message":"Something went wrong on our side.","code":"internal"}"#;
            (StatusCode::INTERNAL_SERVER_ERROR, text.to_owned())
        }
    };
    let mut response = Response::new(Body::Text(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An error as the description of the API shows it.
#[cfg(feature = "openapi")]
#[derive(Debug, Clone)]
pub struct Example {
    pub status: u16,
    pub code: &'static str,
    pub body: serde_json::Value,
}

/// One of each code.
#[cfg(feature = "openapi")]
#[must_use]
pub fn examples() -> Vec<Example> {
    let phone = Invalid::field("phone", "must be in international format, starting with +");
    let errors = [
        Error::NotFound,
        Error::EventNotFound,
        Error::RoomNotFound,
        Error::NotAMember,
        Error::AlreadyAMember,
        Error::UserNotFound,
        Error::NotTheHomeserver,
        Error::TeamNotFound,
        Error::MalformedJson,
        Error::BodyTooLarge,
        Error::UnsupportedMediaType,
        Error::OutOfTime,
        Error::PredictionsClosed(Closed),
        Error::CatalogMissing(CatalogMissing),
        Error::Invalid(phone),
        Error::Unauthenticated(Unauthenticated::Missing),
        Error::Unauthenticated(Unauthenticated::Unknown),
        Error::Unauthenticated(Unauthenticated::Expired),
        Error::WrongCode(WrongCode),
        Error::Limited(Limited { retry_after: TimeDelta::minutes(7) }),
        Error::Verification(VerificationError::PhoneTaken),
        Error::Verification(VerificationError::PhoneMismatch),
        Error::Verification(VerificationError::NothingPending),
        Error::Rename(RenameError::Taken),
        Error::Rename(RenameError::Locked),
        Error::SmsRefused(SmsRefused(String::new())),
        Error::Chat(ChatError::Forbidden),
        Error::Chat(ChatError::Unavailable(String::new())),
        Error::Chat(ChatError::LoginUnsupported),
        Error::Coins(CoinError::Insufficient { balance: 6, wanted: 10 }),
        Error::Coins(CoinError::AlreadyClaimed {
            next_claim_at: DateTime::from_timestamp_nanos(1_794_787_200_000_000_000),
        }),
        Error::Coins(CoinError::ReferenceReused { by_header: false }),
        Error::Broken(""),
    ];
    let example = |error: &Error| {
        let Told { status, code, message, errors, .. } = error.tell();
        let body = serde_json::json!(Problem { message, code, errors });
        Example { status: status.as_u16(), code, body }
    };
    errors.iter().map(example).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_in_words_people_use() {
        assert_eq!(span(TimeDelta::milliseconds(1)), "1 second");
        assert_eq!(span(TimeDelta::milliseconds(59_001)), "60 seconds");
        assert_eq!(span(TimeDelta::seconds(600)), "10 minutes");
        assert_eq!(span(TimeDelta::hours(23)), "23 hours");
    }

    #[test]
    fn internals_stay_inside() {
        let error =
            Error::Store(StoreError::Misconfigured { operation: "GetItem", code: "SecretTable".into() });
        let response = error.into_response();
        assert_eq!(response.status(), 500);
        assert!(!format!("{:?}", response.body()).contains("SecretTable"));
    }
}
