//! Timestamps and dates, as the API writes and reads them, and how far clocks may differ.

use chrono::{DateTime, Days, NaiveDate, NaiveTime, SecondsFormat, TimeDelta, Utc};
use serde::{Serialize, Serializer};

use super::{Field, Raw, Reason};

/// The maximum difference that we assume between the clocks of two environments. The SDK gives up an attempt only after
/// two seconds, so the retry of such an attempt has an older time than a request with a slow clock.
pub const MAX_CLOCK_DIFFERENCE: TimeDelta = TimeDelta::seconds(1);

/// A time. In a response, it is ISO 8601 in UTC, in whole seconds. In a request, it can have any offset from UTC.
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

impl Field for Timestamp {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        let parsed = DateTime::parse_from_rfc3339(raw.text()?);
        parsed.map(|at| Self(at.to_utc())).map_err(|_| "Enter the time as 2026-11-15T15:00:00Z.".into())
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "format": "date-time",
            "description": "A time such as 2026-11-15T15:00:00Z. Write the + of an offset as %2B in a URL.",
        })
    }
}

/// Returns the midnight (UTC) at the beginning of a day.
#[must_use]
pub fn midnight_of(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

/// Returns the midnight (UTC) at the end of a day.
#[must_use]
pub fn midnight_after(day: NaiveDate) -> DateTime<Utc> {
    midnight_of(day.checked_add_days(Days::new(1)).unwrap_or(day))
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
    fn a_time_in_a_request_can_have_an_offset() {
        let read = |text| Timestamp::read(Raw::Text(text));
        let expected = read("2026-11-15T15:00:00Z").unwrap();
        assert_eq!(read("2026-11-15T16:30:00+01:30").unwrap(), expected);
        assert!(read("2026-11-15T15:00:00.9Z").unwrap() > expected);
        for text in
            ["2026-11-15", "2026-11-15T15:00:00", "2026-11-15T25:00:00Z", "2026-11-15T15:00:00 01:00", ""]
        {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_existing_dates_in_the_form_yyyy_mm_dd_are_accepted() {
        assert!(parse_date("2024-02-29").is_ok());
        for text in ["2026-1-5", "2026-02-30", "+026-01-05", "2026/01/05", "", "２０２６-01"] {
            assert!(parse_date(text).is_err(), "{text}");
        }
    }
}
