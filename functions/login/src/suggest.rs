use touchline::domain::Username;
use touchline::{App, Error};

/// How many suggestions an answer holds.
const WANTED: usize = 5;

/// The first few of `candidates` that are free.
pub async fn free(app: &App, candidates: Vec<Username>) -> Result<Vec<Username>, Error> {
    let mut free = app.store.free_usernames(candidates).await?;
    free.truncate(WANTED);
    Ok(free)
}
