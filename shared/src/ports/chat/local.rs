//! A stand-in for a homeserver, for tests and for deployments without a homeserver.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sha2::{Digest as _, Sha256};

use super::{Chat, ChatError, Closed, NewRoom};
use crate::domain::Username;
use crate::domain::chat::Credentials;
use crate::domain::room::{Room, RoomId};
use crate::ports::random::Random;

/// A chat port that issues ids and credentials in the format of a homeserver. Like a homeserver, it forbids
/// joining a private room without an invitation. It carries no messages.
#[derive(Debug)]
pub struct LocalChat {
    server: String,
    random: Arc<dyn Random>,
}

impl LocalChat {
    /// Creates a stand-in for the homeserver named `server`.
    #[must_use]
    pub fn new(server: String, random: Arc<dyn Random>) -> Self {
        Self { server, random }
    }

    fn room(&self, local_part: &str) -> Result<RoomId, ChatError> {
        let id = RoomId::parse(&format!("!{local_part}:{}", self.server));
        id.ok_or_else(|| ChatError::Unavailable("the server name is invalid in room ids".into()))
    }
}

fn done<'a>(result: Result<(), ChatError>) -> BoxFuture<'a, Result<(), ChatError>> {
    Box::pin(async move { result })
}

impl Chat for LocalChat {
    fn log_in<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> BoxFuture<'a, Result<Credentials, ChatError>> {
        let credentials = Credentials {
            user_id: format!("@{}:{}", username.as_str(), self.server),
            access_token: format!("local_{}", self.random.word(40)),
            device_id: device_id.to_owned(),
            homeserver_url: None,
        };
        Box::pin(async move { Ok(credentials) })
    }

    fn log_out<'a>(&'a self, _: &'a Username, _: &'a str) -> BoxFuture<'a, Result<(), ChatError>> {
        done(Ok(()))
    }

    fn log_out_everywhere<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        done(Ok(()))
    }

    fn erase_user<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<bool, ChatError>> {
        Box::pin(async { Ok(true) })
    }

    fn update_ignored_users<'a>(
        &'a self,
        _: &'a Username,
        _: &'a [Username],
        _: &'a [Username],
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        done(Ok(()))
    }

    /// Users of a local chat join rooms only through our API.
    fn has_rooms<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<bool, ChatError>> {
        Box::pin(async { Ok(false) })
    }

    fn ensure_user<'a>(&'a self, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        done(Ok(()))
    }

    fn match_room<'a>(&'a self, event: u32, _: &'a str) -> BoxFuture<'a, Result<RoomId, ChatError>> {
        let room = self.room(&format!("match{event}"));
        Box::pin(async move { room })
    }

    fn rename_match_room<'a>(&'a self, _: &'a RoomId, _: &'a str) -> BoxFuture<'a, Result<(), ChatError>> {
        done(Ok(()))
    }

    fn create_room<'a>(&'a self, new: NewRoom<'a>) -> BoxFuture<'a, Result<RoomId, ChatError>> {
        // The id has 18 letters, like the room ids of a homeserver. The same nonce gives the same id.
        let digest = Sha256::digest(new.nonce.as_bytes());
        let letter = |byte: &u8| char::from(b"abcdefghijklmnopqrstuvwxyzABCDEF"[usize::from(byte % 32)]);
        let room = self.room(&digest.iter().take(18).map(letter).collect::<String>());
        Box::pin(async move { room })
    }

    fn join<'a>(
        &'a self,
        room: &'a Room,
        _: &'a Username,
        is_invited: bool,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        done(if room.is_private && !is_invited { Err(ChatError::Forbidden) } else { Ok(()) })
    }

    fn close_room<'a>(
        &'a self,
        _: &'a RoomId,
        _: Option<&'a Username>,
    ) -> BoxFuture<'a, Result<Closed, ChatError>> {
        Box::pin(async { Ok(Closed::Locked) })
    }

    fn kick<'a>(
        &'a self,
        _: &'a RoomId,
        _: &'a Username,
        _: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        done(Ok(()))
    }

    fn kick_others<'a>(&'a self, _: &'a RoomId, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        done(Ok(()))
    }

    fn leave<'a>(&'a self, _: &'a RoomId, _: &'a Username) -> BoxFuture<'a, Result<(), ChatError>> {
        done(Ok(()))
    }

    fn invite<'a>(
        &'a self,
        _: &'a RoomId,
        _: &'a Username,
        _: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>> {
        done(Ok(()))
    }
}
