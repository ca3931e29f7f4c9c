//! The health check and the OpenAPI document.

mod description;
mod health;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app).on(health::handle).on(description::handle)
}
