use std::fmt;

use chrono::TimeDelta;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{Field, Phone, Raw, Reason, UserId};

/// How long a code can be used.
pub const VALID_FOR: TimeDelta = TimeDelta::minutes(5);

/// How often one code may be guessed.
pub const MAX_ATTEMPTS: u32 = 5;

/// How long after the last code a verification counts as pending, and can be sent again.
pub const PENDING_FOR: TimeDelta = TimeDelta::days(1);

/// What a code is for. A code for one purpose never serves the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Login,
    Verify,
}

impl Purpose {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Verify => "verify",
        }
    }
}

/// Why a code is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    Login,
    /// A user starts to verify a phone.
    Initiate(UserId),
    /// A user whose verification is pending wants another code for it.
    Resend(UserId),
}

impl Sending {
    #[must_use]
    pub fn purpose(self) -> Purpose {
        match self {
            Self::Login => Purpose::Login,
            Self::Initiate(_) | Self::Resend(_) => Purpose::Verify,
        }
    }

    /// Whom the code is for, where it is for one user alone.
    #[must_use]
    pub fn user(self) -> Option<UserId> {
        match self {
            Self::Login => None,
            Self::Initiate(user) | Self::Resend(user) => Some(user),
        }
    }
}

/// The mark of one sending of a code; see [`super::limit::mark`].
pub type IssueId = String;

/// The six digits that a person types.
#[derive(Clone, PartialEq, Eq)]
pub struct OneTimeCode(String);

impl OneTimeCode {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        let text = text.trim();
        if text.len() == 6 && text.bytes().all(|b| b.is_ascii_digit()) {
            Ok(Self(text.to_owned()))
        } else {
            Err("Enter the 6 digits of the code.".into())
        }
    }

    /// A code from a number that is uniform below a million.
    #[must_use]
    pub fn from_number(number: u32) -> Self {
        Self(format!("{:06}", number % 1_000_000))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Field for OneTimeCode {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        let space = super::text::schema::SPACE;
        serde_json::json!({
            "type": "string", "pattern": format!("^{space}[0-9]{{6}}{space}$"), "examples": ["123456"],
            "description": "The 6 digits from the SMS.",
        })
    }
}

impl fmt::Debug for OneTimeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneTimeCode(hidden)")
    }
}

/// The secret pepper under which codes are kept: a stolen table alone does not reveal a code.
#[derive(Clone)]
pub struct CodeKey(Hmac<Sha256>);

impl CodeKey {
    pub fn parse(pepper: &str) -> Result<Self, Reason> {
        if pepper.len() < 16 {
            return Err("must be at least 16 characters".into());
        }
        Hmac::new_from_slice(pepper.as_bytes()).map(Self).map_err(|_| "is not usable as a key".into())
    }

    /// The keeping form of a code, bound to its phone, purpose and sending.
    #[must_use]
    pub fn digest(&self, phone: &Phone, purpose: Purpose, issue: &str, code: &OneTimeCode) -> CodeDigest {
        let mut mac = self.0.clone();
        for part in [purpose.as_str(), phone.as_str(), issue, code.as_str()] {
            mac.update(part.as_bytes());
            mac.update(&[0]);
        }
        CodeDigest(base16ct::lower::encode_string(&mac.finalize().into_bytes()))
    }
}

impl fmt::Debug for CodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodeKey(hidden)")
    }
}

/// A code as it is stored. Comparison takes the same time wherever the first difference lies.
#[derive(Debug, Clone)]
pub struct CodeDigest(String);

impl CodeDigest {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn matches(&self, stored: &str) -> bool {
        self.0.as_bytes().ct_eq(stored.as_bytes()).into()
    }
}

/// Why a code was not accepted. One word for wrong, expired, used and guessed too often: telling them
/// apart would help only someone who guesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the code is invalid or expired")]
pub struct WrongCode;

/// Why a phone verification could not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerificationError {
    #[error("another user owns the phone")]
    PhoneTaken,
    #[error("the phone is not the pending one")]
    PhoneMismatch,
    #[error("nothing is pending for the phone")]
    NothingPending,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> CodeKey {
        CodeKey::parse("a pepper for the tests").unwrap()
    }

    #[test]
    fn codes_are_six_digits() {
        assert_eq!(OneTimeCode::from_number(7).as_str(), "000007");
        assert_eq!(OneTimeCode::from_number(999_999).as_str(), "999999");
        for text in ["", "12345", "1234567", "12a456", "１２３４５６", "12 456"] {
            assert!(OneTimeCode::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_digest_is_bound_to_everything_it_was_made_for() {
        let (a, b) = (Phone::parse("+447700900001").unwrap(), Phone::parse("+447700900002").unwrap());
        let code = OneTimeCode::from_number(123_456);
        let stored = key().digest(&a, Purpose::Login, "1", &code);
        assert!(key().digest(&a, Purpose::Login, "1", &code).matches(stored.as_str()));
        for other in [
            key().digest(&b, Purpose::Login, "1", &code),
            key().digest(&a, Purpose::Verify, "1", &code),
            key().digest(&a, Purpose::Login, "2", &code),
            key().digest(&a, Purpose::Login, "1", &OneTimeCode::from_number(123_457)),
            CodeKey::parse("another pepper altogether").unwrap().digest(&a, Purpose::Login, "1", &code),
        ] {
            assert!(!other.matches(stored.as_str()));
        }
    }

    #[test]
    fn a_short_pepper_is_refused() {
        assert!(CodeKey::parse("short").is_err());
    }
}
