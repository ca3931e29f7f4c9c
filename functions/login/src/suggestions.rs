use touchline::domain::Username;
use touchline::{App, Error};

/// How many usernames a response suggests.
const COUNT: usize = 5;

/// Returns the first `COUNT` of `candidates` that are free.
pub async fn first_free(app: &App, candidates: Vec<Username>) -> Result<Vec<Username>, Error> {
    let mut free = app.store.free_usernames(candidates).await?;
    free.truncate(COUNT);
    Ok(free)
}
