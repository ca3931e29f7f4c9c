//! The API as an app sees it. Holds to any address; see `main.rs`.

mod bad_input;
pub(crate) mod chat;
mod coins;
mod login;
mod matches;
mod predictions;
mod profile;
mod races;
mod rare;
mod sms_logs;
