//! The development log of SMS messages.

mod list;

use touchline::{App, Router};

/// The log shows codes, so production has no such route.
#[must_use]
pub fn router(app: App) -> Router {
    let shows_codes = app.config.environment.shows_codes();
    let router = Router::new(app);
    if shows_codes { router.on(list::handle) } else { router }
}
