//! Reads what several endpoints need first: the room, the caller, and what the caller has joined.

use touchline::domain::room::Member;
use touchline::domain::session::Unauthenticated;
use touchline::domain::{Room, RoomId, User, UserId};
use touchline::storage::Reads;
use touchline::{App, Error};

/// Reads the room whose id is in the request path.
pub async fn room(app: &App, id: &RoomId) -> Result<Room, Error> {
    app.store.room(id).await?.ok_or(Error::RoomNotFound)
}

/// Reads the caller's profile. A user who has just deleted the account has none, and the session is about to end.
pub async fn caller(app: &App, id: UserId) -> Result<User, Error> {
    app.store.find_user(id).await?.ok_or(Error::Unauthenticated(Unauthenticated::Unknown))
}

/// Returns whether a user has joined a room. A user who left the room within the last second may still be found, so this
/// is only for requests that the homeserver checks again.
pub async fn has_joined(app: &App, room: &Room, user: UserId) -> Result<bool, Error> {
    for reads in [Reads::Eventual, Reads::Consistent] {
        if app.store.member(room, user, reads).await?.as_ref().is_some_and(Member::has_joined) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a user is a member of as many rooms as one user can be.
pub async fn has_all_rooms(app: &App, user: UserId) -> Result<bool, Error> {
    let limit = app.config.chat.limits.joined_rooms;
    Ok(app.store.has_joined_rooms(user, limit).await?)
}

pub fn too_many_rooms(app: &App) -> Error {
    Error::TooManyRooms { limit: app.config.chat.limits.joined_rooms }
}
