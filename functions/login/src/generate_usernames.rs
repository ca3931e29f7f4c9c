use touchline::api::login::{GenerateUsernames, Suggestions};
use touchline::domain::username;
use touchline::{App, Call, Error, Reply};

use crate::suggest;

pub async fn handle(app: App, call: Call<GenerateUsernames>) -> Result<Reply<Suggestions>, Error> {
    let with_numbers = call.input.include_numbers.unwrap_or(false);
    let candidates = username::candidates(&call.input.base, with_numbers, |below| app.random.below(below));
    Ok(Suggestions { suggestions: suggest::free(&app, candidates).await? }.into())
}
