//! Reads what several endpoints need first: the room, the caller, and whether the caller can join more rooms.

use touchline::domain::room::Membership;
use touchline::domain::{Room, RoomId, User, UserId};
use touchline::{App, Error};

/// Reads the room whose id is in the request path.
pub async fn room(app: &App, id: &RoomId) -> Result<Room, Error> {
    app.store.room(id).await?.ok_or(Error::RoomNotFound)
}

pub async fn caller(app: &App, id: UserId) -> Result<User, Error> {
    app.store.find_user(id).await?.ok_or(Error::Broken("a session has no user"))
}

/// Returns whether a user is a member of as many rooms as one user can be.
pub async fn has_all_rooms(app: &App, user: UserId) -> Result<bool, Error> {
    let limit = app.config.chat.limits.joined_rooms;
    Ok(app.store.has_memberships(user, Membership::Join, limit).await?)
}

pub fn too_many_rooms(app: &App) -> Error {
    Error::TooManyRooms { limit: app.config.chat.limits.joined_rooms }
}
