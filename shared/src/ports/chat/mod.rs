//! The chat network.

mod local;
mod matrix;

use std::fmt::Debug;

pub use local::LocalChat;
pub use matrix::MatrixChat;

use super::Answer;
use crate::domain::Username;
use crate::domain::chat::Credentials;
use crate::domain::room::{Room, RoomId};

/// Why the chat network did not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// Asking again later is right.
    #[error("the chat network did not answer: {0}")]
    Unavailable(String),
    /// A login server stands before the homeserver, and hands out credentials in its own way only.
    #[error(
        "the homeserver refuses logins by application services (a login server stands before it); see docs/chat.md"
    )]
    LoginUnsupported,
    /// Not this person, there.
    #[error("the chat network does not allow it")]
    Forbidden,
    #[error("the chat network has no such room")]
    NotFound,
}

/// A room to be made.
#[derive(Debug, Clone, Copy)]
pub struct NewRoom<'a> {
    pub creator: &'a Username,
    /// The same for every try at the same room: by it the network knows one that it made before.
    pub nonce: &'a str,
    pub name: &'a str,
    pub topic: &'a str,
    /// Joined by invitation alone, and encrypted.
    pub is_private: bool,
}

/// A homeserver of the chat network, as seen by the service. Everything here can be asked twice.
pub trait Chat: Debug + Send + Sync {
    /// Logs a user in on a device; the user is made on first use.
    fn log_in<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> Answer<'a, Result<Credentials, ChatError>>;

    /// Ends a device and its tokens.
    fn log_out<'a>(&'a self, username: &'a Username, device_id: &'a str)
    -> Answer<'a, Result<(), ChatError>>;

    /// Ends every device of a name that its user does not go by any more.
    fn forget<'a>(&'a self, username: &'a Username) -> Answer<'a, Result<(), ChatError>>;

    /// Makes a user known there, for those who want to invite them.
    fn introduce<'a>(&'a self, username: &'a Username) -> Answer<'a, Result<(), ChatError>>;

    /// The id of a match's public room, which is made on first use.
    fn match_room<'a>(&'a self, event: u32, name: &'a str) -> Answer<'a, Result<RoomId, ChatError>>;

    /// Makes a room whose only member is its creator, or finds it where it was made before.
    fn create_room<'a>(&'a self, new: NewRoom<'a>) -> Answer<'a, Result<RoomId, ChatError>>;

    /// Joins a room. `is_invited` is what our own tables say; a homeserver knows better.
    fn join<'a>(
        &'a self,
        room: &'a Room,
        username: &'a Username,
        is_invited: bool,
    ) -> Answer<'a, Result<(), ChatError>>;

    /// Leaves a room, or turns an invitation down.
    fn leave<'a>(&'a self, room: &'a RoomId, username: &'a Username) -> Answer<'a, Result<(), ChatError>>;

    /// Invites `whom` in the name of `by`, who is in the room.
    fn invite<'a>(
        &'a self,
        room: &'a RoomId,
        by: &'a Username,
        whom: &'a Username,
    ) -> Answer<'a, Result<(), ChatError>>;
}
