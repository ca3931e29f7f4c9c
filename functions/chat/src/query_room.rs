use touchline::api::homeserver::{Empty, QueryRoom};
use touchline::{App, Call, Error, Reply};

/// Always responds 404. The homeserver queries only aliases that it does not know. Every room gets its alias
/// when it is created on the homeserver, so an alias that the homeserver does not know belongs to no room.
pub async fn handle(_: App, _: Call<QueryRoom>) -> Result<Reply<Empty>, Error> {
    Err(Error::RoomNotFound)
}
