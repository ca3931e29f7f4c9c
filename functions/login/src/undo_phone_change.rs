use touchline::api::login::{LoggedIn, UndoPhoneChange};
use touchline::domain::recovery::UndoError;
use touchline::domain::{Token, User};
use touchline::flows::codes;
use touchline::storage::Reads;
use touchline::storage::users;
use touchline::{App, Call, Error, Reply};

use crate::verify_code::{logged_in, new_session};

/// Gives an account back to the owner of its previous phone. Only the right code tells whether there is such an account.
pub async fn handle(app: App, call: Call<UndoPhoneChange>) -> Result<Reply<LoggedIn>, Error> {
    let (phone, address) = (call.input.phone, call.address.as_ref());
    let network = codes::network(&app, &phone, address)?;
    let code = codes::check_login(&app, &phone, &call.input.code, address, network.as_ref()).await?;
    let id = app.store.previous_owner(&phone).await?.ok_or(UndoError::NoChange)?;
    let user = app.store.user(id, Reads::Consistent).await?;
    let can_return =
        |user: &User| user.recovery.as_ref().is_some_and(|it| it.allows(&phone, app.clock.now()));
    let user = user.filter(can_return).ok_or(UndoError::NoChange)?;
    let (token, session) = (Token::new(id, app.random.bytes()), new_session(&app, call.input.device_name));
    let nonce = app.random.word(16);
    let undo = users::UndoPhoneChange {
        user: &user,
        phone: &phone,
        code: &code,
        network: network.as_ref(),
        nonce: &nonce,
        token: &token,
        session: &session,
    };
    let owner = app.store.undo_phone_change(&undo, app.clock.now()).await?;
    Ok(logged_in(&app, phone, owner, &code, &token, &session, None).await?.into())
}

#[cfg(test)]
mod tests;
