use touchline::api::profile::{UpdateUserInfo, UpdatedUser};
use touchline::api::{Invalid, Message};
use touchline::domain::User;
use touchline::domain::profile::RenameError;
use touchline::storage::users::{Changes, Renamed};
use touchline::{App, Call, Error, Reply};

use crate::NO_RECORD;

pub async fn handle(app: App, call: Call<UpdateUserInfo>) -> Result<Reply<Message<UpdatedUser>>, Error> {
    let input = call.input;
    let today = app.clock.now().date_naive();
    let date_of_birth = input
        .date_of_birth
        .map(|date| date.accepted_on(today))
        .transpose()
        .map_err(|reason| Invalid::field("date_of_birth", reason))?;
    let changes = Changes { name: input.name, email: input.email, date_of_birth };

    let id = call.caller.user;
    let user = match input.username {
        None => app.store.update_user(id, &changes).await?,
        Some(wanted) => {
            let user = app.store.user(id).await?.ok_or(NO_RECORD)?;
            if user.username == wanted.0 {
                app.store.update_user(id, &changes).await?
            } else {
                if user.chat_since.is_some() {
                    return Err(RenameError::Locked.into());
                }
                match app.store.rename_user(&user, &wanted.0, &changes).await? {
                    Renamed::Now => {
                        // Later logouts use the new username, so the chat devices of the old one end here.
                        if let Err(error) = app.chat.forget(&user.username).await {
                            tracing::warn!(%error, "the chat devices of a former username are still logged in");
                        }
                        app.store.user(id).await?
                    }
                    Renamed::Before => app.store.update_user(id, &changes).await?,
                }
            }
        }
    };
    let User { id, name, email, .. } = user.ok_or(NO_RECORD)?;
    Ok(Message { message: "Your details are saved.".into(), data: UpdatedUser { id, name, email } }.into())
}

#[cfg(test)]
mod tests;
