//! The lists of matches, the details of one match, and the list of tournaments.

mod extras;
mod list_events;
mod list_tournaments;
mod list_upcoming;
mod one_event;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app)
        .on(list_upcoming::handle)
        .on(list_events::handle)
        .on(one_event::handle)
        .on(list_tournaments::handle)
}
