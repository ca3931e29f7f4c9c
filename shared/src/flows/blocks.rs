//! Blocked users in chat: the chat account of a user ignores the users whom the user has blocked.

use std::collections::HashMap;

use futures_util::future::try_join_all;

use crate::domain::cleanup::Work;
use crate::domain::profile::Person;
use crate::domain::{UserId, Username};
use crate::storage::{Reads, Retry};
use crate::{App, Error};

/// Runs [`sync_ignored_users`]. If it fails, stores that `erasure` must do it. Returns whether it succeeded.
pub async fn sync_ignored_users_or_later(app: &App, user: UserId) -> Result<bool, Error> {
    let Err(error) = sync_ignored_users(app, user).await else { return Ok(true) };
    tracing::warn!(%error, "the ignored users in chat are not up to date yet");
    app.store.save_cleanup(&Work::SyncIgnoredUsers { user }, app.clock.now()).await?;
    Ok(false)
}

/// Makes the chat account of a user ignore exactly those of our users whom the user has blocked. Idempotent. Does nothing
/// if the account is up to date, so it can be repeated until it succeeds.
///
/// The list on the homeserver is always computed from all blocks, so one successful call makes up for all failed ones.
/// Two calls can overlap, and the one with the older blocks can write last. It then finds that the blocks have changed,
/// and starts again.
pub async fn sync_ignored_users(app: &App, user: UserId) -> Result<(), Error> {
    let mut retry = Retry::immediate("the ignored users", 5);
    loop {
        let stored = app.store.blocks(user, Reads::Consistent).await?;
        let Some(owner) = app.store.user(user, Reads::Consistent).await? else { return Ok(()) };
        if stored.is_synced_as(&owner.username) {
            return Ok(());
        }
        let blocked: Vec<UserId> = stored.blocks.users().collect();
        let people = people(app, &[&blocked[..], &stored.unblocked].concat()).await?;
        let names = |users: &[UserId]| -> Vec<Username> {
            users.iter().filter_map(|user| Some(people.get(user)?.username.clone())).collect()
        };
        let (ignored, others) = (names(&blocked), names(&stored.unblocked));
        if let Err(error) = app.chat.update_ignored_users(&owner.username, &ignored, &others).await {
            // The homeserver may carry out the request later, after a newer one.
            app.store.mark_blocks_unsynced(user).await?;
            return Err(error.into());
        }
        if app.store.save_synced_blocks(user, stored.version, &owner.username).await? {
            return Ok(());
        }
        retry.again().await?;
    }
}

/// Reads the public profiles of any number of users.
async fn people(app: &App, users: &[UserId]) -> Result<HashMap<UserId, Person>, Error> {
    let parts = users.chunks(100).map(|part| app.store.people(part));
    Ok(try_join_all(parts).await?.into_iter().flatten().collect())
}
