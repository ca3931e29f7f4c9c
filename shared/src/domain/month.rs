//! UTC months, by which lists for operators and standings are divided.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike as _, NaiveDate, Utc};

use super::time::midnight_of;

/// A UTC month, counted from the year 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Month(i32);

impl Month {
    /// The first month that a list can have: no version of the service stored such lists before.
    pub const FIRST: Self = Self(2026 * 12);

    #[must_use]
    pub fn of(at: DateTime<Utc>) -> Self {
        Self(at.year() * 12 + i32::try_from(at.month0()).unwrap_or_default())
    }

    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// Returns the time at which the month begins.
    #[must_use]
    pub fn first_day(self) -> DateTime<Utc> {
        let month = u32::try_from(self.0.rem_euclid(12)).unwrap_or_default() + 1;
        let day = NaiveDate::from_ymd_opt(self.0.div_euclid(12), month, 1);
        midnight_of(day.unwrap_or(NaiveDate::MAX))
    }

    /// Returns the months from this one to `last`.
    pub fn to(self, last: Self) -> impl DoubleEndedIterator<Item = Self> {
        (self.0..=last.0).map(Self)
    }
}

impl fmt::Display for Month {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.0.div_euclid(12), self.0.rem_euclid(12) + 1)
    }
}

impl FromStr for Month {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (year, month) = text.split_once('-').ok_or(())?;
        let (year, month): (i32, i32) = (year.parse().map_err(|_| ())?, month.parse().map_err(|_| ())?);
        let parsed = Self(year.checked_mul(12).ok_or(())? + month - 1);
        if parsed.to_string() == text { Ok(parsed) } else { Err(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_are_consecutive_across_years() {
        let december = Month::of("2026-12-31T23:59:59Z".parse().unwrap());
        let february = Month::of("2027-02-01T00:00:00Z".parse().unwrap());
        let months: Vec<String> = december.to(february).map(|month| month.to_string()).collect();
        assert_eq!(months, ["2026-12", "2027-01", "2027-02"]);
        assert_eq!(Month::FIRST.to_string(), "2026-01");
        assert_eq!("2027-02".parse(), Ok(february));
        for text in ["", "2027", "2027-2", "2027-13", "2027-00", "x-01"] {
            assert!(text.parse::<Month>().is_err(), "{text}");
        }
    }
}
