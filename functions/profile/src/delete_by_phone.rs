use touchline::api::MessageOnly;
use touchline::api::account::DeleteByPhone;
use touchline::domain::Phone;
use touchline::flows::{codes, sms_guard};
use touchline::http::log_user;
use touchline::storage::Reads;
use touchline::storage::users::{DeleteAccount, DeletionCode};
use touchline::{App, Call, Error, Reply};

use crate::confirm_deletion::{deleted, end_all_sessions, prepare};
use crate::delete_account::check_phone_is_settled;

/// Deletes the account of a phone. The response shows whether the phone has an account only if the code is right.
pub async fn handle(app: App, call: Call<DeleteByPhone>) -> Result<Reply<MessageOnly>, Error> {
    let (phone, address) = (call.input.phone, call.address.as_ref());
    let network = codes::network(&app, &phone, address)?;
    let code = codes::check_login(&app, &phone, &call.input.code, address, network.as_ref()).await?;
    let nonce = app.random.word(16);
    app.store.spend_code(&phone, &code, &nonce).await?;
    let result = delete(&app, &phone, &nonce).await;
    // The deletion failed, so make the code usable again, for example for a login.
    if result.is_err()
        && let Err(error) = app.store.unspend_code(&phone, &code, &nonce).await
    {
        tracing::warn!(%error, "the deletion failed, and its code could not be restored");
    }
    result?;
    sms_guard::count_entry(&app, &phone, &code).await;
    Ok(deleted().into())
}

async fn delete(app: &App, phone: &Phone, nonce: &str) -> Result<(), Error> {
    let owner = app.store.phone_owner(phone).await?.ok_or(Error::UserNotFound)?;
    log_user(owner.user_id);
    if owner.suspended_at.is_some() {
        return Err(Error::Suspended);
    }
    let user = app.store.user(owner.user_id, Reads::Consistent).await?.ok_or(Error::UserNotFound)?;
    check_phone_is_settled(app, &user)?;
    prepare(app, &user).await?;
    let deletion = DeleteAccount { user: &user, code: DeletionCode::Login, nonce };
    app.store.delete_account(&deletion, app.clock.now()).await?;
    end_all_sessions(app, user.id).await;
    Ok(())
}

#[cfg(test)]
mod tests;
