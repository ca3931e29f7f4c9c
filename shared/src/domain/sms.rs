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

/// By what phones recognise a message with a code, to fill the code in. It is the last line of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Autofill {
    /// A domain. Phones fill the code in only on its pages (`WebOTP`), and in the apps that belong to it.
    Domain(String),
    /// The hash of an Android app, which gets the message through the SMS Retriever.
    AppHash(String),
}

impl Autofill {
    /// The longest domain with which every message fits into one segment of 160 characters.
    pub const MAX_DOMAIN: usize = 57;

    /// Parses a domain such as `example.com`.
    #[must_use]
    pub fn domain(text: &str) -> Option<Self> {
        let is_label = |label: &str| {
            !label.is_empty()
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        let is_domain = text.len() <= Self::MAX_DOMAIN && text.contains('.') && text.split('.').all(is_label);
        is_domain.then(|| Self::Domain(text.to_owned()))
    }

    /// Parses the hash of an app: 11 characters of Base64.
    #[must_use]
    pub fn app_hash(text: &str) -> Option<Self> {
        let is_base64 = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'/');
        (text.len() == 11 && is_base64).then(|| Self::AppHash(text.to_owned()))
    }
}

/// Returns the text of the SMS that carries a code.
#[must_use]
pub fn text(code: &OneTimeCode, autofill: Option<&Autofill>) -> String {
    let minutes = code::VALID_FOR.num_minutes();
    let text = format!("Your Touchline code is {}. It is valid for {minutes} minutes.", code.as_str());
    with_last_line(text, code, autofill)
}

/// Returns the text of the SMS with the code that deletes an account. It says so, because the code could be asked for under
/// another pretext.
#[must_use]
pub fn deletion_text(code: &OneTimeCode, autofill: Option<&Autofill>) -> String {
    let minutes = code::VALID_FOR.num_minutes();
    let text = format!(
        "The code {} deletes your Touchline account. Give it to nobody. It is valid for {minutes} minutes.",
        code.as_str()
    );
    with_last_line(text, code, autofill)
}

fn with_last_line(text: String, code: &OneTimeCode, autofill: Option<&Autofill>) -> String {
    match autofill {
        Some(Autofill::Domain(domain)) => format!("{text}\n@{domain} #{}", code.as_str()),
        Some(Autofill::AppHash(hash)) => format!("{text}\n{hash}"),
        None => text,
    }
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
        };
        let position = LogPosition::of(&entry);
        assert_eq!(LogPosition::parse(position.as_str()).unwrap(), position);
        assert_eq!(position.day(), Some(at.date_naive()));
        for text in ["", "x", "1.2", "1234567890123456.", "1234567890123456.a#b", &"9".repeat(80)] {
            assert_eq!(LogPosition::parse(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_line_lets_phones_fill_the_code_in() {
        let code = OneTimeCode::from_number(123_456);
        let (domain, hash) = (Autofill::domain("example.com"), Autofill::app_hash("FA+9qCX9VS/"));
        assert!(domain.is_some() && hash.is_some());
        for (autofill, last_line) in [(None, ""), (domain, "\n@example.com #123456"), (hash, "\nFA+9qCX9VS/")]
        {
            assert_eq!(
                text(&code, autofill.as_ref()),
                format!("Your Touchline code is 123456. It is valid for 5 minutes.{last_line}")
            );
            assert_eq!(
                deletion_text(&code, autofill.as_ref()),
                format!(
                    "The code 123456 deletes your Touchline account. Give it to nobody. It is valid for 5 \
                     minutes.{last_line}"
                )
            );
        }
    }

    /// A message in the alphabet GSM-7 has one segment if it has at most 160 characters. SMS Retriever allows 140 bytes.
    #[test]
    fn every_message_is_one_segment() {
        let code = OneTimeCode::from_number(123_456);
        let longest = Autofill::domain(&format!("{}.example", "a".repeat(Autofill::MAX_DOMAIN - 8)));
        let is_gsm_7 = |c: char| c.is_ascii_alphanumeric() || "\n .,?@#+/-".contains(c);
        for (autofill, most) in [(longest, 160), (Autofill::app_hash("FA+9qCX9VS/"), 140)] {
            let lengths =
                [text(&code, autofill.as_ref()), deletion_text(&code, autofill.as_ref())].map(|text| {
                    assert!(text.chars().all(is_gsm_7), "{text}");
                    text.len()
                });
            assert!(lengths.iter().all(|length| *length <= most), "{autofill:?}: {lengths:?}");
            if most == 160 {
                assert_eq!(lengths.iter().max(), Some(&160), "a longer domain does not fit");
            }
        }
        let notice = phone_changed_text();
        assert!(notice.len() <= 160 && notice.chars().all(is_gsm_7), "{notice}");
    }

    #[test]
    fn malformed_domains_and_hashes_are_rejected() {
        let too_long = format!("{}.example", "a".repeat(Autofill::MAX_DOMAIN - 7));
        for domain in
            ["", "localhost", "Example.com", "https://example.com", "a..b", "-a.com", "a.com #1", &too_long]
        {
            assert_eq!(Autofill::domain(domain), None, "{domain}");
        }
        for hash in ["", "FA+9qCX9VS", "FA+9qCX9VSuu", "FA+9qCX9VS=", "FA+9 CX9VSu"] {
            assert_eq!(Autofill::app_hash(hash), None, "{hash}");
        }
    }

    #[test]
    fn log_ids_fit_in_a_javascript_number_and_grow_with_time() {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        assert!(SmsLogEntry::id(at(1), 0) > SmsLogEntry::id(at(0), 1023));
        assert!(SmsLogEntry::id(at(4_102_444_800_000), u32::MAX) < 1 << 53);
    }
}
