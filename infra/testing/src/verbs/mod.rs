//! What personas do, one file for each function. Every verb is one request.

pub mod chat;
pub mod coins;
pub mod homeserver;
pub mod login;
pub mod matches;
pub mod predictions;
pub mod profile;
pub mod sms_logs;
pub mod teams;
