use touchline::api::homeserver::{Empty, QueryUser};
use touchline::domain::push;
use touchline::{App, Call, Error, Reply};

/// Somebody looks for a user whom the homeserver has not seen yet. Of ours, it gets to know them now.
pub async fn handle(app: App, call: Call<QueryUser>) -> Result<Reply<Empty>, Error> {
    let name = call.path("userId").and_then(|id| push::ours(id, &app.config.chat.server));
    let name = name.ok_or(Error::UserNotFound)?;
    app.store.user_named(&name).await?.ok_or(Error::UserNotFound)?;
    app.chat.introduce(&name).await?;
    Ok(Empty {}.into())
}
