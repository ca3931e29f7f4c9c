//! The health check, the OpenAPI document, and the page for deleting an account.

mod deletion_page;
mod description;
mod health;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app).on(health::handle).on(description::handle).on(deletion_page::handle)
}
