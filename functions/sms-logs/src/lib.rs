//! The development log of SMS messages.

mod list;

use touchline::{App, Router};

/// Serves the log only outside production, because the log shows codes.
#[must_use]
pub fn router(app: App) -> Router {
    let shows_codes = app.config.environment.shows_codes();
    let router = Router::new(app);
    if shows_codes { router.on(list::handle) } else { router }
}
