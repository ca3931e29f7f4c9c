//! The development log of codes.

use chrono::NaiveDate;
use serde::Serialize;

use super::{Listing, PerPage, endpoint, input};
use crate::domain::code::VALID_FOR;
use crate::domain::sms::{Position, SmsLogEntry, SmsStatus};
use crate::domain::{Phone, Timestamp};
use crate::http::Anyone;

endpoint! {
    /// SMS attempts, newest first. Not found in production.
    ListSmsLogs: GET "/api/logs/sms", in "sms-logs", by Anyone, SmsLogFilter => Listing<SmsLogView>,
        refuses ["not_found"]
}

input! {
    SmsLogFilter {
        phone: Option<Phone>,
        /// Without it: the last days, as far back as entries are kept.
        date: Option<NaiveDate>,
        status: Option<SmsStatus>,
        per_page: PerPage,
        cursor: Option<Position>,
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SmsLogView {
    pub id: u64,
    pub phone: Phone,
    pub code: Option<String>,
    pub status: SmsStatus,
    pub provider: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub created_at: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
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
