//! The SMS log, and the text of the SMS that carries a code.

use chrono::{DateTime, NaiveDate, Utc};

use super::{CodeId, Field, OneTimeCode, Phone, Raw, Reason, code, recovery};

/// The log entry of one SMS with a code, sent or failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SmsLogEntry {
    pub id: u64,
    pub code_id: CodeId,
    pub phone: Phone,
    /// The code in clear text. `None` if `Environment::shows_codes` is false, as in production.
    pub code: Option<OneTimeCode>,
    pub status: SmsStatus,
    pub provider: String,
    pub error: Option<String>,
    pub created_at: DateTime<Utc>,
    /// How many times the SMS provider was called.
    pub attempts: u32,
    /// The assumed price, in millionths of a US dollar.
    pub price: i64,
    /// Whether the counters of the prefix had the message before it was sent.
    pub is_counted: bool,
}

impl SmsLogEntry {
    /// Makes an id that grows with time: the Unix time in milliseconds, then ten random bits. The id fits in
    /// 53 bits, because a JavaScript number holds no more.
    #[must_use]
    pub fn id(at: DateTime<Utc>, random: u32) -> u64 {
        (u64::try_from(at.timestamp_millis()).unwrap_or(0) << 10) | u64::from(random & 0x3ff)
    }
}

/// Whether the provider accepted a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SmsStatus {
    Sent,
    Failed,
}

impl SmsStatus {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        match text {
            "sent" => Ok(Self::Sent),
            "failed" => Ok(Self::Failed),
            _ => Err("Choose sent or failed as the status.".into()),
        }
    }
}

impl Field for SmsStatus {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        super::text::schema::one_of(&["sent", "failed"])
    }
}

/// A position in the SMS log. Entries sort by their id, then by the id of their code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogPosition(String);

impl LogPosition {
    #[must_use]
    pub fn of(entry: &SmsLogEntry) -> Self {
        Self(format!("{:016}.{}", entry.id, entry.code_id))
    }

    /// Parses the text of a position. Returns `None` if the text is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let well_formed = text.len() <= 64
            && text.split_once('.').is_some_and(|(id, code_id)| {
                id.len() == 16 && id.bytes().all(|b| b.is_ascii_digit()) && !code_id.is_empty()
            })
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-'));
        well_formed.then(|| Self(text.to_owned()))
    }

    /// Returns the UTC day of the entry at this position.
    #[must_use]
    pub fn day(&self) -> Option<NaiveDate> {
        let id: u64 = self.0.get(..16)?.parse().ok()?;
        Some(DateTime::from_timestamp_millis(i64::try_from(id >> 10).ok()?)?.date_naive())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns the text of the SMS that carries a code.
#[must_use]
pub fn text(code: &OneTimeCode) -> String {
    let minutes = code::VALID_FOR.num_minutes();
    format!("Your Touchline code is {}. It is valid for {minutes} minutes.", code.as_str())
}

/// Returns the text of the SMS with the code that deletes an account. It says so, because the code could be asked for under
/// another pretext.
#[must_use]
pub fn deletion_text(code: &OneTimeCode) -> String {
    let minutes = code::VALID_FOR.num_minutes();
    format!(
        "The code {} deletes your Touchline account. Give it to nobody. It is valid for {minutes} minutes.",
        code.as_str()
    )
}

/// Returns the text of the SMS that tells the owner of a phone that their account has another phone now.
#[must_use]
pub fn phone_changed_text() -> String {
    let hours = recovery::UNDO_FOR.num_hours();
    format!(
        "Your Touchline account has a new phone number. Was this not you? You can undo it in the app for {hours} hours, \
         with a code to this number."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_positions_round_trip_and_contain_the_day_of_the_entry() {
        let at = DateTime::from_timestamp_millis(1_763_171_495_678).unwrap();
        let entry = SmsLogEntry {
            id: SmsLogEntry::id(at, 7),
            code_id: super::super::limit::request_id(at, 7),
            phone: Phone::parse("+447700900123").unwrap(),
            code: None,
            status: SmsStatus::Sent,
            provider: "console".into(),
            error: None,
            created_at: at,
            attempts: 1,
            price: 100_000,
            is_counted: false,
        };
        let position = LogPosition::of(&entry);
        assert_eq!(LogPosition::parse(position.as_str()).unwrap(), position);
        assert_eq!(position.day(), Some(at.date_naive()));
        for text in ["", "x", "1.2", "1234567890123456.", "1234567890123456.a#b", &"9".repeat(80)] {
            assert_eq!(LogPosition::parse(text), None, "{text}");
        }
    }

    #[test]
    fn log_ids_fit_in_a_javascript_number_and_grow_with_time() {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        assert!(SmsLogEntry::id(at(1), 0) > SmsLogEntry::id(at(0), 1023));
        assert!(SmsLogEntry::id(at(4_102_444_800_000), u32::MAX) < 1 << 53);
    }
}
