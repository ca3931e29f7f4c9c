//! A user's own record, and verifying a phone.

mod initiate_verification;
mod me;
mod resend_code;
mod update_user_info;
mod verify_phone;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app)
        .on(me::handle)
        .on(update_user_info::handle)
        .on(initiate_verification::handle)
        .on(verify_phone::handle)
        .on(resend_code::handle)
}

/// What it means when a session's user has no record: sessions are made after records, which stay.
const NO_RECORD: touchline::Error = touchline::Error::Broken("a session's user has no record");
