//! The development log of codes.

mod list;

use touchline::{App, Router};

/// In production there is no such route, whatever is asked of it.
#[must_use]
pub fn router(app: App) -> Router {
    let shown = app.config.environment.shows_codes();
    let router = Router::new(app);
    if shown { router.on(list::handle) } else { router }
}
