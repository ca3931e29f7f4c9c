//! Chat rooms and their members.

use chrono::serde::{ts_milliseconds, ts_milliseconds_option};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Field, NameRules, Pick, Raw, Reason, UserId, text};

/// The Matrix id of a room: `!<local part>:<server>`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RoomId(String);

impl RoomId {
    /// Parses a room id. Returns `None` if the text is malformed.
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

    /// Hashes the room id. Lists sort rooms with the same activity time by this hash.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let digest = Sha256::digest(self.0.as_bytes());
        u64::from_be_bytes(std::array::from_fn(|at| digest[at]))
    }

    /// Hashes the room id into the name of the room's table, which is shorter than the id.
    #[must_use]
    pub fn table_digest(&self) -> RoomDigest {
        let digest = Sha256::digest(self.0.as_bytes());
        RoomDigest(u128::from_be_bytes(std::array::from_fn(|at| digest[at])))
    }
}

/// A hash of a room id. No two rooms have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoomDigest(pub u128);

impl Field for RoomId {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
            .ok_or_else(|| "Send the Matrix id of a room, for example !abc:example.org.".into())
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "maxLength": 255, "pattern": r#"^![!"$-9;-~]+:[!"$-~]+$"#,
            "examples": ["!abc:touchline.local"], "description": "The Matrix id of a room.",
        })
    }
}

#[cfg(feature = "openapi")]
super::field::response_schema!(RoomId, { "type": "string", "pattern": "^!" });

/// A room's name, 1 to 100 characters, none of them invisible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoomName(String);

impl RoomName {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        text::public_line(text, 100).map(Self)
    }

    /// Checks what the name says: a room of a user must not pose as a room of the service.
    pub fn accepted_by(&self, rules: &NameRules) -> Result<(), Reason> {
        rules.check_name(&self.0)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for RoomName {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        text::schema::public_line(100, "North Stand")
    }
}

/// A room's topic, up to 500 characters, none of them invisible. An empty text means that the room has no topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topic(String);

impl Topic {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        if text.trim().is_empty() { Ok(Self::default()) } else { text::public_line(text, 500).map(Self) }
    }

    pub fn accepted_by(&self, rules: &NameRules) -> Result<(), Reason> {
        rules.check_topic(&self.0)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for Topic {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        use text::schema::{SPACE, public};
        serde_json::json!({
            "type": "string", "pattern": format!("^{SPACE}({})?{SPACE}$", public(500)),
            "examples": ["Set pieces"],
            "description": "Up to 500 characters after trimming, without control characters and invisible characters.",
        })
    }
}

/// Which matches count in the table of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum League {
    /// The match that the room is about.
    Match,
    /// All matches of that match's tournament.
    Tournament,
    All,
}

impl Field for League {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match raw.text()? {
            "match" => Ok(Self::Match),
            "tournament" => Ok(Self::Tournament),
            "all" => Ok(Self::All),
            _ => Err("Choose match, tournament or all.".into()),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        text::schema::one_of(&["match", "tournament", "all"])
    }
}

/// A chat room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    pub room_id: RoomId,
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub topic: String,
    /// The match that the room is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<u32>,
    /// Which matches count in the room's table. See [`Room::league`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub league: Option<League>,
    /// The user who created the room. `None` if the service created the room for a match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator_id: Option<UserId>,
    /// Private rooms are encrypted and need an invitation.
    pub is_private: bool,
    /// How many partitions hold the members. The room of a match has many, because thousands of users can
    /// join at the same moment.
    pub shards: u8,
    #[serde(with = "ts_milliseconds")]
    pub created_at: DateTime<Utc>,
    /// The time of the last message, or of the creation of the room if there is no message yet.
    #[serde(with = "ts_milliseconds")]
    pub last_activity: DateTime<Utc>,
    /// When an operator removed the room. A removed room is in no list, and nobody can join it.
    #[serde(default, with = "ts_milliseconds_option", skip_serializing_if = "Option::is_none")]
    pub removed_at: Option<DateTime<Utc>>,
}

impl Room {
    /// Returns the join rule, as Matrix names it.
    #[must_use]
    pub fn join_rule(&self) -> &'static str {
        if self.is_private { "invite" } else { "public" }
    }

    /// Returns which matches count in the room's table: what the creator chose, or else the room's match, or else all.
    #[must_use]
    pub fn league(&self) -> League {
        self.league.unwrap_or(if self.event_id.is_some() { League::Match } else { League::All })
    }

    /// Returns whether the service created the room for a match. Users create all other rooms.
    #[must_use]
    pub fn is_match_room(&self) -> bool {
        self.creator_id.is_none()
    }

    /// Returns the name in the public directory. Returns `None` for private and removed rooms, which are not listed
    /// there.
    #[must_use]
    pub fn listed_name(&self) -> Option<&str> {
        (!self.is_private && self.removed_at.is_none()).then_some(&self.name)
    }
}

/// Returns how many partitions hold the members of a room that a user creates. A private room needs only one.
#[must_use]
pub fn member_shards(is_private: bool) -> u8 {
    if is_private { 1 } else { 4 }
}

/// A UTC day: the number of days since 1970-01-01.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Day(pub i64);

impl Day {
    #[must_use]
    pub fn of(moment: DateTime<Utc>) -> Self {
        Self(moment.timestamp().div_euclid(86_400))
    }

    /// Returns the first of the seven days that end with this day.
    #[must_use]
    pub fn week_start(self) -> Self {
        Self(self.0 - 6)
    }
}

/// A user's relation to a room, as Matrix names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
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

/// A current, invited or former member of a room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub room_id: RoomId,
    pub user_id: UserId,
    pub membership: Membership,
    /// The match that the room is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<u32>,
    /// Whether the room is private.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_private: bool,
    /// The member's pick for the room's match. The Lambda function `tally` copies it from the prediction,
    /// a few seconds late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pick: Option<Pick>,
    /// The version of the prediction that `pick` was copied from. The version is the number of times that the
    /// user had saved the prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edits: Option<u32>,
    /// The id of the member's primary team. The Lambda function `tally` copies it from the profile, a few
    /// seconds late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub team: Option<u32>,
    /// Whether an operator has taken the member off the boards. The Lambda function `tally` copies it from the user's
    /// statistics, a few seconds late.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unranked: bool,
    /// The last day on which the member joined, sent a message, or predicted the room's match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Day>,
    /// The id of the last request of our API that changed the membership.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// The last homeserver event that changed the membership.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<StreamPosition>,
}

/// The place of an event in the order in which the homeserver sends its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StreamPosition(pub u64);

impl StreamPosition {
    /// Creates a position from the number of the event's transaction and the index of the event in it.
    #[must_use]
    pub fn new(transaction: u64, index: usize) -> Self {
        // A transaction has at most 6 MB, so less than a million events.
        Self(transaction * 1_000_000 + index as u64)
    }
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
    fn malformed_room_ids_are_rejected() {
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

    #[test]
    fn room_names_and_topics_are_trimmed_and_limited_in_length() {
        assert_eq!(RoomName::parse(" Corner ").unwrap().as_str(), "Corner");
        assert_eq!(RoomName::parse(&"é".repeat(100)).unwrap().as_str().chars().count(), 100);
        for text in ["", "  ", "a\u{0}b", "a\nb", &"x".repeat(101)] {
            assert!(RoomName::parse(text).is_err(), "{text:?}");
        }
        assert_eq!(Topic::parse("  ").unwrap().as_str(), "");
        assert!(Topic::parse(&"x".repeat(500)).is_ok());
        for text in ["a\u{7}b", &"x".repeat(501)] {
            assert!(Topic::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_week_is_seven_days_including_today() {
        let noon = DateTime::from_timestamp(1_794_744_000, 0).unwrap();
        let today = Day::of(noon);
        assert_eq!(today.0 - today.week_start().0, 6);
        assert_eq!(Day::of(DateTime::from_timestamp(-1, 0).unwrap()), Day(-1));
    }
}
