//! Logging in and choosing a name.

use serde::Serialize;

use super::{Data, Message, Nothing, Said, endpoint, input};
use crate::domain::username::{Base, ChosenUsername};
use crate::domain::{OneTimeCode, Phone, Timestamp, UserId, Username};
use crate::http::{Anyone, SignedIn};
use crate::ports::chat::Credentials;

endpoint! {
    /// Request a login code by SMS.
    RequestCode: POST "/api/code/request", in "login", by Anyone, PhoneOnly => Message<CodeSent>,
        refuses ["rate_limited", "sms_unavailable"]
}

endpoint! {
    /// Verify a code and log in.
    VerifyCode: POST "/api/code/verify", in "login", by Anyone, PhoneAndCode => LoggedIn,
        refuses ["invalid_code"]
}

endpoint! {
    /// Log in; the same as verifying a code.
    Login: POST "/api/auth/login", in "login", by Anyone, PhoneAndCode => LoggedIn,
        refuses ["invalid_code"]
}

endpoint! {
    /// Check whether a username is free.
    CheckUsername: POST "/api/auth/username/check", in "login", by Anyone, WantedUsername => Availability
}

endpoint! {
    /// Generate username suggestions.
    GenerateUsernames: POST "/api/auth/username/generate", in "login", by Anyone, SuggestionsWanted => Suggestions
}

endpoint! {
    /// Log out: the token and its chat device end.
    Logout: POST "/api/auth/logout", in "login", by SignedIn, Nothing => Said
}

input! {
    PhoneOnly { phone: Phone }
}

input! {
    PhoneAndCode {
        phone: Phone,
        code: OneTimeCode,
        /// Wanted by a newcomer; without it one is generated.
        username: Option<ChosenUsername>,
    }
}

input! {
    WantedUsername { username: Username }
}

input! {
    SuggestionsWanted { base: Base, include_numbers: Option<bool> }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct CodeSent {
    /// Seconds.
    pub expires_in: i64,
}

/// A login.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct LoggedIn {
    /// Only where something needs saying: no chat credentials, or another name than the wanted one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(flatten)]
    pub data: Data<LoginData>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct LoginData {
    pub user: UserSummary,
    pub token: String,
    /// `null` while the chat network cannot be reached.
    pub matrix_credentials: Option<Credentials>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct UserSummary {
    pub id: UserId,
    pub phone: Phone,
    pub username: Username,
    pub created_at: Timestamp,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Availability {
    pub available: bool,
    pub message: String,
    /// Only when the name is not free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suggestions: Option<Vec<Username>>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Suggestions {
    pub suggestions: Vec<Username>,
}
