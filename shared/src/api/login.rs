//! Login, logout and usernames.

use serde::Serialize;

use super::endpoint::{PathParameter, Resource};
use super::{Anyone, Data, Message, MessageOnly, NoInput, SignedIn, endpoint, input};
use crate::domain::chat::Credentials;
use crate::domain::session::{DeviceName, SessionId};
use crate::domain::username::UsernameBase;
use crate::domain::{BirthDate, OneTimeCode, Phone, Timestamp, UserId, Username};

endpoint! {
    /// Request a login code by SMS
    ///
    /// Sends a code of 6 digits that is valid for 5 minutes. A new code replaces the previous code.
    RequestCode: POST "/api/code/request", in "login", by Anyone, PhoneInput => Message<CodeSent>,
        errors [RateLimited, SmsUnavailable]
}

endpoint! {
    /// Verify a code and log in
    ///
    /// The first login of a phone number creates the user. Each code works once. It allows 5 attempts
    /// from the network that requested it, and 5 from all others together.
    VerifyCode: POST "/api/code/verify", in "login", by Anyone, LoginInput => LoggedIn,
        errors [InvalidCode, Suspended, RateLimited]
}

endpoint! {
    /// Log in
    ///
    /// The same as `POST /api/code/verify`.
    Login: POST "/api/auth/login", in "login", by Anyone, LoginInput => LoggedIn,
        errors [InvalidCode, Suspended, RateLimited]
}

endpoint! {
    /// Check whether a username is free
    ///
    /// Usernames that are taken, reserved or offensive, or that look like a taken or reserved one, give
    /// `available: false` with suggestions.
    CheckUsername: POST "/api/auth/username/check", in "login", by Anyone, UsernameInput => Availability
}

endpoint! {
    /// Generate username suggestions
    ///
    /// All suggestions are free at the time of the request.
    GenerateUsernames: POST "/api/auth/username/generate", in "login", by Anyone, SuggestionsInput => Suggestions
}

endpoint! {
    /// Log out
    ///
    /// Ends the session of the token, or all sessions of the user. The chat devices of ended sessions are removed.
    Logout: POST "/api/auth/logout", in "login", by SignedIn, LogoutInput => MessageOnly
}

endpoint! {
    /// List the caller's sessions
    ///
    /// One entry for each login that has not ended, at most 100. The session that was used last comes first.
    ListSessions: GET "/api/auth/sessions", in "login", by SignedIn, NoInput => Data<Vec<SessionView>>
}

endpoint! {
    /// End one of the caller's sessions
    ///
    /// Its token stops working at once. Its chat device is removed.
    RevokeSession { session: SessionId }: POST "/api/auth/sessions/{session}/revoke", in "login", by SignedIn, NoInput => MessageOnly,
        errors [SessionNotFound]
}

endpoint! {
    /// Undo a change of phone number
    ///
    /// For 72 hours after a change, the owner of the previous number can take the account back. Request a code for the
    /// previous number with `POST /api/code/request` and send it here. All sessions of the account end, except the new one.
    UndoPhoneChange: POST "/api/phone/undo", in "login", by Anyone, UndoInput => LoggedIn,
        errors [InvalidCode, RateLimited, NoPhoneChange, PhoneInUse, Suspended]
}

input! {
    PhoneInput { phone: Phone }
}

input! {
    LoginInput {
        phone: Phone,
        code: OneTimeCode,
        /// The username of a new user. Without this field, the service generates a username. An existing user
        /// keeps their username.
        username: Option<Username>,
        /// The date of birth of a new user. Some deployments require it at the first login. An existing user changes it
        /// with `update-user-info`.
        date_of_birth: Option<BirthDate>,
        /// The name of the device, for the list of sessions.
        device_name: Option<DeviceName>,
    }
}

input! {
    LogoutInput {
        /// Whether to end all sessions of the user. The default is `false`.
        everywhere: Option<bool>,
    }
}

input! {
    UndoInput {
        /// The previous phone number of the account.
        phone: Phone,
        code: OneTimeCode,
        /// The name of the device, for the list of sessions.
        device_name: Option<DeviceName>,
    }
}

impl PathParameter for SessionId {
    const RESOURCE: Resource = Resource::Session;

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "pattern": "^[A-Za-z0-9]{1,64}$", "description": "The id of a session.",
        })
    }
}

/// A session.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SessionView {
    /// The session's id, which is also the `device_id` of its chat credentials.
    pub id: SessionId,
    /// The name that the app gave at login.
    pub device_name: Option<DeviceName>,
    /// When the user logged in.
    pub created_at: Timestamp,
    /// When the session was last used. Accurate to a day.
    pub last_used_at: Timestamp,
    /// Whether this is the session of the request.
    pub current: bool,
}

input! {
    UsernameInput { username: Username }
}

input! {
    SuggestionsInput {
        base: UsernameBase,
        /// Whether the suggestions end in numbers. The default is `false`.
        include_numbers: Option<bool>,
    }
}

/// A code was sent.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CodeSent {
    /// How long the code is valid, in seconds.
    pub expires_in: i64,
}

/// A completed login.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct LoggedIn {
    /// A sentence for the user. Only present if `matrix_credentials` is null, or if another user already has the
    /// requested username.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(flatten)]
    pub data: Data<LoginData>,
}

/// The user, the token and the chat credentials.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct LoginData {
    /// The user.
    pub user: UserSummary,
    /// The API token. Send it as `Authorization: Bearer <token>`.
    pub token: String,
    /// Chat credentials; `null` while the homeserver does not respond.
    pub matrix_credentials: Option<Credentials>,
}

/// A user, in the response to their login.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct UserSummary {
    /// The user's id.
    pub id: UserId,
    /// The phone number.
    pub phone: Phone,
    /// The username.
    pub username: Username,
    /// When the user was created.
    pub created_at: Timestamp,
}

/// Whether a username is free.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Availability {
    /// Whether the username is free.
    pub available: bool,
    /// A sentence for the user.
    pub message: String,
    /// Usernames that are free. Only present if the requested username is not free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<Username>>,
}

/// Username suggestions.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Suggestions {
    /// Usernames that are free.
    pub suggestions: Vec<Username>,
}
