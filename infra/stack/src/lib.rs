//! What surrounds the functions, read from `template.yaml`: its tables, routes, streams and schedules,
//! a DynamoDB to put the tables in, and the events that API Gateway would send.

pub mod event;
pub mod samples;
pub mod store;
pub mod streams;
pub mod tables;
pub mod template;

pub use store::EmbeddedStore;
pub use template::{Function, Stack, Template};

/// The template of this very source tree.
pub const TEMPLATE: &str = include_str!("../../../template.yaml");
