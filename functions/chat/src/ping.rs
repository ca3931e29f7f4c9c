use touchline::api::homeserver::{Empty, Ping};
use touchline::{App, Call, Error, Reply};

pub async fn handle(_: App, _: Call<Ping>) -> Result<Reply<Empty>, Error> {
    Ok(Empty {}.into())
}
