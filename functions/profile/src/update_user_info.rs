use touchline::api::profile::{UpdateUserInfo, UpdatedUser};
use touchline::api::{Invalid, Message};
use touchline::domain::User;
use touchline::storage::users::Changes;
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
                app.store.rename_user(&user, &wanted.0, &changes).await?;
                app.store.user(id).await?
            }
        }
    };
    let User { id, name, email, .. } = user.ok_or(NO_RECORD)?;
    Ok(Message { message: "Your details are saved.".into(), data: UpdatedUser { id, name, email } }.into())
}
