//! The SMS log, for development.

use chrono::NaiveDate;
use serde::Serialize;

use super::{Cursor, CursorPage, Developer, PerPage, Position, endpoint, input};
use crate::domain::code::VALID_FOR;
use crate::domain::sms::{LogPosition, SmsLogEntry, SmsStatus};
use crate::domain::{Phone, Timestamp};

endpoint! {
    /// List SMS attempts
    ///
    /// The attempts to send a code by SMS, the newest first, with the codes. For development only: 404 in
    /// production. In staging, the request needs the header `X-Touchline-Log-Secret`; without it, the response is 404.
    ListSmsLogs: GET "/api/logs/sms", in "sms-logs", by Developer, SmsLogsQuery => CursorPage<SmsLogView>,
        errors [NotFound]
}

input! {
    SmsLogsQuery {
        /// Only attempts to this phone number.
        phone: Option<Phone>,
        /// Only attempts on this UTC day. Without this field, attempts on all days.
        date: Option<NaiveDate>,
        /// Only attempts with this status.
        status: Option<SmsStatus>,
        per_page: PerPage<50>,
        cursor: Option<Cursor<LogPosition>>,
    }
}

impl Position for LogPosition {
    const LIST: &'static str = "sms log";

    fn encode(&self) -> String {
        self.as_str().to_owned()
    }

    fn decode(text: &str) -> Option<Self> {
        Self::parse(text)
    }
}

/// One attempt to send a code.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SmsLogView {
    /// The id of the attempt.
    pub id: u64,
    /// The phone number that the code was for.
    pub phone: Phone,
    /// The code in clear text; `null` if the log does not have it.
    pub code: Option<String>,
    /// Whether the provider accepted the message.
    pub status: SmsStatus,
    /// The name of the SMS provider.
    pub provider: String,
    /// The provider's error. Only present for failed messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// When the message was handed to the provider.
    pub created_at: Timestamp,
    /// When the code expires. Only present for sent messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// How many times the provider was called for this message.
    pub attempts: u32,
}

impl From<SmsLogEntry> for SmsLogView {
    fn from(entry: SmsLogEntry) -> Self {
        Self {
            id: entry.id,
            phone: entry.phone,
            code: entry.code.map(|code| code.as_str().to_owned()),
            status: entry.status,
            provider: entry.provider,
            error: entry.error,
            created_at: entry.created_at.into(),
            expires_at: (entry.status == SmsStatus::Sent).then(|| (entry.created_at + VALID_FOR).into()),
            attempts: entry.attempts,
        }
    }
}
