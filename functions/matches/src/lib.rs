//! The list of matches, and the details of one match.

mod list_events;
mod one_event;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app).on(list_events::handle).on(one_event::handle)
}
