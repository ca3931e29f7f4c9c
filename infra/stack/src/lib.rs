//! The stack around the functions: the tables, routes, streams and schedules of `template.yaml`, an embedded
//! DynamoDB for the tables, and the events that API Gateway and DynamoDB Streams send to functions.
//!
//! Each module imports only modules below it in this list.

pub mod tables;
pub mod template;

pub mod resources;
pub mod store;

mod server;

pub mod access;
pub mod direct;
pub mod event;
pub mod gzip;
pub mod samples;
pub mod streams;
pub mod yaml;

pub use resources::{Function, Stack};
pub use store::EmbeddedStore;
pub use template::Template;

/// The `template.yaml` of this source tree.
pub const TEMPLATE: &str = include_str!("../../../template.yaml");
