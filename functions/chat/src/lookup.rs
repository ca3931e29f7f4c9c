//! Reads the items that several endpoints need first: the room and the caller.

use touchline::domain::{Room, RoomId, User, UserId};
use touchline::{App, Error};

/// Reads the room whose id is in the request path.
pub async fn room(app: &App, id: &RoomId) -> Result<Room, Error> {
    app.store.room(id).await?.ok_or(Error::RoomNotFound)
}

pub async fn caller(app: &App, id: UserId) -> Result<User, Error> {
    app.store.find_user(id).await?.ok_or(Error::Broken("a session has no user"))
}
