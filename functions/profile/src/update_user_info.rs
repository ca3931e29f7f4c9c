use touchline::api::profile::{UpdateUserInfo, UpdatedUser};
use touchline::api::{Invalid, Message};
use touchline::domain::profile::RenameError;
use touchline::domain::{User, UserId, Username};
use touchline::storage::Reads;
use touchline::storage::users::{Changes, Renamed};
use touchline::{App, Call, Error, Reply};

use crate::no_profile::NO_PROFILE;

pub async fn handle(app: App, call: Call<UpdateUserInfo>) -> Result<Reply<Message<UpdatedUser>>, Error> {
    let (input, id) = (call.input, call.caller.user);
    let today = app.clock.now().date_naive();
    let date_of_birth = input
        .date_of_birth
        .map(|date| date.accepted_on(today))
        .transpose()
        .map_err(|reason| Invalid::field("date_of_birth", reason))?;
    let changes = Changes { name: input.name, email: input.email, date_of_birth };
    let user = match input.username {
        None => app.store.update_user(id, &changes).await?,
        Some(wanted) => update_with_username(&app, id, &wanted.0, &changes).await?,
    };
    let User { id, name, email, .. } = user.ok_or(NO_PROFILE)?;
    Ok(Message { message: "Your details are saved.".into(), data: UpdatedUser { id, name, email } }.into())
}

async fn update_with_username(
    app: &App,
    id: UserId,
    wanted: &Username,
    changes: &Changes,
) -> Result<Option<User>, Error> {
    let user = app.store.user(id, Reads::Consistent).await?.ok_or(NO_PROFILE)?;
    if user.username == *wanted {
        return Ok(app.store.update_user(id, changes).await?);
    }
    if user.username_locked_at.is_some() {
        return Err(RenameError::Locked.into());
    }
    match app.store.rename_user(&user, wanted, changes).await? {
        Renamed::Now => {
            // Chat logout works by username. After the rename, a logout would no longer reach the devices of
            // the old username, so log them out now.
            if let Err(error) = app.chat.log_out_everywhere(&user.username).await {
                tracing::warn!(%error, "the chat devices of a former username are still logged in");
            }
            Ok(app.store.user(id, Reads::Consistent).await?)
        }
        Renamed::Already => Ok(app.store.update_user(id, changes).await?),
    }
}

#[cfg(test)]
mod tests;
