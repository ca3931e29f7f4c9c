use touchline::api::Message;
use touchline::api::account::DeleteAccount;
use touchline::api::login::CodeSent;
use touchline::domain::{CodeRequest, User};
use touchline::flows::codes;
use touchline::storage::Reads;
use touchline::{App, Call, Error, Reply, lambda};

use crate::no_profile::NO_PROFILE;

/// Sends a code to the account's phone, so that a stolen token alone cannot delete the account.
pub async fn handle(app: App, call: Call<DeleteAccount>) -> Result<Reply<Message<CodeSent>>, Error> {
    let user = app.store.user(call.caller.user, Reads::Consistent).await?.ok_or(NO_PROFILE)?;
    check_phone_is_settled(&app, &user)?;
    let sending = CodeRequest::DeleteAccount(user.id);
    let expires_in = codes::send(&app, &user.phone, sending, call.address.as_ref())
        .await
        .inspect_err(|error| lambda::count_refusal(&app, error))?;
    let message = "We sent a code to your phone. Enter it to delete your account. This cannot be undone.";
    Ok(Message { message: message.into(), data: CodeSent { expires_in } }.into())
}

/// Rejects the deletion while the owner of the previous phone can undo a change of the phone. Otherwise a thief could move the
/// account to another phone and delete it.
pub fn check_phone_is_settled(app: &App, user: &User) -> Result<(), Error> {
    match &user.recovery {
        Some(recovery) if recovery.until > app.clock.now() => {
            Err(Error::PhoneChangedRecently { until: recovery.until })
        }
        _ => Ok(()),
    }
}
