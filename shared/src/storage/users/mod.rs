//! The `users` table: profiles, sessions, usernames, phones and one-time codes.

mod ages;
mod codes;
mod names;
mod phones;
mod profiles;
mod sessions;
mod verifications;

pub(super) use codes::read_code;
pub use codes::{Admission, Attempt, Counted, Issue, IssueError, ReserveError, StoredCode};
pub use phones::{ChangePhone, PhoneOwner, UndoFailed, UndoPhoneChange};
pub(super) use profiles::read_team;
pub use profiles::{Changes, ChosenTeam, NewUser, RegisterError, RenameFailed, Renamed, UpdateError};
pub(super) use sessions::ended_device;
pub use sessions::{Session, Which};
pub use verifications::Verification;
