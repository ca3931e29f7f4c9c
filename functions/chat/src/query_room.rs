use touchline::api::homeserver::{Empty, QueryRoom};
use touchline::{App, Call, Error, Reply};

/// Rooms get their aliases when they are created, so the homeserver knows all aliases that exist.
pub async fn handle(_: App, _: Call<QueryRoom>) -> Result<Reply<Empty>, Error> {
    Err(Error::RoomNotFound)
}
