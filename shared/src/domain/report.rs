//! Reports: what a user finds wrong with another user, a room or a message.

use chrono::serde::{ts_milliseconds, ts_milliseconds_option};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{Field, Raw, Reason, RoomId, UserId, digest};

/// Why a user reports something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReportReason {
    Spam,
    Abuse,
    Illegal,
    Other,
}

impl ReportReason {
    const ALL: [Self; 4] = [Self::Spam, Self::Abuse, Self::Illegal, Self::Other];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Spam => "spam",
            Self::Abuse => "abuse",
            Self::Illegal => "illegal",
            Self::Other => "other",
        }
    }
}

impl Field for ReportReason {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        let word = raw.text()?;
        let found = Self::ALL.into_iter().find(|reason| reason.as_str() == word);
        found.ok_or_else(|| "Choose one of spam, abuse, illegal and other.".into())
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        super::text::schema::one_of(&Self::ALL.map(Self::as_str))
    }
}

/// The maximum length of a report's text, in characters.
const MAX_TEXT: usize = 1_000;

/// What a reporter writes about the report: up to 1,000 characters. It can have several lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportText(String);

impl ReportText {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        if text.chars().count() > MAX_TEXT {
            return Err(format!("Use at most {MAX_TEXT} characters.").into());
        }
        if text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t')) {
            return Err("Remove the control characters.".into());
        }
        Ok(Self(text.trim().to_owned()))
    }

    /// Returns the text, or `None` if it is empty.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        (!self.0.is_empty()).then_some(&self.0)
    }
}

impl Field for ReportText {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "maxLength": MAX_TEXT,
            "pattern": r"^[^\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F]*$",
            "examples": ["The same link in every room."],
            "description": "Up to 1,000 characters.",
        })
    }
}

/// The Matrix id of a message: `$` and up to 254 characters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageId(String);

impl MessageId {
    /// Parses a message id. Returns `None` if the text is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('$')?;
        let is_valid = (1..=254).contains(&rest.len()) && rest.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for MessageId {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
            .ok_or_else(|| "Send the Matrix event id of a message, which begins with $.".into())
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "pattern": r"^\$[!-~]{1,254}$", "examples": ["$Rqnc-F-dvnEYJTyHq_iKxU2bZ1CI92-kuZq3a5lr5Zg"],
            "description": "The Matrix event id of a message.",
        })
    }
}

/// What a report is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    User(UserId),
    Room(RoomId),
    /// A message, with its room if the reporter's app sent it.
    Message(MessageId, Option<RoomId>),
}

impl Subject {
    /// Returns the subject that a request names, or `None` if it names none or several. A message can come with its room.
    #[must_use]
    pub fn of(user: Option<UserId>, room: Option<RoomId>, message: Option<MessageId>) -> Option<Self> {
        match (user, room, message) {
            (Some(user), None, None) => Some(Self::User(user)),
            (None, Some(room), None) => Some(Self::Room(room)),
            (None, room, Some(message)) => Some(Self::Message(message, room)),
            _ => None,
        }
    }

    /// Returns a digest that identifies the subject. A message is the same with and without its room.
    #[must_use]
    pub fn digest(&self) -> String {
        match self {
            Self::User(user) => digest(&["user", &user.to_string()]),
            Self::Room(room) => digest(&["room", room.as_str()]),
            Self::Message(message, _) => digest(&["message", message.as_str()]),
        }
    }
}

/// Whether moderators still have to look at a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReportStatus {
    Open,
    Closed,
}

impl ReportStatus {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
        }
    }
}

/// A report of one user about one subject.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub reporter_id: UserId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_id: Option<UserId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub room_id: Option<RoomId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message_id: Option<MessageId>,
    pub reason: ReportReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    pub status: ReportStatus,
    #[serde(with = "ts_milliseconds")]
    pub opened_at: DateTime<Utc>,
    #[serde(with = "ts_milliseconds")]
    pub updated_at: DateTime<Utc>,
    #[serde(default, with = "ts_milliseconds_option", skip_serializing_if = "Option::is_none")]
    pub closed_at: Option<DateTime<Utc>>,
}

impl Report {
    /// Creates an open report.
    #[must_use]
    pub fn new(
        reporter_id: UserId,
        subject: &Subject,
        reason: ReportReason,
        text: Option<String>,
        now: DateTime<Utc>,
    ) -> Self {
        let (user_id, room_id, message_id) = match subject.clone() {
            Subject::User(user) => (Some(user), None, None),
            Subject::Room(room) => (None, Some(room), None),
            Subject::Message(message, room) => (None, room, Some(message)),
        };
        Self {
            reporter_id,
            user_id,
            room_id,
            message_id,
            reason,
            text,
            status: ReportStatus::Open,
            opened_at: now,
            updated_at: now,
            closed_at: None,
        }
    }

    /// Returns the subject, or `None` if the report has none, which no version of the service stores.
    #[must_use]
    pub fn subject(&self) -> Option<Subject> {
        Subject::of(self.user_id, self.room_id.clone(), self.message_id.clone())
    }

    /// Returns the time by which lists sort the report.
    #[must_use]
    pub fn listed_at(&self) -> DateTime<Utc> {
        self.closed_at.unwrap_or(self.opened_at)
    }
}

/// Hides the text, which can contain anything.
impl std::fmt::Debug for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Report({}, {}, {})", self.reporter_id, self.reason.as_str(), self.status.as_str())
    }
}

/// The id of a report, for operators: the reporter and the digest of the subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportId {
    pub reporter: UserId,
    pub digest: String,
}

impl ReportId {
    /// Parses `<reporter>-<32 hexadecimal digits>`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (reporter, digest) = text.split_once('-')?;
        let is_digest = digest.len() == 32 && digest.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let reporter = reporter.parse().ok()?;
        is_digest.then(|| Self { reporter, digest: digest.to_owned() })
    }
}

impl std::fmt::Display for ReportId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.reporter, self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_has_one_subject_and_a_message_may_come_with_its_room() {
        let (user, room) = (Some(UserId(7)), RoomId::parse("!a:b"));
        let message = MessageId::parse("$m");
        assert_eq!(Subject::of(user, None, None), Some(Subject::User(UserId(7))));
        assert!(matches!(Subject::of(None, room.clone(), None), Some(Subject::Room(_))));
        let [alone, with_room] =
            [None, room.clone()].map(|room| Subject::of(None, room, message.clone()).unwrap());
        assert_eq!(alone.digest(), with_room.digest());
        for (user, room, message) in [
            (None, None, None),
            (user, room.clone(), None),
            (user, None, message.clone()),
            (user, room, message),
        ] {
            assert_eq!(Subject::of(user, room, message), None);
        }
    }

    #[test]
    fn texts_can_have_lines_but_no_other_control_characters() {
        assert_eq!(ReportText::parse(" one\ntwo ").unwrap().as_str(), Some("one\ntwo"));
        assert_eq!(ReportText::parse("  ").unwrap().as_str(), None);
        assert!(ReportText::parse(&"é".repeat(1_000)).is_ok());
        for text in ["a\u{0}b", "a\u{1b}[1m", &"x".repeat(1_001)] {
            assert!(ReportText::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn malformed_message_and_report_ids_are_rejected() {
        assert!(MessageId::parse("$a:b").is_some());
        for text in ["", "$", "a", "$a b", "$ä", &format!("${}", "x".repeat(255))] {
            assert_eq!(MessageId::parse(text), None, "{text}");
        }
        let id = ReportId { reporter: UserId(7), digest: Subject::User(UserId(9)).digest() };
        assert_eq!(ReportId::parse(&id.to_string()), Some(id));
        for text in ["", "7", "7-", "x-00", "7-zz", "7-00"] {
            assert_eq!(ReportId::parse(text), None, "{text}");
        }
    }
}
