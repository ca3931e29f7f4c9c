//! Everything the Touchline functions share.
//!
//! `api` says what can be asked, `domain` holds the rules, `storage` and `ports` reach the outside,
//! `http` turns one into the other.

pub mod api;
pub mod app;
pub mod codes;
pub mod coins;
pub mod config;
pub mod domain;
pub mod http;
pub mod lambda;
pub mod ports;
pub mod rooms;
pub mod storage;
pub mod telemetry;

pub use app::App;
pub use http::{Call, Error, Reply, Router};
