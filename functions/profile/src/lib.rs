//! The caller's profile, and the verification of phones.

mod initiate_verification;
mod me;
mod no_profile;
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
