use touchline::api::MessageOnly;
use touchline::api::blocks::UnblockUser;
use touchline::flows::blocks;
use touchline::{App, Call, Error, Reply};

use crate::block_user::CHAT_LATER;

/// Unblocks a user, in our table and in the caller's chat account. A user who no longer exists can be unblocked, too.
pub async fn handle(app: App, call: Call<UnblockUser>) -> Result<Reply<MessageOnly>, Error> {
    let (caller, user) = (call.caller.user, call.path.user);
    let was_blocked = app.store.unblock(caller, user).await?;
    let person = app.store.people(&[user]).await?.remove(&user);
    if !was_blocked && person.is_none() {
        return Err(Error::UserNotFound);
    }
    let name = person.as_ref().map_or("this user", |person| person.username.as_str());
    let mut message = format!("You no longer block {name}.");
    if !blocks::sync_ignored_users_or_later(&app, caller).await? {
        message = format!("{message} {CHAT_LATER}");
    }
    Ok(MessageOnly { message }.into())
}
