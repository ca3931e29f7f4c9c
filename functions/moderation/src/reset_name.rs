use serde_json::{Value, json};
use touchline::domain::profile::RenameError;
use touchline::domain::{User, username};
use touchline::storage::users::RenameFailed;
use touchline::{App, Error};

use crate::action::{Action, Beginning};
use crate::error::ModerationError;
use crate::suspend::UserSubject;

/// How many generated usernames are tried. Almost all are free.
const CANDIDATES: usize = 5;

/// Removes the display name of a user, and replaces the username by a generated one, unless it is locked.
pub async fn reset_name(app: &App, order: Action<UserSubject>) -> Result<Value, ModerationError> {
    let user = order.subject.user(app).await?;
    let begun = match order.begin(app, "reset_name", format!("user {}", user.id)).await? {
        Beginning::New(begun) => begun,
        Beginning::Replay(result) => return Ok(result),
    };
    let name_removed = app.store.remove_display_name(user.id, app.clock.now()).await?;
    let has_new_username = rename(app, &user).await?;
    let mut result = json!({
        "user_id": user.id,
        "name_removed": name_removed,
        // Without the username: the result is stored, and would outlive the account.
        "username_changed": has_new_username,
    });
    if !has_new_username {
        let locked =
            "The username is locked, because the user is known by it in chat. Suspend the user instead.";
        result["note"] = locked.into();
    }
    begun.finish(app, result).await
}

/// Gives a user a generated username. Returns false if the username is locked.
async fn rename(app: &App, user: &User) -> Result<bool, ModerationError> {
    if user.username_locked_at.is_some() || app.chat.has_rooms(&user.username).await? {
        return Ok(false);
    }
    for _ in 0..CANDIDATES {
        let new = username::random(|below| app.random.below(below));
        match app.store.rename_user(user, &new, app.clock.now()).await {
            Ok(()) => return Ok(true),
            Err(RenameFailed::Rejected(RenameError::Taken)) => {}
            Err(RenameFailed::Rejected(RenameError::Locked)) => return Ok(false),
            Err(RenameFailed::Store(error)) => return Err(error.into()),
        }
    }
    Err(Error::Broken("no generated username was free").into())
}
