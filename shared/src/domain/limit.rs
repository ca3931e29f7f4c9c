//! Rate limits: over a sliding window, per UTC hour and per UTC day.
//!
//! For each phone, network or user with a limit, a DynamoDB item holds the ids of the last admitted
//! requests, newest first. A limit of 5 in 10 minutes admits a request if the fifth newest id is absent or at
//! least 10 minutes old. So no period of 10 minutes has more than 5 requests, whenever it begins. One
//! conditional write checks the limit and records the request, without a read.
//!
//! A limit per hour is a counter, because it is for large networks, and a register would need an attribute for each request.
//!
//! A limit per day can be too large for a register, too, because each write would shift hundreds of ids. An item for the user
//! and the day holds the set of the counted actions instead.

use chrono::{DateTime, TimeDelta, Utc};

use super::time::midnight_after;
use super::{UserId, digest};

/// At most `count` requests in any period of length `window`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub count: usize,
    pub window: TimeDelta,
}

/// A rate limit is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the rate limit is exceeded for another {} s", retry_after.num_seconds())]
pub struct Limited {
    /// The time until the next request is admitted.
    pub retry_after: TimeDelta,
}

/// Something that a user can do only so often in a UTC day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DailyAction {
    CreateRoom,
    SendInvitation,
    /// Send invitations to one user. They are counted together with the others.
    InviteOneUser,
    SendReport,
    ExportAccount,
    CreateInviteLink,
    /// Enter the code of an invite link, right or wrong.
    EnterLinkCode,
    ChoosePrimaryTeam,
    ChangePhone,
}

/// How often a user can export the account in a UTC day. An export reads all data of the user.
pub const EXPORTS_PER_DAY: usize = 10;

/// How many times a user can change the phone in a UTC day. Each change sends a notice to the old phone.
pub const PHONE_CHANGES_PER_DAY: usize = 3;

/// How many invitations a user can send to the same user in a UTC day. Fewer can be open, but only this limit holds for
/// concurrent requests, too.
pub const INVITATIONS_TO_ONE_USER_PER_DAY: usize = 10;

/// How many invite links a user can create in a UTC day.
pub const INVITE_LINKS_PER_DAY: usize = 50;

/// How many different codes of invite links a user can enter in a UTC day.
pub const LINK_CODES_PER_DAY: usize = 50;

/// How often a user can choose a primary team in a UTC day. Each choice is copied into all rooms of the user.
pub const PRIMARY_TEAMS_PER_DAY: usize = 50;

/// How many wrong codes of invite links can be entered from a network in a UTC hour. It is higher than the number of friends who
/// use a link at the same moment: a code counts as wrong until it is known to be right.
pub const WRONG_LINK_CODES_PER_HOUR: u32 = 300;

/// The same for an IPv6 /48, which can have many networks.
pub const WRONG_LINK_CODES_PER_48_PER_HOUR: u32 = 1_000;

impl DailyAction {
    /// Returns the word for the action in storage keys.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::CreateRoom => "rooms",
            Self::SendInvitation | Self::InviteOneUser => "invitations",
            Self::SendReport => "reports",
            Self::ExportAccount => "exports",
            Self::CreateInviteLink => "links",
            Self::EnterLinkCode => "link-codes",
            Self::ChoosePrimaryTeam => "teams",
            Self::ChangePhone => "phones",
        }
    }
}

/// Something that a network, or an IPv6 /48, can do only so often in a UTC hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HourlyAction {
    RequestCode,
    /// Enter a wrong code, for a code that another network requested.
    EnterWrongCode,
    /// Enter a code that no invite link has.
    EnterWrongLinkCode,
}

impl HourlyAction {
    /// Returns the word for the action in storage keys.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RequestCode => "codes",
            Self::EnterWrongCode => "wrong",
            Self::EnterWrongLinkCode => "links",
        }
    }
}

/// A user has done something as often as one UTC day allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the limit of {} {} per day is reached", limit, action.as_str())]
pub struct DayLimitReached {
    pub action: DailyAction,
    pub limit: usize,
    /// The time until the next UTC day begins.
    pub retry_after: TimeDelta,
}

impl DayLimitReached {
    #[must_use]
    pub fn new(action: DailyAction, limit: usize, now: DateTime<Utc>) -> Self {
        Self { action, limit, retry_after: midnight_after(now.date_naive()) - now }
    }
}

/// Makes the id of an action that counts against a limit per day, from texts that identify the action. A retry has
/// the same id, so it is not counted again.
///
/// The id is short, because an item holds the ids of all actions of a day. Two actions of a day have the same id in
/// one of four billion cases, and then count as one.
#[must_use]
pub fn action_id(parts: &[&str]) -> u64 {
    // A digest has 32 hexadecimal digits, so the default is never used.
    u64::from_str_radix(&digest(parts)[..8], 16).unwrap_or_default()
}

/// Returns the id of an action that concerns a user, from one that has at most 32 bits.
#[must_use]
pub fn action_on(user: UserId, id: u64) -> u64 {
    u64::from(user.0) << 32 | id
}

/// Returns the user in an id of [`action_on`].
#[must_use]
pub fn user_of_action(id: u64) -> Option<UserId> {
    u32::try_from(id >> 32).ok().map(UserId)
}

/// Makes the id of a request: its time in milliseconds, and a nonce that makes the id unique within the
/// millisecond.
///
/// Until the year 2286, sorting ids as text sorts them by time.
#[must_use]
pub fn request_id(at: DateTime<Utc>, nonce: u32) -> String {
    format!("{:013}-{nonce:08x}", at.timestamp_millis())
}

/// Returns a text that sorts after every id whose age is at least `window`, and before all newer ids.
///
/// An id is `<milliseconds>-<nonce>`, and the text is `<milliseconds>~`. `~` sorts after `-`, so the text also
/// sorts after ids that are exactly `window` old.
#[must_use]
pub fn outside(window: TimeDelta, now: DateTime<Utc>) -> String {
    format!("{:013}~", (now - window).timestamp_millis())
}

/// Returns the time of the request with this id.
#[must_use]
pub fn time_of(id: &str) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp_millis(id.get(..13)?.parse().ok()?)
}

/// Returns how many ids an item must hold to check all `limits`.
#[must_use]
pub fn depth(limits: &[Limit]) -> usize {
    limits.iter().map(|limit| limit.count).max().unwrap_or(0)
}

/// Returns the longest window of the limits. After this time, an item with the ids is no longer needed.
#[must_use]
pub fn longest(limits: &[Limit]) -> TimeDelta {
    limits.iter().map(|limit| limit.window).max().unwrap_or_default()
}

/// Returns the time until the next request is admitted, at least one second. `ids` are the ids of the last
/// admitted requests, newest first.
#[must_use]
pub fn retry_after(ids: &[String], limits: &[Limit], now: DateTime<Utc>) -> TimeDelta {
    limits
        .iter()
        .filter_map(|limit| {
            let oldest = time_of(ids.get(limit.count.checked_sub(1)?)?)?;
            Some(oldest + limit.window - now)
        })
        .max()
        .unwrap_or_default()
        .max(TimeDelta::seconds(1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: [Limit; 2] =
        [Limit { count: 5, window: TimeDelta::minutes(10) }, Limit { count: 10, window: TimeDelta::days(1) }];

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_763_000_000 + seconds, 0).unwrap()
    }

    #[test]
    fn the_wait_ends_when_the_fifth_newest_id_leaves_the_window() {
        let ids: Vec<_> = (0..5).rev().map(|n| request_id(at(n * 60), 0)).collect();
        assert_eq!(retry_after(&ids, &LIMITS, at(300)), TimeDelta::seconds(300));
    }

    #[test]
    fn the_longest_wait_of_several_limits_applies() {
        let ids: Vec<_> = (0..10).rev().map(|n| request_id(at(n), 0)).collect();
        assert_eq!(retry_after(&ids, &LIMITS, at(10)), TimeDelta::days(1) - TimeDelta::seconds(10));
    }

    #[test]
    fn a_day_limit_ends_at_midnight_utc() {
        let evening = "2026-11-15T23:59:30Z".parse().unwrap();
        let reached = DayLimitReached::new(DailyAction::CreateRoom, 50, evening);
        assert_eq!(reached.retry_after, TimeDelta::seconds(30));
    }

    #[test]
    fn different_actions_have_different_ids() {
        assert_eq!(action_id(&["a", "b"]), action_id(&["a", "b"]));
        assert_ne!(action_id(&["a", "b"]), action_id(&["ab", ""]));
    }

    proptest! {
        #[test]
        fn ids_sort_in_the_order_of_their_times(a in 0_i64..4_000_000_000_000, b in 0_i64..4_000_000_000_000, n: u32, m: u32) {
            let of = |ms| DateTime::from_timestamp_millis(ms).unwrap();
            if a != b {
                prop_assert_eq!(request_id(of(a), n) < request_id(of(b), m), a < b);
            }
        }

        #[test]
        fn an_id_is_outside_the_window_if_it_is_at_least_ten_minutes_old(age in 0_i64..2_000_000, nonce: u32) {
            let now = at(0);
            let old = request_id(now - TimeDelta::milliseconds(age), nonce);
            prop_assert_eq!(old <= outside(TimeDelta::minutes(10), now), age >= 600_000);
        }
    }
}
