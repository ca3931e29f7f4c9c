//! Teams, and a user's favourites.

mod list_teams;
mod save_other_teams;
mod save_primary_team;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app).on(list_teams::handle).on(save_primary_team::handle).on(save_other_teams::handle)
}
