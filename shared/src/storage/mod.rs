//! DynamoDB: keys, items, conditional writes. One file or folder per table or part of a table.
//!
//! DynamoDB types stay inside this module. A method that makes a conditional write turns a failed condition
//! into a domain result. Every other failure becomes a [`StoreError`].

mod batch;
pub mod catalog;
pub mod cleanups;
mod client;
pub mod closed_boards;
mod condition;
mod conflict_retry;
pub mod day_limit;
pub mod directory;
mod error;
pub mod exactly_once;
mod hour_limit;
pub mod invite_links;
mod item;
mod item_cache;
pub mod keys;
pub mod members;
pub mod meter;
pub mod pages;
pub mod predictions;
mod rate_limit;
pub mod recounts;
pub mod room_removal;
pub mod room_tables;
pub mod rooms;
pub mod sequence;
pub mod settlements;
pub mod sms_counts;
pub mod sms_logs;
pub mod standings;
mod store;
pub mod stream;
pub mod tallies;
pub mod users;
pub mod wallets;

pub use client::connect;
pub use conflict_retry::Retry;
pub use error::StoreError;
pub use store::{Reads, Store};
