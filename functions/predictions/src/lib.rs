//! Predictions: making one, a match's, one's own.

mod event_predictions;
mod own_predictions;
mod predict;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app).on(predict::handle).on(own_predictions::handle).on(event_predictions::handle)
}
