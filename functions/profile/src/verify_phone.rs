use touchline::api::Message;
use touchline::api::profile::{Verified, VerifyPhone};
use touchline::domain::Purpose;
use touchline::domain::code::{VerificationError, WrongCode};
use touchline::storage::users::ChangePhone;
use touchline::{App, Call, Error, Reply, codes};

use crate::NO_RECORD;

pub async fn handle(app: App, call: Call<VerifyPhone>) -> Result<Reply<Message<Verified>>, Error> {
    let (phone, id) = (call.input.phone, call.caller.user);
    let kept = codes::check(&app, &phone, Purpose::Verify, Some(id), &call.input.code).await?;
    let user = app.store.user(id).await?.ok_or(NO_RECORD)?;
    match &user.pending_phone {
        Some(pending) if *pending == phone => {}
        // Verified by another request with the same code, since ours looked.
        None if user.phone == phone => return Err(WrongCode.into()),
        _ => return Err(VerificationError::PhoneMismatch.into()),
    }
    let nonce = app.random.word(16);
    app.store.change_phone(&ChangePhone { user: &user, phone: &phone, code: &kept, nonce: &nonce }).await?;
    let message = "Your phone number is verified.".into();
    Ok(Message { message, data: Verified { verified: true, phone } }.into())
}
