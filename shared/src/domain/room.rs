//! Chat rooms, as far as this service keeps them.

use chrono::serde::ts_milliseconds;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Pick, UserId};

/// The chat network's id of a room: `!<local part>:<server>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoomId(String);

impl RoomId {
    /// `None` for anything that cannot be one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (local, server) = text.strip_prefix('!')?.split_once(':')?;
        let plain = |c: char| c.is_ascii_graphic() && c != '#';
        let well_formed =
            text.len() <= 255 && !local.is_empty() && !server.is_empty() && text.chars().all(plain);
        well_formed.then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A short mark by which a cursor knows its room.
    #[must_use]
    pub fn mark(&self) -> u32 {
        let digest = Sha256::digest(self.0.as_bytes());
        u32::from_be_bytes(std::array::from_fn(|at| digest[at]))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    pub room_id: RoomId,
    pub name: String,
    /// The match that it is about, if any.
    pub event_id: Option<u32>,
    /// Joined by invitation alone, and encrypted.
    pub is_private: bool,
    /// Over how many partitions its members are spread: a stadium joins a match's room at once.
    pub shards: u8,
    #[serde(with = "ts_milliseconds")]
    pub created_at: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Membership {
    Join,
    Invite,
    Leave,
}

impl Membership {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Invite => "invite",
            Self::Leave => "leave",
        }
    }
}

/// Somebody in a room, or who was, or who may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub room_id: RoomId,
    pub user_id: UserId,
    pub membership: Membership,
    /// The room's match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<u32>,
    /// What they predict for it, as far as `tally` has got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pick: Option<Pick>,
    /// Which version of their prediction that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edits: Option<u32>,
}

impl Member {
    #[must_use]
    pub fn has_joined(&self) -> bool {
        self.membership == Membership::Join
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_rooms() {
        for text in ["!match1:touchline.local", "!a:b", "!kzFV_x-1:example.org:8448"] {
            assert_eq!(RoomId::parse(text).unwrap().as_str(), text);
        }
        let long = format!("!{}:s", "x".repeat(253));
        for text in
            ["", "!", "!a", "!:b", "!a:", "a:b", "#a:b", "!a b:c", "!a\u{0}:b", "!ä:b", "!a#1:b", &long]
        {
            assert_eq!(RoomId::parse(text), None, "{text}");
        }
    }
}
