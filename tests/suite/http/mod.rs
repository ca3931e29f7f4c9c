//! Tests of the API over HTTP, as a client app uses it. `main.rs` lists the stacks on which they run.

mod account;
mod bad_input;
mod caching;
mod chat;
mod coins;
mod feed;
mod invite_links;
mod leaderboards;
mod load;
mod login;
mod matches;
mod moderation;
mod predictions;
mod profile;
mod races;
mod recount;
mod sessions;
mod sms_logs;
mod tally;
