//! The endpoints that make a prediction, and that list the predictions of a match, of a room or of the
//! caller.

mod event_predictions;
mod own_predictions;
mod predict;
mod room_predictions;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app)
        .on(predict::handle)
        .on(own_predictions::handle)
        .on(event_predictions::handle)
        .on(room_predictions::handle)
}

#[cfg(test)]
mod testing;
