use touchline::api::Message;
use touchline::api::login::{CodeSent, RequestCode};
use touchline::domain::CodeRequest;
use touchline::flows::codes;
use touchline::{App, Call, Error, Reply, lambda};

/// Sends a login code. The response does not reveal whether the phone belongs to a user.
pub async fn handle(app: App, call: Call<RequestCode>) -> Result<Reply<Message<CodeSent>>, Error> {
    let phone = call.input.phone;
    let expires_in = codes::send(&app, &phone, CodeRequest::Login, call.address.as_ref())
        .await
        .inspect_err(|error| lambda::count_refusal(&app, error))?;
    let message = format!("We sent a code to {}.", phone.as_str());
    Ok(Message { message, data: CodeSent { expires_in } }.into())
}

#[cfg(test)]
mod guard_tests;
#[cfg(test)]
mod test_phone_tests;
#[cfg(test)]
mod tests;
