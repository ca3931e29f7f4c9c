//! The chat network.

mod local;
mod matrix;

use std::fmt::Debug;

use futures_util::future::BoxFuture;

pub use local::LocalChat;
pub use matrix::MatrixChat;

use crate::domain::Username;
use crate::domain::chat::Credentials;
use crate::domain::room::{Room, RoomId};

/// A failed request to the chat network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// The caller may retry later.
    #[error("the chat network is unavailable: {0}")]
    Unavailable(String),
    /// The homeserver delegates logins to an authentication server, which does not accept ours.
    #[error(
        "the homeserver rejects application service logins, because it delegates logins; see docs/chat.md"
    )]
    LoginUnsupported,
    /// The user lacks the permission.
    #[error("the chat network forbids it")]
    Forbidden,
    #[error("the chat network has no such room")]
    NotFound,
}

/// A room to create.
#[derive(Debug, Clone, Copy)]
pub struct NewRoom<'a> {
    pub creator: &'a Username,
    /// The same for every attempt. The homeserver recognises the room by it.
    pub nonce: &'a str,
    pub name: &'a str,
    pub topic: &'a str,
    /// Invitation only, and encrypted.
    pub is_private: bool,
}

/// The homeserver. All methods are idempotent.
pub trait Chat: Debug + Send + Sync {
    /// Logs a user in on a device. Creates the user on first use.
    fn log_in<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> BoxFuture<'a, Result<Credentials, ChatError>>;

    /// Deletes a device and its tokens.
    fn log_out<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Deletes all devices of a username, after its user chose another.
    fn log_out_everywhere<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Creates a user unless they exist, so that others can invite them.
    fn ensure_user<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<(), ChatError>>;

    /// The id of a match's public room. Creates the room on first use; gives an existing room this name.
    fn match_room<'a>(&'a self, event: u32, name: &'a str) -> BoxFuture<'a, Result<RoomId, ChatError>>;

    /// Renames the room of a match.
    fn rename_match_room<'a>(
        &'a self,
        room: &'a RoomId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Creates a room with its creator as the only member. Returns the existing room on a retry.
    fn create_room<'a>(&'a self, new: NewRoom<'a>) -> BoxFuture<'a, Result<RoomId, ChatError>>;

    /// Joins a room. `is_invited` comes from our tables; a real homeserver uses its own state.
    fn join<'a>(
        &'a self,
        room: &'a Room,
        username: &'a Username,
        is_invited: bool,
    ) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Leaves a room, or declines an invitation.
    fn leave<'a>(&'a self, room: &'a RoomId, username: &'a Username) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Invites `whom` on behalf of `by`, who is a member.
    fn invite<'a>(
        &'a self,
        room: &'a RoomId,
        by: &'a Username,
        whom: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>>;
}
