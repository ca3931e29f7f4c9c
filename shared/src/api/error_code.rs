//! The error codes of the API, one row each. The OpenAPI document and the table in `docs/api.md` are
//! generated from these rows.

use std::fmt;

/// Declares the codes: `Name = "code", status, "meaning";`.
macro_rules! error_codes {
    ($($name:ident = $code:literal, $status:literal, $meaning:literal;)*) => {
        /// The `code` of an error response: a stable, machine-readable name for the kind of error.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $name),*
        }

        impl ErrorCode {
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $code),*
                }
            }

            /// Returns the HTTP status of responses with this code.
            #[must_use]
            pub const fn status(self) -> u16 {
                match self {
                    $(Self::$name => $status),*
                }
            }

            /// Returns a sentence that says when the code occurs, for the documentation.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning),*
                }
            }
        }
    };
}

error_codes! {
    MalformedJson = "malformed_json", 400, "The body is not valid JSON.";
    EventStarted = "event_started", 400, "The match has started, is over, or is cancelled.";
    InsufficientBalance = "insufficient_balance", 400, "The wallet holds fewer coins than the request needs.";
    AlreadyClaimed = "already_claimed", 400, "The daily coins of this UTC day are already claimed.";
    TokenMissing = "token_missing", 401, "The request has no `Authorization: Bearer` header.";
    TokenInvalid = "token_invalid", 401, "The token is unknown, or its session was logged out.";
    TokenExpired = "token_expired", 401, "The session has expired.";
    InvalidCode = "invalid_code", 401, "The one-time code is wrong, expired, used, or has no attempts left.";
    NotAMember = "not_a_member", 403, "The caller is not a member of the room.";
    NotAllowed = "not_allowed", 403, "The room or the invited user does not allow the action, for example joining a private room without an invitation.";
    Suspended = "suspended", 403, "An operator has suspended the user.";
    NotTheHomeserver = "not_the_homeserver", 403, "The request does not carry the homeserver's token.";
    NotFound = "not_found", 404, "No endpoint has this path and method.";
    EventNotFound = "event_not_found", 404, "No match has this id.";
    RoomNotFound = "room_not_found", 404, "No room has this id.";
    TeamNotFound = "team_not_found", 404, "No team has this id.";
    UserNotFound = "user_not_found", 404, "No user has this id or username.";
    SessionNotFound = "session_not_found", 404, "The caller has no active session with this id.";
    InviteLinkNotFound = "invite_link_not_found", 404, "No invite link has this code, or the link has expired or was revoked.";
    PhoneInUse = "phone_in_use", 409, "The previous phone number has another account since the change.";
    PhoneChangedRecently = "phone_changed_recently", 409, "The account cannot be deleted yet: its phone number changed in the last 72 hours, and the owner of the previous number can still undo that.";
    AlreadyAMember = "already_a_member", 409, "The user is already a member of the room.";
    UsernameLocked = "username_locked", 409, "The username cannot change: the user is known by it in chat rooms, or has changed it ten times.";
    ConcurrentChange = "concurrent_change", 409, "Another request of the caller changed the same data at the same time. Send it again.";
    BodyTooLarge = "body_too_large", 413, "The body exceeds the size limit.";
    UnsupportedMediaType = "unsupported_media_type", 415, "The `Content-Type` is not JSON.";
    ValidationError = "validation_error", 422, "One or more fields are invalid; `errors` has a sentence for each.";
    PhoneTaken = "phone_taken", 422, "The phone number belongs to another user.";
    PhoneMismatch = "phone_mismatch", 422, "The phone number is not the one being verified.";
    NoPendingVerification = "no_pending_verification", 422, "No verification is pending for this phone number.";
    NoPhoneChange = "no_phone_change", 422, "No account has changed from this phone number in the last 72 hours.";
    UsernameTaken = "username_taken", 422, "Another user has this username.";
    ReferenceReused = "reference_reused", 422, "The idempotency key was used before with other values.";
    TooManyRooms = "too_many_rooms", 422, "The user has joined the maximum number of rooms.";
    TooManyInvitations = "too_many_invitations", 422, "The invited user has the maximum number of open invitations.";
    TooManyBlocks = "too_many_blocks", 422, "The user has blocked the maximum number of users.";
    RateLimited = "rate_limited", 429, "The caller exceeded a rate limit, or no codes can be sent to the country now.";
    Internal = "internal", 500, "An internal error; the details are in the log.";
    Busy = "busy", 503, "The store did not respond in time, or writes kept conflicting.";
    PredictionsPaused = "predictions_paused", 503, "Predictions for the match are paused for a few minutes, because the operator is preparing it for many predictions.";
    NoCatalogue = "no_catalogue", 503, "No matches and teams have been imported yet.";
    SmsUnavailable = "sms_unavailable", 503, "The SMS provider did not accept the message, or the budget for messages is used up.";
    ChatUnavailable = "chat_unavailable", 503, "The homeserver did not respond.";
    ChatLoginUnsupported = "chat_login_unsupported", 503, "The homeserver does not let application services log users in.";
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl serde::Serialize for ErrorCode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}
