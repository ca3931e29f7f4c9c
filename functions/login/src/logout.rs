use futures_util::try_join;
use touchline::api::Said;
use touchline::api::login::Logout;
use touchline::{App, Call, Error, Reply};

/// The session ends first: whatever the chat network does, the token is dead.
pub async fn handle(app: App, call: Call<Logout>) -> Result<Reply<Said>, Error> {
    let caller = call.caller;
    let ((), user) =
        try_join!(app.store.end_session(caller.user, &caller.token), app.store.user_cheaply(caller.user),)?;
    if let Some(user) = user
        && let Err(error) = app.chat.log_out(&user.username, &caller.device_id).await
    {
        tracing::warn!(%error, "a chat device outlives its session");
    }
    Ok(Said { message: "You are logged out.".into() }.into())
}
