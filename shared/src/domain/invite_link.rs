//! Invite links: a code with which users join a room.

use std::fmt;

use chrono::serde::{ts_milliseconds, ts_seconds};
use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::{Field, Raw, Reason, RoomId, UserId, digest};

/// The number of characters of a code. With 32 different characters, there are 2⁶⁰ codes.
pub const CODE_LENGTH: usize = 12;

/// The code of an invite link: capital letters and digits. `Debug` hides it, because everybody who has it can join the room.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkCode(String);

impl LinkCode {
    /// Parses a code in upper or lower case. Returns `None` if the text is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_code = text.len() == CODE_LENGTH && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_code.then(|| Self(text.to_ascii_uppercase()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the hash of the code, for keys: keys appear in logs.
    #[must_use]
    pub fn digest(&self) -> String {
        digest(&["invite link", &self.0])
    }
}

impl fmt::Debug for LinkCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LinkCode(hidden)")
    }
}

#[cfg(feature = "openapi")]
super::field::response_schema!(LinkCode, { "type": "string", "pattern": "^[A-Z2-9]{12}$" });

/// How long an invite link is valid, in whole hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkHours(u16);

impl LinkHours {
    /// The longest lifetime: 30 days.
    const MAX: u16 = 720;

    #[must_use]
    pub fn lifetime(self) -> TimeDelta {
        TimeDelta::hours(i64::from(self.0))
    }
}

impl Default for LinkHours {
    /// A week.
    fn default() -> Self {
        Self(168)
    }
}

impl Field for LinkHours {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match u16::try_from(raw.integer()?) {
            Ok(hours @ 1..=Self::MAX) => Ok(Self(hours)),
            _ => Err("Choose a time from 1 hour to 720 hours.".into()),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "integer", "minimum": 1, "maximum": Self::MAX, "examples": [168],
            "description": "How long the link is valid, in hours.",
        })
    }
}

/// The invite link that a member made for a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InviteLink {
    pub room_id: RoomId,
    /// The member who made the link. Users who join with it are invited by this member. An item with `user_id` and
    /// `room_id` would be in the index of memberships, so this attribute has another name.
    pub made_by: UserId,
    pub code: LinkCode,
    #[serde(with = "ts_milliseconds")]
    pub created_at: DateTime<Utc>,
    /// When the link expires, in whole seconds. DynamoDB deletes the item some time later.
    #[serde(with = "ts_seconds")]
    pub expires_at: DateTime<Utc>,
    /// How often all links of the room had been revoked when this link was made.
    pub revocations: u32,
}

impl InviteLink {
    /// Returns whether the link can be used, in a room whose links were revoked `revocations` times.
    #[must_use]
    pub fn is_valid(&self, revocations: u32, now: DateTime<Utc>) -> bool {
        self.revocations == revocations && now < self.expires_at
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_code_has_twelve_letters_and_digits_in_any_case() {
        assert_eq!(LinkCode::parse("abcdefgh2345").unwrap().as_str(), "ABCDEFGH2345");
        for text in ["", "ABCDEFGH234", "ABCDEFGH23456", "ABCDEFGH234-", "ABCDEFGH23é"] {
            assert_eq!(LinkCode::parse(text), None, "{text}");
        }
        assert_eq!(format!("{:?}", LinkCode::parse("ABCDEFGH2345")), "Some(LinkCode(hidden))");
    }

    #[test]
    fn a_link_is_valid_for_one_hour_to_thirty_days() {
        let read = |hours: i64| LinkHours::read(Raw::Json(&json!(hours))).map(LinkHours::lifetime);
        assert_eq!(read(1), Ok(TimeDelta::hours(1)));
        assert_eq!(read(720), Ok(TimeDelta::days(30)));
        for hours in [-1, 0, 721, 65_537] {
            assert!(read(hours).is_err(), "{hours}");
        }
        assert_eq!(LinkHours::default().lifetime(), TimeDelta::days(7));
    }

    #[test]
    fn a_link_ends_when_it_expires_or_all_links_of_the_room_are_revoked() {
        let now: DateTime<Utc> = "2026-11-15T12:00:00Z".parse().unwrap();
        let link = InviteLink {
            room_id: RoomId::parse("!a:b").unwrap(),
            made_by: UserId(1),
            code: LinkCode::parse("ABCDEFGH2345").unwrap(),
            created_at: now,
            expires_at: now + TimeDelta::hours(1),
            revocations: 2,
        };
        assert!(link.is_valid(2, now));
        assert!(link.is_valid(2, now + TimeDelta::minutes(59)));
        assert!(!link.is_valid(2, now + TimeDelta::hours(1)));
        assert!(!link.is_valid(3, now));
    }
}
