//! Timestamps and dates, as the API writes and reads them, and how far clocks may differ.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, SecondsFormat, TimeDelta, Utc};
use serde::{Serialize, Serializer};

use super::{Field, Raw, Reason};

/// The maximum difference that we assume between the clocks of two environments. The SDK gives up an attempt only after
/// two seconds, so the retry of such an attempt has an older time than a request with a slow clock.
pub const MAX_CLOCK_DIFFERENCE: TimeDelta = TimeDelta::seconds(1);

/// A time in a response: ISO 8601 in UTC, in whole seconds.
///
/// Fractions of seconds are left out, because the date parsers of some phone platforms reject them by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(pub DateTime<Utc>);

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0.to_rfc3339_opts(SecondsFormat::Secs, true))
    }
}

#[cfg(feature = "openapi")]
super::field::response_schema!(Timestamp, { "type": "string", "format": "date-time", "pattern": "Z$" });

impl From<DateTime<Utc>> for Timestamp {
    fn from(at: DateTime<Utc>) -> Self {
        Self(at)
    }
}

/// Returns the midnight (UTC) at the end of a day.
#[must_use]
pub fn midnight_after(day: NaiveDate) -> DateTime<Utc> {
    day.checked_add_days(Days::new(1)).unwrap_or(day).and_time(NaiveTime::MIN).and_utc()
}

/// Parses `YYYY-MM-DD`. Stricter than chrono, which also accepts `2026-1-5` and `+2026-01-05`.
pub fn parse_date(text: &str) -> Result<NaiveDate, Reason> {
    let well_formed = text.len() == 10
        && text
            .bytes()
            .enumerate()
            .all(|(at, b)| if at == 4 || at == 7 { b == b'-' } else { b.is_ascii_digit() });
    if !well_formed {
        return Err("Enter the date as YYYY-MM-DD.".into());
    }
    text.parse().map_err(|_| "This date does not exist.".into())
}

impl Field for NaiveDate {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        parse_date(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "string", "format": "date", "description": "A date as YYYY-MM-DD, in UTC." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_whole_seconds_in_utc() {
        let at = DateTime::from_timestamp_millis(1_763_171_495_678).unwrap();
        assert_eq!(serde_json::to_string(&Timestamp(at)).unwrap(), "\"2025-11-15T01:51:35Z\"");
    }

    #[test]
    fn only_existing_dates_in_the_form_yyyy_mm_dd_are_accepted() {
        assert!(parse_date("2024-02-29").is_ok());
        for text in ["2026-1-5", "2026-02-30", "+026-01-05", "2026/01/05", "", "２０２６-01"] {
            assert!(parse_date(text).is_err(), "{text}");
        }
    }
}
