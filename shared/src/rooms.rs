//! Who may look into a room, and becoming known in rooms.

use crate::App;
use crate::domain::room::{Member, Room};
use crate::domain::{User, UserId};
use crate::http::Error;
use crate::storage::{Reads, StoreError};

/// What is in a private room is its members' business.
pub async fn look_into(app: &App, room: &Room, user: UserId) -> Result<(), Error> {
    let may = !room.is_private
        || app.store.member(room, user, Reads::Eventual).await?.as_ref().is_some_and(Member::has_joined);
    if may { Ok(()) } else { Err(Error::NotAMember) }
}

/// Sees to it that somebody's username stays what it is, before it becomes known in a room.
pub async fn introduce(app: &App, user: &User) -> Result<(), StoreError> {
    if user.chat_since.is_none() {
        app.store.lock_username(user, app.clock.now()).await?;
    }
    Ok(())
}
