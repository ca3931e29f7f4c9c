use futures_util::future::try_join;
use touchline::api::blocks::{BlockUser, BlockedUser};
use touchline::api::{Invalid, Message};
use touchline::domain::block::{Block, MAX_BLOCKS};
use touchline::flows::blocks;
use touchline::storage::users::Blocked;
use touchline::{App, Call, Error, Reply};

use crate::{leave, lookup};

/// What the response adds if the homeserver does not respond. The function `erasure` writes the list when the homeserver responds again.
pub const CHAT_LATER: &str = "Chat is not available at the moment and follows later.";

/// Blocks a user: first in our table, which the lists read, and then in the caller's chat account. Declines the invitations of
/// the blocked user.
pub async fn handle(app: App, call: Call<BlockUser>) -> Result<Reply<Message<BlockedUser>>, Error> {
    let (caller, user) = (call.caller.user, call.path.user);
    if caller == user {
        return Err(Invalid::field("user", "You cannot block yourself.").into());
    }
    let people = async { app.store.people(&[user]).await.map_err(Error::from) };
    let (mut people, owner) = try_join(people, lookup::caller(&app, caller)).await?;
    let person = people.remove(&user).ok_or(Error::UserNotFound)?;
    let at = match app.store.block(caller, user, MAX_BLOCKS, app.clock.now()).await? {
        Blocked::Since(at) => at,
        Blocked::LimitReached => return Err(Error::TooManyBlocks { limit: MAX_BLOCKS }),
    };
    let (is_synced, ()) =
        try_join(blocks::sync_ignored_users_or_later(&app, caller), leave::decline_all(&app, &owner, user))
            .await?;
    let mut message = format!("You blocked {}.", person.username.as_str());
    if !is_synced {
        message = format!("{message} {CHAT_LATER}");
    }
    let data = BlockedUser::of(&person, Block { at, user });
    Ok(Message { message, data }.into())
}

#[cfg(test)]
mod tests;
