//! The caller's profile, the verification of phones, and the deletion and export of accounts.

mod confirm_deletion;
mod delete_account;
mod delete_by_phone;
mod export_account;
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
        .on(delete_account::handle)
        .on(confirm_deletion::handle)
        .on(delete_by_phone::handle)
        .on(export_account::handle)
}
