//! Reads that several endpoints begin with.

use touchline::domain::{Room, RoomId, User, UserId};
use touchline::storage::Reads;
use touchline::{App, Error};

/// The room in a path.
pub async fn room(app: &App, id: &RoomId) -> Result<Room, Error> {
    app.store.room(id).await?.ok_or(Error::RoomNotFound)
}

pub async fn caller(app: &App, id: UserId) -> Result<User, Error> {
    app.store.user(id, Reads::Eventual).await?.ok_or(Error::Broken("a session has no user"))
}
