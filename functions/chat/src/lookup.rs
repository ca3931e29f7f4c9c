//! Reads what several endpoints need first: the room, the caller, and what the caller has joined.

use chrono::TimeDelta;
use touchline::domain::limit::{Limit, request_id};
use touchline::domain::room::Member;
use touchline::domain::session::Unauthenticated;
use touchline::domain::{Room, RoomId, User, UserId};
use touchline::storage::Reads;
use touchline::storage::users::{Admission, Counted, IssueError};
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

/// As many rooms as a user could join concurrently before the index shows them, and half of the limit if that is more. A user who
/// is so near to the limit joins one room at a time.
const AT_ONCE: usize = 100;

/// The index of memberships has a new one within this time.
const ONE_AT_A_TIME: [Limit; 1] = [Limit { count: 1, window: TimeDelta::seconds(2) }];

/// Returns how many rooms a user has joined, at most the limit.
pub async fn joined_rooms(app: &App, user: UserId) -> Result<usize, Error> {
    Ok(app.store.joined_rooms(user, app.config.chat.limits.joined_rooms).await?)
}

/// Checks that a user can join another room. `joined` is the number of the user's rooms. Concurrent joins do not see each other
/// in the index of memberships, so near the limit, all but one fail.
pub async fn require_free_room(app: &App, user: UserId, joined: usize) -> Result<(), Error> {
    let limit = app.config.chat.limits.joined_rooms;
    if joined >= limit {
        return Err(Error::TooManyRooms { limit });
    }
    if joined + AT_ONCE.max(limit / 2) < limit {
        return Ok(());
    }
    let now = app.clock.now();
    let id = request_id(now, app.random.number());
    let admitted = app.store.admit(Counted::Rooms(user), Admission::new(&ONE_AT_A_TIME), &id, now).await;
    admitted.map_err(|error| match error {
        IssueError::Limited(_) => Error::AnotherJoin,
        error => error.into(),
    })
}
