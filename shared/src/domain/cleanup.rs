//! Work that follows from a change and must be finished, even if the process crashes or another system is down.

use chrono::serde::ts_milliseconds;
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::session::SessionId;
use super::{MAX_CLOCK_DIFFERENCE, Phone, UserId, Username};

/// One piece of work. It is stored before or together with the change that it follows from, and deleted when it is finished.
/// All work can be repeated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum Work {
    /// Deletes the chat device of a session that has ended.
    LogOutDevice { user: UserId, username: Username, device_id: String },
    /// Deletes all chat devices of a username that its owner no longer has.
    LogOutDevices { username: Username },
    /// Ends the sessions of a user that began until `until`, except one.
    EndSessions {
        user: UserId,
        #[serde(with = "ts_milliseconds")]
        until: DateTime<Utc>,
        except: Option<SessionId>,
    },
    /// Makes the chat account of a user ignore the users whom the user has blocked.
    SyncIgnoredUsers { user: UserId },
    /// Tells the owner of a phone that their account has another phone now.
    TellOldPhone { user: UserId, phone: Phone },
    /// Deletes what is stored about a user who has deleted the account. `usernames` has the former ones, too. The owner
    /// of `previous_phone` could undo a change of the phone.
    EraseUser { user: UserId, usernames: Vec<Username>, phone: Phone, previous_phone: Option<Phone> },
    /// Deletes the messages and the chat accounts of a user who has deleted the account.
    EraseChat { user: UserId, usernames: Vec<Username> },
}

/// The longest duration of a request, and the difference of two clocks. After this time, a login that began before a change
/// has stored its session.
pub const REQUESTS_END: TimeDelta = TimeDelta::seconds(15);

impl Work {
    /// Returns the work of ending all sessions of a user that began before now, except one.
    #[must_use]
    pub fn end_sessions(user: UserId, except: Option<SessionId>, now: DateTime<Utc>) -> Self {
        Self::EndSessions { user, until: now + MAX_CLOCK_DIFFERENCE, except }
    }

    /// Returns whether the work is finished after a run that began at `run`. A request that was under way during a change, for
    /// example a login, may store something after the first run. So a second run must begin after all such requests have ended.
    #[must_use]
    pub fn is_final(&self, since: DateTime<Utc>, run: DateTime<Utc>) -> bool {
        match self {
            Self::LogOutDevice { .. }
            | Self::LogOutDevices { .. }
            | Self::EndSessions { .. }
            | Self::SyncIgnoredUsers { .. }
            | Self::EraseUser { .. }
            | Self::EraseChat { .. } => run - since >= REQUESTS_END,
            Self::TellOldPhone { .. } => true,
        }
    }

    /// Returns whether the work is superfluous after `user` has deleted the account.
    #[must_use]
    pub fn ends_with_account(&self, user: UserId) -> bool {
        match self {
            Self::LogOutDevice { user: owner, .. }
            | Self::EndSessions { user: owner, .. }
            | Self::SyncIgnoredUsers { user: owner }
            | Self::TellOldPhone { user: owner, .. } => *owner == user,
            Self::LogOutDevices { .. } | Self::EraseUser { .. } | Self::EraseChat { .. } => false,
        }
    }

    /// Returns whether the work needs the homeserver.
    #[must_use]
    pub fn needs_chat(&self) -> bool {
        match self {
            Self::LogOutDevice { .. }
            | Self::LogOutDevices { .. }
            | Self::SyncIgnoredUsers { .. }
            | Self::EraseChat { .. } => true,
            Self::EndSessions { .. } | Self::TellOldPhone { .. } | Self::EraseUser { .. } => false,
        }
    }
}

/// How old unfinished work is when operators must look at it.
pub const OVERDUE_AFTER: TimeDelta = TimeDelta::hours(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_ended_again_after_all_requests_have_ended() {
        let now = DateTime::from_timestamp(1_763_000_000, 0).unwrap();
        let work = Work::end_sessions(UserId(7), None, now);
        assert!(!work.is_final(now, now + TimeDelta::seconds(14)));
        assert!(work.is_final(now, now + TimeDelta::seconds(15)));
        let text = Work::TellOldPhone { user: UserId(7), phone: Phone::parse("+447700900123").unwrap() };
        assert!(text.is_final(now, now));
    }
}
