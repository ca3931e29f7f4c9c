//! The API as data: one type per endpoint, and [`ALL`], the table of them.
//!
//! A path is written here and nowhere else in the product. Functions register handlers by these types. The
//! contract tests compare `template.yaml`, `events/` and the functions with the table.

mod body;
mod caller;
pub mod chat;
pub mod coins;
pub mod endpoint;
mod error_code;
pub mod homeserver;
mod input;
pub mod login;
pub mod matches;
pub mod meta;
mod page;
pub mod predictions;
pub mod profile;
#[cfg(feature = "openapi")]
pub mod schema;
#[cfg(all(test, feature = "openapi"))]
mod schema_tests;
pub mod sms_logs;
mod table;
pub mod teams;

pub use body::{Data, Message, MessageOnly};
pub use caller::{Anyone, Caller, ErrorFormat, Homeserver, SignedIn};
pub(crate) use endpoint::endpoint;
pub use endpoint::{Endpoint, Route, parameter_names, shape};
pub use error_code::ErrorCode;
pub(crate) use input::input;
pub use input::{Fields, Input, Invalid, Nothing};
pub use page::{
    Cursor, Id, Listing, NextPage, PageMeta, PageNumber, PageSize, Paged, PerPage, Position, SearchText,
};
pub use table::ALL;
#[cfg(feature = "openapi")]
pub use table::OPERATIONS;
