//! The verbs: methods of a persona, each for one request to the API. Each file covers one Lambda function.
//! `homeserver` covers the requests that the homeserver sends, and `blocks` and `reports` those
//! that the function `chat` serves, too.

pub mod blocks;
pub mod chat;
pub mod coins;
pub mod homeserver;
pub mod leaderboards;
pub mod login;
pub mod matches;
pub mod predictions;
pub mod profile;
pub mod reports;
pub mod sms_logs;
pub mod teams;
