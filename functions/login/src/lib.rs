//! Login, logout and the choice of a username.

mod check_username;
mod generate_usernames;
mod list_sessions;
mod login;
mod logout;
mod request_code;
mod revoke_session;
mod suggestions;
mod undo_phone_change;
mod verify_code;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app)
        .on(request_code::handle)
        .on(verify_code::handle)
        .on(login::handle)
        .on(check_username::handle)
        .on(generate_usernames::handle)
        .on(logout::handle)
        .on(list_sessions::handle)
        .on(revoke_session::handle)
        .on(undo_phone_change::handle)
}
