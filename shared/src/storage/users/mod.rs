//! The `users` table: records, logins, names, phones and their codes.

mod codes;
mod names;
mod phones;
mod profiles;
mod sessions;

pub use codes::{Attempt, Issue, IssueError, KeptCode, ReserveError};
pub use phones::{ChangePhone, PhoneOwner};
pub(super) use profiles::read_team;
pub use profiles::{Changes, ChosenTeam, NewUser, RegisterError, RenameFailed, Renamed};
pub use sessions::Session;
