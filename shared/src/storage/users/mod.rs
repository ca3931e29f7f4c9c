//! The `users` table: profiles, sessions, usernames, phones, one-time codes, blocks, reports and moderation.

mod ages;
mod audit;
mod blocks;
mod codes;
mod deletion;
mod hashing;
mod monthly;
mod names;
mod phones;
mod profiles;
mod reports;
mod search;
mod sessions;
mod suspensions;
mod verifications;

pub use audit::BegunAction;
pub use blocks::{Blocked, StoredBlocks};
pub use codes::{Admission, Attempt, Counted, Issue, IssueError, ReserveError, StoredCode, UserCode};
pub use deletion::{DeleteAccount, DeletionCode, Erasure};
pub use hashing::NamesMoved;
pub use monthly::MonthlyPosition;
pub use phones::{ChangePhone, PhoneOwner, UndoFailed, UndoPhoneChange};
pub(super) use profiles::read_team;
pub use profiles::{Changes, ChosenTeam, NewUser, RegisterError, RenameFailed, UpdateError};
pub use reports::{ReportsPage, SavedReport};
pub use search::{FoundUsername, UsernamesIndexed};
pub(super) use sessions::ended_device;
pub use sessions::{Session, Which};
pub use suspensions::Suspension;
pub use verifications::Verification;
