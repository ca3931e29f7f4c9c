//! The local stack: the whole product on one machine, wired as `template.yaml` says.
//!
//! An HTTP request becomes the event that API Gateway sends to Lambda. The event passes through `lambda_http` into
//! the same code that runs in Lambda. That code uses a real DynamoDB engine through the AWS SDK.
//!
//! Each group of modules imports only from the groups below it.

mod stack;

mod gateway;
mod schedules;

mod console;
mod streams;

mod crowd;
mod play;

mod data_folder;
mod files;
mod functions;
mod settings;
mod traffic;

mod error;
mod host;

mod calls;

mod delivery;
mod demo;
mod options;
pub mod output;
mod prices;
mod registration;

mod draw;
mod spans;

pub use crowd::Crowd;
pub use demo::league as demo_league;
pub use error::StartError;
pub use functions::{HTTP_FUNCTIONS, HttpFunction};
pub use options::{Command, Options};
pub use registration::registration;
pub use stack::{DemoLeague, LocalStack};
