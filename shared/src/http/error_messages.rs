//! Maps every error to the body of its response.

use chrono::TimeDelta;
use serde::Serialize;

use crate::Error;
use crate::api::{ErrorCode, Invalid};
use crate::domain::Timestamp;
use crate::domain::code::VerificationError;
use crate::domain::coins::CoinError;
use crate::domain::limit::{DailyAction, DayLimitReached};
use crate::domain::profile::RenameError;
use crate::domain::recovery::UndoError;
use crate::domain::session::Unauthenticated;
use crate::ports::chat::ChatError;
use crate::storage::StoreError;

/// The body of an error response.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    /// A sentence for the user.
    pub message: String,
    pub code: ErrorCode,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errors: Option<Invalid>,
    #[serde(flatten)]
    pub facts: Facts,
}

/// Machine-readable fields of the body. The comment of each field starts with the error codes or HTTP statuses
/// whose responses have the field.
#[derive(Debug, Default, Serialize)]
pub(super) struct Facts {
    /// `insufficient_balance`: the coins in the wallet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub balance: Option<i64>,
    /// `insufficient_balance`: the coins that the request needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<u32>,
    /// `already_claimed`: when the next daily coins can be claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_claim_at: Option<Timestamp>,
    /// 429 and 503: seconds to wait before a retry. The same as the header `Retry-After`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
}

/// The wait before a retry, for errors whose cause usually disappears within a second.
const SOON: TimeDelta = TimeDelta::seconds(1);

/// The wait before a retry, while predictions for a match are paused. A pause takes some minutes.
const PAUSE: TimeDelta = TimeDelta::seconds(60);

impl Problem {
    fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { message: message.into(), code, errors: None, facts: Facts::default() }
    }

    /// Adds the message as the error of one field.
    fn at_field(self, field: &str) -> Self {
        let errors = Some(Invalid::field(field, self.message.clone()));
        Self { errors, ..self }
    }

    fn retry_after(mut self, wait: TimeDelta) -> Self {
        self.facts.retry_after = Some(whole_seconds(wait));
        self
    }
}

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        use ErrorCode as C;
        match error {
            Error::NotFound => Self::new(C::NotFound, "There is nothing at this address."),
            Error::EventNotFound => Self::new(C::EventNotFound, "This match does not exist."),
            Error::RoomNotFound => room_not_found(),
            Error::UserNotFound => Self::new(C::UserNotFound, "This user does not exist."),
            Error::SessionNotFound => {
                Self::new(C::SessionNotFound, "This session has ended already, or is not yours.")
            }
            Error::UndoPhoneChange(error) => undo(*error),
            Error::PhoneChangedRecently { until } => Self::new(
                C::PhoneChangedRecently,
                format!(
                    "The phone number of this account changed recently. You can delete the account from {} UTC.",
                    until.format("%-d %B %Y, %H:%M")
                ),
            ),
            Error::TeamNotFound => Self::new(C::TeamNotFound, "This team does not exist."),
            Error::NotAMember => {
                Self::new(C::NotAMember, "Only members of this room can do that. Join the room first.")
            }
            Error::AlreadyAMember => Self::new(C::AlreadyAMember, "Already a member of this chat room."),
            Error::KeyReused => Self::new(
                C::ReferenceReused,
                "This idempotency key was used before for a different room. Use a new key.",
            )
            .at_field("Idempotency-Key"),
            Error::Chat(error) => chat(error),
            Error::NotTheHomeserver => Self::new(C::NotTheHomeserver, "This token is not the homeserver's."),
            Error::PredictionsClosed(_) => Self::new(
                C::EventStarted,
                "Predictions for this match are closed. It has started, is over or is cancelled.",
            ),
            Error::PredictionsPaused => Self::new(
                C::PredictionsPaused,
                "Predictions for this match are paused. Try again in a few minutes.",
            )
            .retry_after(PAUSE),
            Error::Coins(error) => coins(*error),
            Error::CatalogMissing(_) => {
                Self::new(C::NoCatalogue, "Matches and teams have not been imported yet. Try again later.")
                    .retry_after(TimeDelta::seconds(30))
            }
            Error::MalformedJson => Self::new(C::MalformedJson, "The body is not valid JSON."),
            Error::BodyTooLarge { limit } => {
                Self::new(C::BodyTooLarge, format!("The body is larger than {}.", size(*limit)))
            }
            Error::UnsupportedMediaType => Self::new(
                C::UnsupportedMediaType,
                "Send the body as JSON, with Content-Type: application/json.",
            ),
            Error::Invalid(invalid) => Self {
                errors: Some(invalid.clone()),
                ..Self::new(C::ValidationError, invalid.first_sentence())
            },
            Error::Unauthenticated(error) => unauthenticated(*error),
            Error::WrongCode(_) => {
                Self::new(C::InvalidCode, "The code is wrong or has expired. Check it, or request a new one.")
            }
            Error::Suspended => Self::new(
                C::Suspended,
                "This account is suspended, because it broke the rules. Contact the support of the app to have that reviewed.",
            ),
            Error::Limited(limited) => Self::new(
                C::RateLimited,
                format!("Too many requests. Try again in {}.", in_words(limited.retry_after)),
            )
            .retry_after(limited.retry_after),
            Error::TooManyRooms { limit } => Self::new(
                C::TooManyRooms,
                format!("You have reached the limit of {limit} rooms. Leave a room first."),
            )
            .at_field("room"),
            Error::TooManyInvitations { limit } => Self::new(
                C::TooManyInvitations,
                format!("This user has reached the limit of {limit} open invitations. They must accept or decline one first."),
            )
            .at_field("user_id"),
            Error::InvitationRejected | Error::InviteLinkNotFound | Error::InviterBlocked => invitation(error),
            Error::TooManyBlocks { limit } => Self::new(
                C::TooManyBlocks,
                format!("You have reached the limit of {limit} blocked users. Unblock a user first."),
            )
            .at_field("user"),
            Error::DayLimitReached(reached) => day_limit_reached(*reached),
            Error::Verification(error) => verification(*error),
            Error::Rename(error) => rename(*error),
            Error::SmsStopped(_) | Error::SmsBudgetReached | Error::SmsFailed(_) => not_sent(error),
            Error::Store(StoreError::Busy { .. } | StoreError::Contended { .. }) | Error::OutOfTime => {
                Self::new(C::Busy, "The service is busy. Try again in a moment.").retry_after(SOON)
            }
            Error::AnotherJoin => Self::new(C::ConcurrentChange, "You have just joined a room. Wait a moment."),
            Error::Store(StoreError::Overtaken { .. }) => {
                Self::new(C::ConcurrentChange, "Another request of yours has just changed this. Try again.")
            }
            Error::Store(StoreError::Misconfigured { .. } | StoreError::Unreadable(_)) | Error::Broken(_) => {
                Self::new(C::Internal, "Something went wrong on our side.")
            }
        }
    }
}

fn room_not_found() -> Problem {
    Problem::new(ErrorCode::RoomNotFound, "This chat room does not exist.")
}

/// Describes why a user cannot be invited, or cannot use an invite link.
fn invitation(error: &Error) -> Problem {
    match error {
        Error::InviteLinkNotFound => Problem::new(
            ErrorCode::InviteLinkNotFound,
            "This invite link does not work. It is mistyped, has expired or was revoked. Ask for a new link.",
        ),
        Error::InviterBlocked => Problem::new(
            ErrorCode::NotAllowed,
            "You have blocked the user who made this invite link. Unblock them first.",
        ),
        _ => Problem::new(ErrorCode::NotAllowed, "You cannot invite this user."),
    }
}

fn undo(error: UndoError) -> Problem {
    match error {
        UndoError::NoChange => Problem::new(
            ErrorCode::NoPhoneChange,
            "No account has moved away from this phone number in the last 72 hours.",
        )
        .at_field("phone"),
        UndoError::PhoneInUse => Problem::new(
            ErrorCode::PhoneInUse,
            "This phone number has a newer account. Delete that account first, then undo the change.",
        ),
    }
}

/// Describes why a message with a code was not sent.
fn not_sent(error: &Error) -> Problem {
    match error {
        Error::SmsStopped(stopped) => Problem::new(
            ErrorCode::RateLimited,
            format!(
                "No code can be sent to this phone number now. Try again in {}.",
                in_words(stopped.retry_after)
            ),
        )
        .retry_after(stopped.retry_after),
        Error::SmsBudgetReached => {
            Problem::new(ErrorCode::SmsUnavailable, "No codes can be sent at the moment. Try again later.")
                .retry_after(TimeDelta::hours(1))
        }
        _ => Problem::new(ErrorCode::SmsUnavailable, "The code could not be sent. Try again in a moment.")
            .retry_after(SOON),
    }
}

fn unauthenticated(error: Unauthenticated) -> Problem {
    match error {
        Unauthenticated::Missing => Problem::new(
            ErrorCode::TokenMissing,
            "Log in, then send the token as Authorization: Bearer <token>.",
        ),
        Unauthenticated::Unknown => {
            Problem::new(ErrorCode::TokenInvalid, "You are logged out. Log in again.")
        }
        Unauthenticated::Expired => {
            Problem::new(ErrorCode::TokenExpired, "Your session has expired. Log in again.")
        }
    }
}

fn chat(error: &ChatError) -> Problem {
    match error {
        ChatError::NotFound => room_not_found(),
        ChatError::Forbidden => Problem::new(
            ErrorCode::NotAllowed,
            "This chat room does not allow that. A private room needs an invitation.",
        ),
        ChatError::Unavailable(_) => {
            Problem::new(ErrorCode::ChatUnavailable, "Chat is not available. Try again in a moment.")
                .retry_after(TimeDelta::seconds(5))
        }
        ChatError::LoginUnsupported => Problem::new(
            ErrorCode::ChatLoginUnsupported,
            "Chat is not available: the chat server does not accept our logins. The operator must change its settings.",
        )
        .retry_after(TimeDelta::hours(1)),
    }
}

fn verification(error: VerificationError) -> Problem {
    let (code, message) = match error {
        VerificationError::PhoneTaken => {
            (ErrorCode::PhoneTaken, "This phone number belongs to another user.")
        }
        VerificationError::PhoneMismatch => {
            (ErrorCode::PhoneMismatch, "This is not the phone number that you are verifying.")
        }
        VerificationError::NothingPending => (
            ErrorCode::NoPendingVerification,
            "No verification is pending for this phone number. Start one first.",
        ),
    };
    Problem::new(code, message).at_field("phone")
}

fn rename(error: RenameError) -> Problem {
    match error {
        RenameError::Taken => {
            Problem::new(ErrorCode::UsernameTaken, "This username is taken.").at_field("username")
        }
        RenameError::Locked => Problem::new(
            ErrorCode::UsernameLocked,
            "You can no longer change your username: you already use it in chat, or you have changed it ten times.",
        ),
    }
}

fn day_limit_reached(reached: DayLimitReached) -> Problem {
    let DayLimitReached { action, limit, retry_after } = reached;
    let message = match action {
        DailyAction::CreateRoom => {
            format!("You can create {limit} rooms a day. Create the next one after midnight UTC.")
        }
        DailyAction::SendInvitation => {
            format!("You can send {limit} invitations a day. Send the next one after midnight UTC.")
        }
        DailyAction::InviteOneUser => {
            format!("You can invite the same user {limit} times a day. Try again after midnight UTC.")
        }
        DailyAction::SendReport => {
            format!("You can send {limit} reports a day. Send the next one after midnight UTC.")
        }
        DailyAction::ExportAccount => {
            format!("You can export your data {limit} times a day. Try again after midnight UTC.")
        }
        DailyAction::CreateInviteLink => {
            format!("You can create {limit} invite links a day. Create the next one after midnight UTC.")
        }
        DailyAction::EnterLinkCode => {
            format!("You can use {limit} invite links a day. Try again after midnight UTC.")
        }
        DailyAction::ChoosePrimaryTeam => {
            format!("You can change your team {limit} times a day. Try again after midnight UTC.")
        }
        DailyAction::ChangePhone => {
            format!("You can change your phone number {limit} times a day. Try again after midnight UTC.")
        }
    };
    Problem::new(ErrorCode::RateLimited, message).retry_after(retry_after)
}

fn coins(error: CoinError) -> Problem {
    match error {
        CoinError::Insufficient { balance, required } => {
            let message = format!("You need {} and have {balance}.", in_coins(required));
            let mut problem = Problem::new(ErrorCode::InsufficientBalance, message);
            problem.facts.balance = Some(balance);
            problem.facts.required = Some(required);
            problem
        }
        CoinError::AlreadyClaimed { next_claim_at } => {
            let message = "You already have today's coins. Come back after midnight UTC.";
            let mut problem = Problem::new(ErrorCode::AlreadyClaimed, message);
            problem.facts.next_claim_at = Some(next_claim_at.into());
            problem
        }
        CoinError::ReferenceReused { by_header } => Problem::new(
            ErrorCode::ReferenceReused,
            "This reference was used before with another amount or reason. Use a new one.",
        )
        .at_field(if by_header { "Idempotency-Key" } else { "reference_id" }),
    }
}

fn in_coins(coins: u32) -> String {
    if coins == 1 { "1 coin".into() } else { format!("{coins} coins") }
}

/// Rounds the wait up to whole seconds, so that a retry after the wait is not too early.
fn whole_seconds(wait: TimeDelta) -> u64 {
    u64::try_from(wait.num_milliseconds()).unwrap_or(0).div_ceil(1000).max(1)
}

fn in_words(wait: TimeDelta) -> String {
    match whole_seconds(wait) {
        1 => "1 second".into(),
        seconds if seconds < 120 => format!("{seconds} seconds"),
        seconds if seconds < 7_200 => format!("{} minutes", seconds.div_ceil(60)),
        seconds => format!("{} hours", seconds.div_ceil(3_600)),
    }
}

/// Writes a size in whole KB or MB.
fn size(bytes: usize) -> String {
    const MB: usize = 1024 * 1024;
    if bytes >= MB { format!("{} MB", bytes / MB) } else { format!("{} KB", bytes / 1024) }
}

/// An example of an error response, for the OpenAPI document.
#[cfg(any(test, feature = "openapi"))]
#[derive(Debug, Clone)]
pub struct Example {
    pub code: ErrorCode,
    pub body: serde_json::Value,
}

/// Returns one example for each error code.
#[cfg(any(test, feature = "openapi"))]
#[must_use]
pub fn examples() -> Vec<Example> {
    use crate::domain::catalog::CatalogMissing;
    use crate::domain::code::WrongCode;
    use crate::domain::limit::Limited;
    use crate::domain::prediction::PredictionsClosed;
    use crate::ports::sms::SmsFailed;

    let phone = Invalid::field("phone", "Include the country code, for example +44 7700 900123.");
    let midnight = chrono::DateTime::from_timestamp_nanos(1_794_787_200_000_000_000);
    let errors = [
        Error::NotFound,
        Error::EventNotFound,
        Error::RoomNotFound,
        Error::UserNotFound,
        Error::SessionNotFound,
        Error::InviteLinkNotFound,
        Error::UndoPhoneChange(UndoError::NoChange),
        Error::PhoneChangedRecently { until: midnight },
        Error::UndoPhoneChange(UndoError::PhoneInUse),
        Error::TeamNotFound,
        Error::NotAMember,
        Error::AlreadyAMember,
        Error::NotTheHomeserver,
        Error::MalformedJson,
        Error::BodyTooLarge { limit: 64 * 1024 },
        Error::UnsupportedMediaType,
        Error::OutOfTime,
        Error::PredictionsClosed(PredictionsClosed),
        Error::PredictionsPaused,
        Error::CatalogMissing(CatalogMissing),
        Error::Invalid(phone),
        Error::Unauthenticated(Unauthenticated::Missing),
        Error::Unauthenticated(Unauthenticated::Unknown),
        Error::Unauthenticated(Unauthenticated::Expired),
        Error::WrongCode(WrongCode),
        Error::Suspended,
        Error::Limited(Limited { retry_after: TimeDelta::minutes(7) }),
        Error::TooManyRooms { limit: 1_000 },
        Error::TooManyInvitations { limit: 200 },
        Error::TooManyBlocks { limit: 1_000 },
        Error::Verification(VerificationError::PhoneTaken),
        Error::Verification(VerificationError::PhoneMismatch),
        Error::Verification(VerificationError::NothingPending),
        Error::Rename(RenameError::Taken),
        Error::Rename(RenameError::Locked),
        Error::Store(StoreError::Overtaken { what: "" }),
        Error::SmsFailed(SmsFailed(String::new())),
        Error::Chat(ChatError::Forbidden),
        Error::Chat(ChatError::Unavailable(String::new())),
        Error::Chat(ChatError::LoginUnsupported),
        Error::Coins(CoinError::Insufficient { balance: 6, required: 10 }),
        Error::Coins(CoinError::AlreadyClaimed { next_claim_at: midnight }),
        Error::Coins(CoinError::ReferenceReused { by_header: false }),
        Error::Broken(""),
    ];
    let example = |error: &Error| {
        let problem = Problem::from(error);
        Example { code: problem.code, body: serde_json::json!(problem) }
    };
    errors.iter().map(example).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn waits_are_written_in_seconds_minutes_or_hours() {
        assert_eq!(in_words(TimeDelta::milliseconds(1)), "1 second");
        assert_eq!(in_words(TimeDelta::milliseconds(59_001)), "60 seconds");
        assert_eq!(in_words(TimeDelta::seconds(600)), "10 minutes");
        assert_eq!(in_words(TimeDelta::hours(23)), "23 hours");
    }

    #[test]
    fn every_error_code_has_exactly_one_example() {
        let codes: Vec<ErrorCode> = examples().iter().map(|example| example.code).collect();
        let distinct: BTreeSet<ErrorCode> = codes.iter().copied().collect();
        assert_eq!(distinct, ErrorCode::ALL.iter().copied().collect());
        assert_eq!(codes.len(), distinct.len());
    }

    #[test]
    fn every_message_starts_with_a_capital_letter_and_ends_with_a_full_stop() {
        for example in examples() {
            let message = example.body["message"].as_str().unwrap();
            assert!(message.ends_with('.') && message.starts_with(char::is_uppercase), "{message}");
        }
    }

    #[test]
    fn the_facts_of_an_error_are_fields_of_the_response_body() {
        let body = |error: Error| json!(Problem::from(&error));
        assert_eq!(
            body(Error::Coins(CoinError::Insufficient { balance: 0, required: 5 })),
            json!({
                "message": "You need 5 coins and have 0.", "code": "insufficient_balance", "balance": 0, "required": 5,
            })
        );
        assert_eq!(
            body(Error::OutOfTime),
            json!({ "message": "The service is busy. Try again in a moment.", "code": "busy", "retry_after": 1 })
        );
        let next_claim_at = "2026-11-16T00:00:00Z".parse().unwrap();
        assert_eq!(
            body(Error::Coins(CoinError::AlreadyClaimed { next_claim_at })),
            json!({
                "message": "You already have today's coins. Come back after midnight UTC.",
                "code": "already_claimed", "next_claim_at": "2026-11-16T00:00:00Z",
            })
        );
    }

    #[test]
    fn the_message_for_a_body_that_is_too_large_names_the_limit() {
        let message = |limit| Problem::from(&Error::BodyTooLarge { limit }).message;
        assert_eq!(message(64 * 1024), "The body is larger than 64 KB.");
        assert_eq!(message(6 * 1024 * 1024), "The body is larger than 6 MB.");
    }
}
