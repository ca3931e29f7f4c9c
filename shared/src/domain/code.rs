//! One-time codes for login, phone verification and the deletion of an account.

use std::fmt;

use chrono::TimeDelta;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::{Address, Field, Phone, Raw, Reason, UserId};

/// How long a code is valid.
pub const VALID_FOR: TimeDelta = TimeDelta::minutes(5);

/// The maximum number of attempts to enter a login code from the network that requested it, and also from all other networks
/// together, so that others cannot use up the user's attempts. A verification code has one such maximum for all networks.
pub const MAX_ATTEMPTS: u32 = 5;

/// How long a verification is pending after its last code was sent. While it is pending, the user can request
/// a new code.
pub const PENDING_FOR: TimeDelta = TimeDelta::days(1);

/// What a code is for. A code for one purpose is invalid for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Login,
    Verify,
    /// The deletion of the account.
    Delete,
}

impl Purpose {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Verify => "verify",
            Self::Delete => "delete",
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
    /// A user wants to delete the account. The code goes to the account's phone.
    DeleteAccount(UserId),
}

impl CodeRequest {
    #[must_use]
    pub fn purpose(self) -> Purpose {
        match self {
            Self::Login => Purpose::Login,
            Self::StartVerification(_) | Self::ResendVerification(_) => Purpose::Verify,
            Self::DeleteAccount(_) => Purpose::Delete,
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

    /// Makes a code from the last six digits of `number`.
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

/// The secret key for the HMAC of a code. The users table stores codes only as HMACs, so a copy of
/// the table does not reveal a code without the key.
#[derive(Clone)]
pub struct CodePepper(Hmac<Sha256>);

impl CodePepper {
    /// Parses the key. Returns `None` if the text has fewer than 16 bytes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let key = Some(text.as_bytes()).filter(|key| key.len() >= 16)?;
        Hmac::new_from_slice(key).ok().map(Self)
    }

    /// Returns the HMAC to store for `code`. It also depends on the phone, the purpose and `issue`, the id of
    /// the issued code.
    #[must_use]
    pub fn digest(&self, phone: &Phone, purpose: Purpose, issue: &str, code: &OneTimeCode) -> CodeDigest {
        CodeDigest(self.hmac(&[purpose.as_str(), phone.as_str(), issue, code.as_str()], 32))
    }

    /// Returns the HMAC of a network that asks for a code for `phone` or enters one.
    #[must_use]
    pub fn network(&self, phone: &Phone, address: &Address) -> NetworkDigest {
        // 64 bits are enough to compare a few networks of one phone.
        NetworkDigest(self.hmac(&["network", phone.as_str(), address.as_str()], 8))
    }

    /// Returns the HMACs of a network that requests a code for `phone`.
    #[must_use]
    pub fn requester(&self, phone: &Phone, address: &Address) -> Requester {
        // Some customers get a whole IPv6 /48, so all networks of a /48 are counted as one.
        let counted = address.wider().unwrap_or_else(|| address.clone());
        let counted_for = NetworkDigest(self.hmac(&["counted", counted.as_str()], 16));
        Requester { network: self.network(phone, address), counted_for }
    }

    /// Returns the HMAC of a phone, for data about a phone that belongs to no user.
    #[must_use]
    pub fn phone(&self, phone: &Phone) -> PhoneDigest {
        PhoneDigest(self.hmac(&["phone", phone.as_str()], 16))
    }

    /// Returns the first bytes of the HMAC of some texts, in hexadecimal digits.
    fn hmac(&self, parts: &[&str], bytes: usize) -> String {
        let mut mac = self.0.clone();
        for part in parts {
            mac.update(part.as_bytes());
            mac.update(&[0]);
        }
        base16ct::lower::encode_string(&mac.finalize().into_bytes()[..bytes])
    }
}

/// A phone as an HMAC: a copy of the table must not reveal whose age was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhoneDigest(String);

impl PhoneDigest {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A network as it is stored: an HMAC, because a copy of the table must not reveal where a user was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NetworkDigest(String);

impl NetworkDigest {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The network that requests a code.
#[derive(Debug, Clone)]
pub struct Requester {
    /// Differs between the phones for which the network requests codes.
    pub network: NetworkDigest,
    /// The same for all phones, to count the network's messages.
    pub counted_for: NetworkDigest,
}

impl fmt::Debug for CodePepper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CodePepper(hidden)")
    }
}

/// The HMAC of a code, in hexadecimal digits.
#[derive(Debug, Clone)]
pub struct CodeDigest(String);

impl CodeDigest {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares with a stored digest, in constant time.
    #[must_use]
    pub fn matches(&self, stored: &str) -> bool {
        self.0.as_bytes().ct_eq(stored.as_bytes()).into()
    }
}

/// The code is wrong, expired, used, or has no attempts left. These cases share one error, because more
/// detail would help only an attacker.
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
    fn codes_have_exactly_six_digits() {
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
    fn peppers_shorter_than_16_bytes_are_rejected() {
        assert!(CodePepper::parse("fifteen letters").is_none());
        assert!(CodePepper::parse("sixteen letters!").is_some());
    }
}
