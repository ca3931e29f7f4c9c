//! The API as data: one type per endpoint, and [`ALL`], the table of all endpoints.
//!
//! The Lambda functions register their handlers by these types, so no handler repeats its path. Contract
//! tests compare the table with `template.yaml`, with the Lambda functions, with the samples in `events/` and
//! with the files in `docs/`.

pub mod account;
pub mod blocks;
mod body;
mod caller;
pub mod chat;
pub mod coins;
mod cursor;
pub mod endpoint;
mod error_code;
pub mod homeserver;
mod input;
pub mod invite_links;
pub mod leaderboards;
pub mod login;
pub mod matches;
pub mod meta;
pub mod my_prediction;
mod page;
pub mod predictions;
pub mod profile;
pub mod reports;
#[cfg(feature = "openapi")]
pub mod schema;
pub mod sms_logs;
mod table;
pub mod teams;
pub mod users;

pub use body::{Data, Message, MessageOnly};
pub use caller::{Anyone, Caller, Developer, ErrorFormat, Homeserver, LOG_SECRET_HEADER, SignedIn};
pub use cursor::{Cursor, Position};
pub(crate) use endpoint::endpoint;
pub use endpoint::{Endpoint, Route, parameter_names, shape};
pub use error_code::ErrorCode;
#[cfg(feature = "openapi")]
pub use input::InputField;
pub(crate) use input::input;
pub use input::{Fields, Input, Invalid, NoInput};
pub use page::{CursorPage, NextPage, NumberedPage, PageMeta, PageNumber, PerPage};
pub use table::ALL;
#[cfg(feature = "openapi")]
pub use table::OPERATIONS;
