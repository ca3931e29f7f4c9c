//! Plays the whole product in one process, in virtual time, under the faults of AWS.
//!
//! A seed determines a world: people, matches, faults, crashes, delays. Requests go through the real router, the real
//! handlers and the real SDK to a real DynamoDB engine. The network, the clock, API Gateway, Lambda, DynamoDB Streams,
//! schedules, the homeserver and SNS are models. The same seed always gives the same trace, because everything runs in
//! one thread on a paused clock.
//!
//! - `dice`, `clock`, `runtime`, `signal`, `trace`: randomness, time, waiting, and the record of what happened
//! - `settings`: the stack of the template and the configuration of the functions
//! - `fault`, `process`: what can go wrong
//! - `dynamodb`, `streams`, `lambda`, `gateway`, `homeserver`, `sms`: models of the services around the product
//! - `limits`, `costs`: AWS's limits, and what a request may cost
//! - `season`, `person`, `operator`: what happens in the world
//! - `checks`: what must hold at the end
//! - `world`: puts everything together
//! - `shrink`: makes a failing world smaller
//! - `bank`: small schedules of concurrent requests to one wallet, on the same network
//! - `league`: small worlds of leaderboards, on the same network
//! - `small_app`, `failure`: what `bank` and `league` share
//! - `final_match`: a final, as a scale model

#![expect(clippy::disallowed_methods, reason = "tokio's paused clock is the virtual time of a world")]

pub mod bank;
mod checks;
mod clock;
mod costs;
mod dice;
mod dynamodb;
mod failure;
mod fault;
pub mod final_match;
mod gateway;
mod homeserver;
mod lambda;
pub mod league;
pub mod limits;
mod operator;
mod person;
mod process;
mod runtime;
mod season;
mod settings;
mod shrink;
mod signal;
mod small_app;
mod sms;
mod streams;
mod trace;
mod world;

pub use dynamodb::{Guard, Guards};
pub use shrink::shrink;
pub use world::{Plan, Report, current_seed, play};
