//! The chat network.

use std::fmt::{self, Debug};
use std::sync::Arc;

use serde::Serialize;

use super::Answer;
use super::random::Random;
use crate::domain::Username;

/// What a chat client logs in with.
#[derive(Clone, Serialize)]
pub struct Credentials {
    /// `@<username>:<server>`.
    pub user_id: String,
    pub access_token: String,
    pub device_id: String,
}

impl Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, hidden)", self.user_id)
    }
}

/// The chat network did not do it; asking again later is right.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the chat network did not answer: {0}")]
pub struct ChatUnavailable(pub String);

/// A homeserver of the chat network, as seen by the service.
pub trait Chat: Debug + Send + Sync {
    /// Logs a user in on a device; the user is made on first use.
    fn log_in<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> Answer<'a, Result<Credentials, ChatUnavailable>>;

    /// The id of a match's public room, which is made on first use.
    fn match_room<'a>(&'a self, event: u32, name: &'a str) -> Answer<'a, Result<String, ChatUnavailable>>;

    /// Ends a device and its tokens.
    fn log_out<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> Answer<'a, Result<(), ChatUnavailable>>;
}

/// Without a homeserver: identities and credentials of the same form. It carries no messages.
#[derive(Debug)]
pub struct LocalChat {
    server: String,
    random: Arc<dyn Random>,
}

impl LocalChat {
    #[must_use]
    pub fn new(server: String, random: Arc<dyn Random>) -> Self {
        Self { server, random }
    }
}

impl Chat for LocalChat {
    fn log_in<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> Answer<'a, Result<Credentials, ChatUnavailable>> {
        let credentials = Credentials {
            user_id: format!("@{}:{}", username.as_str(), self.server),
            access_token: format!("local_{}", self.random.word(40)),
            device_id: device_id.to_owned(),
        };
        Box::pin(async move { Ok(credentials) })
    }

    fn match_room<'a>(&'a self, event: u32, _: &'a str) -> Answer<'a, Result<String, ChatUnavailable>> {
        let room = format!("!match{event}:{}", self.server);
        Box::pin(async move { Ok(room) })
    }

    fn log_out<'a>(&'a self, _: &'a Username, _: &'a str) -> Answer<'a, Result<(), ChatUnavailable>> {
        Box::pin(async { Ok(()) })
    }
}
