//! Users and their profiles.

use std::fmt;
use std::str::FromStr;

use chrono::serde::{ts_milliseconds, ts_milliseconds_option};
use chrono::{DateTime, Datelike, NaiveDate, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

use super::recovery::Recovery;
use super::{Field, NameRules, Phone, Raw, Reason, Username, text, time};

/// The minimum age of a user, in years.
const MIN_AGE: u32 = 13;

/// A user's id. Ids are small and sequential, because some clients read ids as 32-bit integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserId(pub u32);

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for UserId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Field for UserId {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        raw.id().map(Self)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        super::Id::schema()
    }
}

#[cfg(feature = "openapi")]
super::field::response_schema!(UserId, { "type": "integer", "format": "int64", "minimum": 1 });

/// A user with their whole profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    pub phone: Phone,
    pub username: Username,
    pub created_at: DateTime<Utc>,
    pub name: Option<Name>,
    pub email: Option<Email>,
    pub date_of_birth: Option<NaiveDate>,
    pub primary_team: Option<u32>,
    pub other_teams: Vec<u32>,
    /// When the username was locked. Creating or joining the first chat room locks the username, because the
    /// members of the room see it.
    pub username_locked_at: Option<DateTime<Utc>>,
    /// The usernames that the user had before. They stay reserved for the user.
    pub former_usernames: Vec<Username>,
    /// When the age of the user was refused.
    pub age_refused_at: Option<DateTime<Utc>>,
    /// The phone whose owner can undo a change of the phone.
    pub recovery: Option<Recovery>,
}

/// The part of a user that other users see.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Person {
    pub id: UserId,
    pub username: Username,
    pub name: Option<Name>,
    #[serde(default, with = "ts_milliseconds_option")]
    pub suspended_at: Option<DateTime<Utc>>,
}

/// The public profile of a user.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct PublicProfile {
    pub id: UserId,
    pub username: Username,
    pub name: Option<Name>,
    pub primary_team: Option<u32>,
    #[serde(with = "ts_milliseconds")]
    pub created_at: DateTime<Utc>,
    /// When an operator suspended the user.
    #[serde(default, with = "ts_milliseconds_option")]
    pub suspended_at: Option<DateTime<Utc>>,
}

impl PublicProfile {
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspended_at.is_some()
    }
}

/// A person's name, 1 to 100 characters, none of them invisible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Name(String);

impl Name {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        text::public_line(text, 100).map(Self)
    }

    /// Checks what the name says: a user must not pose as the staff of the service.
    pub fn accepted_by(&self, rules: &NameRules) -> Result<(), Reason> {
        rules.check_name(&self.0)
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for Name {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        text::schema::public_line(100, "Ada Lovelace")
    }
}

#[cfg(feature = "openapi")]
super::field::response_schema!(Name, { "type": "string" });

/// An e-mail address. `Debug` hides it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Email(String);

const NOT_AN_EMAIL: &str = "Enter an e-mail address, for example ada@example.org.";

impl Email {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        let text = text::line(text, 254)?;
        // Quoted local parts, display names, hosts without a top-level domain and IP addresses are valid
        // e-mail syntax. In a form they are almost certainly mistakes, so they are rejected.
        if text.contains('"') {
            return Err(NOT_AN_EMAIL.into());
        }
        let options = email_address::Options::default()
            .without_display_text()
            .without_domain_literal()
            .with_required_tld();
        email_address::EmailAddress::parse_with_options(&text, options)
            .map_err(|_| Reason::from(NOT_AN_EMAIL))?;
        Ok(Self(text))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for Email {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "format": "idn-email", "maxLength": 254, "examples": ["ada@example.org"],
            "description": "An e-mail address.",
        })
    }
}

#[cfg(feature = "openapi")]
super::field::response_schema!(Email, { "type": "string", "format": "idn-email" });

impl fmt::Debug for Email {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Email(hidden)")
    }
}

/// A date of birth. [`Self::accepted_on`] checks the age of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BirthDate(NaiveDate);

impl BirthDate {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        time::parse_date(text).map(Self)
    }

    /// Returns the date if its year is 1900 or later and the user is at least 13 years old on `today`.
    pub fn accepted_on(self, today: NaiveDate) -> Result<NaiveDate, BirthDateError> {
        if self.0 >= today {
            return Err(BirthDateError::NotPast);
        }
        match today.years_since(self.0) {
            Some(age) if age < MIN_AGE => Err(BirthDateError::TooYoung),
            Some(_) if self.0.year() >= 1900 => Ok(self.0),
            _ => Err(BirthDateError::TooEarly),
        }
    }
}

/// Why a date of birth is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BirthDateError {
    #[error("the date is not in the past")]
    NotPast,
    #[error("the date is before 1900")]
    TooEarly,
    /// This refusal can be remembered, so that the user cannot try another date.
    #[error("the user is too young")]
    TooYoung,
    #[error("the user was too young according to an earlier date")]
    RefusedBefore,
}

impl From<BirthDateError> for Reason {
    fn from(error: BirthDateError) -> Self {
        match error {
            BirthDateError::NotPast => "The date of birth must be in the past.".into(),
            BirthDateError::TooEarly => "The date of birth must be 1900-01-01 or later.".into(),
            BirthDateError::TooYoung => format!("You must be at least {MIN_AGE} years old.").into(),
            BirthDateError::RefusedBefore => format!(
                "You must be at least {MIN_AGE} years old. If your first date was a mistake, contact support."
            )
            .into(),
        }
    }
}

/// How long the refusal of a phone is remembered. A child who is almost old enough can try again after it.
pub const REFUSAL_KEPT: TimeDelta = TimeDelta::days(365);

impl Field for BirthDate {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "format": "date", "examples": ["1990-05-17"],
            "description": "1900-01-01 or later, and at least 13 years ago.",
        })
    }
}

/// Why a username could not be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RenameError {
    #[error("the username is taken")]
    Taken,
    #[error("the username can no longer change")]
    Locked,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_have_1_to_100_characters() {
        assert_eq!(Name::parse("  Ada ").unwrap(), Name("Ada".into()));
        assert!(Name::parse(&"é".repeat(100)).is_ok());
        for text in ["", "   ", "a\u{0}b", "a\nb", "\u{3164}", "Ada\u{202E}", &"é".repeat(101)] {
            assert!(Name::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_plain_email_addresses_are_accepted() {
        for text in ["a@b.co", "first.last+tag@sub.example.org", "müller@bücher.example"] {
            assert!(Email::parse(text).is_ok(), "{text}");
        }
        let long = format!("{}@example.org", "a".repeat(250));
        for text in [
            "",
            "a",
            "a@",
            "@b.co",
            "a@b",
            "a b@c.de",
            "Ada <a@b.co>",
            "\"a b\"@c.de",
            "a@[127.0.0.1]",
            &long,
        ] {
            assert!(Email::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn birth_dates_before_1900_and_ages_under_13_are_rejected() {
        let today = NaiveDate::from_ymd_opt(2026, 11, 15).unwrap();
        let accepted = |text| BirthDate::parse(text).unwrap().accepted_on(today).is_ok();
        assert!(accepted("2013-11-15"));
        assert!(!accepted("2013-11-16"));
        assert!(!accepted("2026-11-15"));
        assert!(!accepted("2030-01-01"));
        assert!(accepted("1900-01-01"));
        assert!(!accepted("1899-12-31"));
    }
}
