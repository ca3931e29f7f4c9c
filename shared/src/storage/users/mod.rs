//! The `users` table: profiles, sessions, usernames, phones and one-time codes.

mod codes;
mod names;
mod phones;
mod profiles;
mod sessions;

pub use codes::{Attempt, Issue, IssueError, ReserveError, StoredCode};
pub use phones::{ChangePhone, PhoneOwner};
pub(super) use profiles::read_team;
pub use profiles::{Changes, ChosenTeam, NewUser, RegisterError, RenameFailed, Renamed};
pub use sessions::Session;
