//! The caller's profile, the profiles of other users, the verification of phones, and the deletion and export of accounts.

mod confirm_deletion;
mod delete_account;
mod delete_by_phone;
mod export_account;
mod initiate_verification;
mod me;
mod no_profile;
mod resend_code;
mod search_users;
mod update_user_info;
mod user_profile;
mod verify_phone;

use touchline::{App, Router};

#[must_use]
pub fn router(app: App) -> Router {
    Router::new(app)
        .on(me::handle)
        .on(update_user_info::handle)
        .on(search_users::handle)
        .on(user_profile::handle)
        .on(initiate_verification::handle)
        .on(verify_phone::handle)
        .on(resend_code::handle)
        .on(delete_account::handle)
        .on(confirm_deletion::handle)
        .on(delete_by_phone::handle)
        .on(export_account::handle)
}
