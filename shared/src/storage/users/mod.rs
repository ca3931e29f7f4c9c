//! The `users` table: records, logins, names, phones and their codes.

mod codes;
mod names;
mod phones;
mod profiles;
mod sessions;

pub use codes::{Issue, IssueError, KeptCode, ReserveError};
pub use phones::ChangePhone;
pub use profiles::{Changes, NewUser, RegisterError, RenameFailed};
pub use sessions::Session;

use serde::{Deserialize, Serialize};

use crate::domain::UserId;

/// Says whose a phone or a username is.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Owner {
    user_id: UserId,
}
