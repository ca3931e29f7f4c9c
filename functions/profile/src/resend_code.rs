use touchline::api::Message;
use touchline::api::login::CodeSent;
use touchline::api::profile::ResendCode;
use touchline::domain::Purpose;
use touchline::{App, Call, Error, Reply, codes};

pub async fn handle(app: App, call: Call<ResendCode>) -> Result<Reply<Message<CodeSent>>, Error> {
    let request = codes::Request {
        phone: &call.input.phone,
        purpose: Purpose::Verify,
        user: Some(call.caller.user),
        again: true,
        address: call.address,
    };
    let expires_in = codes::send(&app, request).await?;
    Ok(Message { message: "A new code is on its way.".into(), data: CodeSent { expires_in } }.into())
}
