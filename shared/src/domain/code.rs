//! One-time codes for login and phone verification.

use std::fmt;

use chrono::TimeDelta;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{Field, Phone, Raw, Reason, UserId};

/// How long a code is valid.
pub const VALID_FOR: TimeDelta = TimeDelta::minutes(5);

/// How many attempts a code allows.
pub const MAX_ATTEMPTS: u32 = 5;

/// How long a verification is pending after its last code. Until then the code can be resent.
pub const PENDING_FOR: TimeDelta = TimeDelta::days(1);

/// What a code is for. A code for one purpose is invalid for the other.
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

/// What a code is requested for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeRequest {
    Login,
    /// A user starts to verify a phone.
    StartVerification(UserId),
    /// A user requests a new code for a pending verification.
    ResendVerification(UserId),
}

impl CodeRequest {
    #[must_use]
    pub fn purpose(self) -> Purpose {
        match self {
            Self::Login => Purpose::Login,
            Self::StartVerification(_) | Self::ResendVerification(_) => Purpose::Verify,
        }
    }

    /// The user that the code belongs to. A login code belongs to a phone, not to a user.
    #[must_use]
    pub fn user(self) -> Option<UserId> {
        match self {
            Self::Login => None,
            Self::StartVerification(user) | Self::ResendVerification(user) => Some(user),
        }
    }
}

/// The id of one issued code: the [`super::limit::request_id`] of the request that sent it.
pub type CodeId = String;

/// The six digits of a code. `Debug` hides them.
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

    /// The code with this number, of which the last six digits count.
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

/// The secret key of the HMAC that codes are stored as. Without it, a copy of the table does not reveal a code.
#[derive(Clone)]
pub struct CodePepper(Hmac<Sha256>);

impl CodePepper {
    /// `None` if the text has fewer than 16 bytes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let key = Some(text.as_bytes()).filter(|key| key.len() >= 16)?;
        Hmac::new_from_slice(key).ok().map(Self)
    }

    /// The digest to store. It depends on the phone, the purpose and the id of the issued code too.
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

impl fmt::Debug for CodePepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodePepper(hidden)")
    }
}

/// The stored form of a code.
#[derive(Debug, Clone)]
pub struct CodeDigest(String);

impl CodeDigest {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares in constant time.
    #[must_use]
    pub fn matches(&self, stored: &str) -> bool {
        self.0.as_bytes().ct_eq(stored.as_bytes()).into()
    }
}

/// The code is wrong, expired, used, or has no attempts left. One error for all of them, because more detail would help
/// only an attacker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the code is invalid or expired")]
pub struct WrongCode;

/// Why a phone verification fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerificationError {
    #[error("another user owns the phone")]
    PhoneTaken,
    #[error("the phone is not the one being verified")]
    PhoneMismatch,
    #[error("no verification of the phone is pending")]
    NothingPending,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pepper() -> CodePepper {
        CodePepper::parse("a pepper for the tests").unwrap()
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
    fn a_digest_depends_on_phone_purpose_id_code_and_pepper() {
        let (a, b) = (Phone::parse("+447700900001").unwrap(), Phone::parse("+447700900002").unwrap());
        let code = OneTimeCode::from_number(123_456);
        let stored = pepper().digest(&a, Purpose::Login, "1", &code);
        assert!(pepper().digest(&a, Purpose::Login, "1", &code).matches(stored.as_str()));
        for other in [
            pepper().digest(&b, Purpose::Login, "1", &code),
            pepper().digest(&a, Purpose::Verify, "1", &code),
            pepper().digest(&a, Purpose::Login, "2", &code),
            pepper().digest(&a, Purpose::Login, "1", &OneTimeCode::from_number(123_457)),
            CodePepper::parse("another pepper altogether").unwrap().digest(&a, Purpose::Login, "1", &code),
        ] {
            assert!(!other.matches(stored.as_str()));
        }
    }

    #[test]
    fn short_peppers_are_rejected() {
        assert!(CodePepper::parse("fifteen letters").is_none());
        assert!(CodePepper::parse("sixteen letters!").is_some());
    }
}
