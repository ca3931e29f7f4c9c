use touchline::api::homeserver::{Empty, QueryRoom};
use touchline::{App, Call, Error, Reply};

/// Always responds 404. The homeserver sends queries only for aliases that it does not know. It knows every
/// alias of a room, because rooms get their aliases on creation.
pub async fn handle(_: App, _: Call<QueryRoom>) -> Result<Reply<Empty>, Error> {
    Err(Error::RoomNotFound)
}
