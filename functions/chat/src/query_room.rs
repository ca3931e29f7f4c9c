use touchline::api::homeserver::{Empty, QueryRoom};
use touchline::{App, Call, Error, Reply};

/// Answers that no room has the alias. The homeserver asks only about aliases that it does not know. It knows
/// every alias that exists, because rooms get their aliases on creation.
pub async fn handle(_: App, _: Call<QueryRoom>) -> Result<Reply<Empty>, Error> {
    Err(Error::RoomNotFound)
}
