//! Chat credentials.

use std::fmt;

use serde::Serialize;

/// The credentials of a chat client.
#[derive(Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Credentials {
    /// The Matrix user id: `@<username>:<server>`.
    pub user_id: String,
    /// The Matrix access token. It is a secret.
    pub access_token: String,
    /// The Matrix device of this login.
    pub device_id: String,
    /// The URL of the homeserver, for a Matrix client; `null` if there is only the built-in chat of the local stack.
    pub homeserver_url: Option<String>,
}

/// Hides the token.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, hidden)", self.user_id)
    }
}
