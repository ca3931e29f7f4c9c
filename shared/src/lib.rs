//! Everything that Touchline's Lambda functions share, in layers. Each layer imports only from the layers
//! below it:
//!
//! ```text
//! lambda, telemetry    process entry, logs, metrics
//! http                 router, caller identification, error responses
//! flows                workflows that several functions share
//! app, error           the dependencies of handlers; the reasons why a request fails
//! storage, ports       DynamoDB; SMS, chat, clock, randomness, web
//! api                  the table of endpoints, their inputs, outputs and error codes
//! config               typed settings
//! domain               rules and types, pure
//! ```

pub mod api;
pub mod app;
pub mod config;
pub mod domain;
mod error;
pub mod flows;
pub mod http;
pub mod lambda;
pub mod ports;
pub mod storage;
pub mod telemetry;

pub use app::App;
pub use error::Error;
pub use http::{Call, Reply, Router};
