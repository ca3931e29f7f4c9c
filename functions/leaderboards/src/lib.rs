//! The leaderboards.

mod leaderboard;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app).on(leaderboard::handle)
}
