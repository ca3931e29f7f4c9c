use touchline::api::homeserver::{Empty, QueryRoom};
use touchline::{App, Call, Error, Reply};

/// Our rooms get their aliases when they are made: one that the homeserver does not know is none.
pub async fn handle(_: App, _: Call<QueryRoom>) -> Result<Reply<Empty>, Error> {
    Err(Error::RoomNotFound)
}
