use touchline::api::Message;
use touchline::api::profile::{InitiateVerification, VerificationStarted};
use touchline::domain::Purpose;
use touchline::domain::code::VerificationError;
use touchline::{App, Call, Error, Reply, codes};

/// One verification is pending at a time: a new phone takes the place of the one before.
pub async fn handle(
    app: App,
    call: Call<InitiateVerification>,
) -> Result<Reply<Message<VerificationStarted>>, Error> {
    let (phone, user) = (call.input.phone, call.caller.user);
    if app.store.phone_owner(&phone).await?.is_some_and(|owner| owner != user) {
        return Err(VerificationError::PhoneTaken.into());
    }
    let request = codes::Request {
        phone: &phone,
        purpose: Purpose::Verify,
        user: Some(user),
        again: false,
        address: call.address,
    };
    let expires_in = codes::send(&app, request).await?;
    // After the sending, so that one that is refused leaves the earlier verification as it was.
    if let Some(before) = app.store.set_pending_phone(user, &phone).await?
        && before != phone
    {
        app.store.cancel_verification(user, &before).await?;
    }
    let message = "The code is on its way.".into();
    Ok(Message { message, data: VerificationStarted { expires_in, phone } }.into())
}
