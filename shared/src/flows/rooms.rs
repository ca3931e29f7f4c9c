//! The access check before a user reads a room, and the username lock before a user creates or joins a room.

use crate::domain::room::{Member, Room};
use crate::domain::{User, UserId};
use crate::storage::{Reads, StoreError};
use crate::{App, Error};

/// Checks that the user can read the room: the room is public, or the user is a member.
pub async fn require_read_access(app: &App, room: &Room, user: UserId) -> Result<(), Error> {
    let can_read = !room.is_private
        || app.store.member(room, user, Reads::Consistent).await?.as_ref().is_some_and(Member::has_joined);
    if can_read { Ok(()) } else { Err(Error::NotAMember) }
}

/// Locks the username if it is not locked yet. Handlers call this before other members of a room see the
/// username.
pub async fn lock_username(app: &App, user: &User) -> Result<(), StoreError> {
    if user.username_locked_at.is_none() {
        app.store.lock_username(user, app.clock.now()).await?;
    }
    Ok(())
}
