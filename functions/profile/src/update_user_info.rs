use touchline::api::profile::{UpdateUserInfo, UpdatedUser};
use touchline::api::{Invalid, Message};
use touchline::domain::profile::{BirthDateError, RenameError};
use touchline::domain::{User, UserId, Username};
use touchline::flows::codes;
use touchline::storage::Reads;
use touchline::storage::users::Changes;
use touchline::{App, Call, Error, Reply};

use crate::no_profile::NO_PROFILE;

pub async fn handle(app: App, call: Call<UpdateUserInfo>) -> Result<Reply<Message<UpdatedUser>>, Error> {
    let (input, id) = (call.input, call.caller.user);
    if let Some(name) = &input.name {
        name.accepted_by(&app.config.names).map_err(|reason| Invalid::field("name", reason))?;
    }
    let remembers_refusals = app.config.age.remembers_refusals;
    let accepted = input.date_of_birth.map(|date| date.accepted_on(app.clock.now().date_naive()));
    if accepted == Some(Err(BirthDateError::TooYoung)) && remembers_refusals {
        app.store.refuse_age(id, app.clock.now()).await?;
    }
    let date_of_birth = accepted.transpose().map_err(|error| Invalid::field("date_of_birth", error))?;
    if date_of_birth.is_some() && remembers_refusals {
        check_earlier_account(&app, id).await?;
    }
    let changes = Changes { name: input.name, email: input.email, date_of_birth, remembers_refusals };
    // If the rename is rejected, nothing is saved. If the function stops after it, a retry saves the other changes.
    if let Some(wanted) = input.username {
        rename(&app, id, wanted).await?;
    }
    let user = app.store.update_user(id, &changes, app.clock.now()).await?;
    let User { id, name, email, .. } = user.ok_or(NO_PROFILE)?;
    Ok(Message { message: "Your details are saved.".into(), data: UpdatedUser { id, name, email } }.into())
}

/// Rejects a date of birth if the age of an earlier account with the same phone was refused. That account was deleted.
async fn check_earlier_account(app: &App, id: UserId) -> Result<(), Error> {
    let user = app.store.user(id, Reads::Consistent).await?.ok_or(NO_PROFILE)?;
    let phone = codes::phone_digest(app, &user.phone)?;
    if app.store.is_age_refused(&phone, app.clock.now()).await? {
        return Err(Invalid::field("date_of_birth", BirthDateError::RefusedBefore).into());
    }
    Ok(())
}

/// Renames a user, unless they have the name already.
async fn rename(app: &App, id: UserId, wanted: Username) -> Result<(), Error> {
    let user = app.store.user(id, Reads::Consistent).await?.ok_or(NO_PROFILE)?;
    if user.username == wanted {
        return Ok(());
    }
    let wanted =
        wanted.accepted_by(&app.config.names).map_err(|reason| Invalid::field("username", reason))?;
    // A user who has joined a room in a Matrix client keeps the username, even before the event of the join arrives.
    if user.username_locked_at.is_some() || app.chat.has_rooms(&user.username).await? {
        return Err(RenameError::Locked.into());
    }
    app.store.rename_user(&user, &wanted, app.clock.now()).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
