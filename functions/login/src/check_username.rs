use touchline::api::login::{Availability, CheckUsername};
use touchline::domain::username::{self, Base};
use touchline::{App, Call, Error, Reply};

use crate::suggest;

/// A name that is taken is no error: the answer says so and suggests others.
pub async fn handle(app: App, call: Call<CheckUsername>) -> Result<Reply<Availability>, Error> {
    let name = call.input.username;
    if !name.is_reserved() && !app.store.is_username_taken(&name).await? {
        let message = format!("{} is available.", name.as_str());
        return Ok(Availability { available: true, message, suggestions: None }.into());
    }
    let base = Base::from(&name);
    let draw = |below| app.random.below(below);
    let mut candidates = username::candidates(&base, false, draw);
    candidates.truncate(3);
    candidates.extend(username::candidates(&base, true, draw));
    let suggestions = suggest::free(&app, candidates).await?;
    let message = format!("{} is not available.", name.as_str());
    Ok(Availability { available: false, message, suggestions: Some(suggestions) }.into())
}
