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
    /// The homeserver delegates logins to an authentication server, which does not accept logins of
    /// application services.
    #[error(
        "the homeserver rejects application service logins, because it delegates logins; see docs/chat.md"
    )]
    LoginUnsupported,
    /// The user lacks the permission for the request.
    #[error("the chat network forbids the request")]
    Forbidden,
    #[error("the chat network has no such room")]
    NotFound,
}

/// A room to create.
#[derive(Debug, Clone, Copy)]
pub struct NewRoom<'a> {
    pub creator: &'a Username,
    /// A text that is the same for every attempt to create this room, so that a retry returns the same room.
    pub nonce: &'a str,
    pub name: &'a str,
    pub topic: &'a str,
    /// A private room is encrypted, and only invited users can join it.
    pub is_private: bool,
}

/// How a homeserver closed a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closed {
    /// The homeserver removes all members and deletes the room.
    Deleted,
    /// The room is locked. Its members must be removed one by one.
    Locked,
}

/// The homeserver. All methods are idempotent.
pub trait Chat: Debug + Send + Sync {
    /// Logs a user in on a device. Creates the user on the homeserver at the first login.
    fn log_in<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> BoxFuture<'a, Result<Credentials, ChatError>>;

    /// Deletes a user's chat device and its access tokens.
    fn log_out<'a>(
        &'a self,
        username: &'a Username,
        device_id: &'a str,
    ) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Deletes all chat devices of a username, after its owner chose another username.
    fn log_out_everywhere<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Logs a user out, deletes their messages, and then their account with all memberships. Returns false if
    /// messages are left, because there are many. The account is then still there, and the caller tries again later.
    fn erase_user<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<bool, ChatError>>;

    /// Makes a user ignore the users in `ignored`, and no longer ignore those in `others`. Users whom the user has ignored
    /// in a Matrix client stay ignored.
    fn update_ignored_users<'a>(
        &'a self,
        username: &'a Username,
        ignored: &'a [Username],
        others: &'a [Username],
    ) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Returns whether a user is a member of any room on the homeserver.
    fn has_rooms<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<bool, ChatError>>;

    /// Creates a user on the homeserver, unless they exist already, so that others can invite them.
    fn ensure_user<'a>(&'a self, username: &'a Username) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Returns the id of a match's public room. Creates the room with the name `name`, or gives an existing room
    /// this name.
    fn match_room<'a>(&'a self, event: u32, name: &'a str) -> BoxFuture<'a, Result<RoomId, ChatError>>;

    /// Renames the room of a match.
    fn rename_match_room<'a>(
        &'a self,
        room: &'a RoomId,
        name: &'a str,
    ) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Creates a room with its creator as the only member. A retry with the same nonce returns the same room.
    fn create_room<'a>(&'a self, new: NewRoom<'a>) -> BoxFuture<'a, Result<RoomId, ChatError>>;

    /// Joins a user to a room. For a private room, `is_invited` says whether our tables hold an invitation.
    /// [`MatrixChat`] ignores the argument, because the homeserver checks its own invitations.
    fn join<'a>(
        &'a self,
        room: &'a Room,
        username: &'a Username,
        is_invited: bool,
    ) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Closes a room that `creator` created, or a user who has deleted the account: nobody can join it, write in it or find it
    /// any more. Members stay in the room
    /// unless it returns [`Closed::Deleted`].
    fn close_room<'a>(
        &'a self,
        room: &'a RoomId,
        creator: Option<&'a Username>,
    ) -> BoxFuture<'a, Result<Closed, ChatError>>;

    /// Removes `whom` from a room, or withdraws their invitation, on behalf of its creator. Does nothing if `whom` is not
    /// in the room.
    fn kick<'a>(
        &'a self,
        room: &'a RoomId,
        creator: &'a Username,
        whom: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Removes all other members from a room on behalf of its creator, also those who are no users of ours.
    fn kick_others<'a>(
        &'a self,
        room: &'a RoomId,
        creator: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Makes a user leave a room, or decline an invitation to it.
    fn leave<'a>(&'a self, room: &'a RoomId, username: &'a Username) -> BoxFuture<'a, Result<(), ChatError>>;

    /// Invites `whom` to a room on behalf of `by`, who is a member of the room.
    fn invite<'a>(
        &'a self,
        room: &'a RoomId,
        by: &'a Username,
        whom: &'a Username,
    ) -> BoxFuture<'a, Result<(), ChatError>>;
}
