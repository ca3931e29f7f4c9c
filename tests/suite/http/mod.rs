//! The API as an app sees it. Runs against any address; see `main.rs`.

mod bad_input;
mod chat;
mod coins;
mod feed;
mod login;
mod matches;
mod predictions;
mod profile;
mod races;
mod sessions;
mod sms_logs;
mod tally;
