//! Sessions: bearer tokens, their expiry and renewal.

use std::fmt;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Field, Raw, Reason, UserId, text};

/// A request renews the session only if the last renewal was at least this long ago. Renewing on every
/// request would cost a write each time.
pub const RENEW_AFTER: TimeDelta = TimeDelta::days(1);

/// A bearer token: `tl_<user id>_<64 hex digits>`.
///
/// The prefix `tl_` lets secret scanners find leaked tokens. The user id is part of the session's key, so one
/// read finds the session. The digits are 256 random bits. Only the SHA-256 of the token is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    user: UserId,
    text: String,
}

impl Token {
    #[must_use]
    pub fn new(user: UserId, secret: [u8; 32]) -> Self {
        Self { user, text: format!("tl_{user}_{}", base16ct::lower::encode_string(&secret)) }
    }

    /// Parses a token in exactly the form that [`Self::new`] writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (user, secret) = text.strip_prefix("tl_")?.split_once('_')?;
        let is_secret = secret.len() == 64 && secret.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        // The user id must have its canonical form: no sign, no leading zero.
        let user_id: UserId = user.parse().ok().filter(|id: &UserId| id.to_string() == user)?;
        is_secret.then(|| Self { user: user_id, text: text.to_owned() })
    }

    #[must_use]
    pub fn user(&self) -> UserId {
        self.user
    }

    #[must_use]
    pub fn digest(&self) -> String {
        base16ct::lower::encode_string(&Sha256::digest(self.text.as_bytes()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token(of user {}, hidden)", self.user)
    }
}

/// Why a caller is not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    #[error("no token was sent")]
    Missing,
    #[error("the token is unknown or logged out")]
    Unknown,
    #[error("the token has expired")]
    Expired,
}

/// Checks that a session has not expired, and returns whether this request must renew it.
pub fn check(
    renewed_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<Renewal, Unauthenticated> {
    if now >= expires_at {
        return Err(Unauthenticated::Expired);
    }
    Ok(if now - renewed_at >= RENEW_AFTER { Renewal::Due } else { Renewal::NotYet })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    Due,
    NotYet,
}

/// How long sessions last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// How long a session lasts after its last use.
    pub unused: TimeDelta,
    /// How long a session lasts after its login, however much it is used.
    pub longest: TimeDelta,
}

impl Lifetime {
    /// Returns when a session ends that is used now.
    #[must_use]
    pub fn end(self, created_at: DateTime<Utc>, now: DateTime<Utc>) -> DateTime<Utc> {
        (now + self.unused).min(created_at + self.longest)
    }
}

/// The id of a session: the id of its chat device, which the login returns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct SessionId(pub String);

/// The most characters of a session id. Ours have ten.
const MAX_ID: usize = 64;

impl SessionId {
    /// Parses a session id. Returns `None` if no session can have this id.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_id =
            (1..=MAX_ID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_id.then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a device, which its owner sees in the list of their sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct DeviceName(String);

impl DeviceName {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        text::line(text, 100).map(Self)
    }
}

impl Field for DeviceName {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        text::schema::line(100, "Ada's phone")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_round_trip() {
        let token = Token::new(UserId(7), [0xab; 32]);
        assert!(token.as_str().starts_with("tl_7_abab"));
        assert_eq!(Token::parse(token.as_str()), Some(token));
    }

    #[test]
    fn malformed_tokens_are_rejected() {
        let secret = "a".repeat(64);
        for text in [
            String::new(),
            "tl_".into(),
            format!("tl__{secret}"),
            format!("tl_+7_{secret}"),
            format!("tl_07_{secret}"),
            format!("tl_-7_{secret}"),
            format!("tl_7_{}", "A".repeat(64)),
            format!("tl_7_{secret}a"),
            format!("xx_7_{secret}"),
        ] {
            assert_eq!(Token::parse(&text), None, "{text}");
        }
    }

    #[test]
    fn sessions_expire_on_time_and_renew_once_a_day() {
        let start = DateTime::from_timestamp(1_763_000_000, 0).unwrap();
        let end = start + TimeDelta::days(30);
        let ms = TimeDelta::milliseconds(1);
        assert_eq!(check(start, end, end), Err(Unauthenticated::Expired));
        assert_eq!(check(start, end, end - ms), Ok(Renewal::Due));
        assert_eq!(check(start, end, start + TimeDelta::days(1)), Ok(Renewal::Due));
        assert_eq!(check(start, end, start + TimeDelta::days(1) - ms), Ok(Renewal::NotYet));
    }

    #[test]
    fn use_extends_a_session_but_not_beyond_its_longest_lifetime() {
        let start = DateTime::from_timestamp(1_763_000_000, 0).unwrap();
        let lifetime = Lifetime { unused: TimeDelta::days(30), longest: TimeDelta::days(365) };
        let end_if_used_on_day = |day| lifetime.end(start, start + TimeDelta::days(day));
        assert_eq!(end_if_used_on_day(0), start + TimeDelta::days(30));
        assert_eq!(end_if_used_on_day(335), start + TimeDelta::days(365));
        assert_eq!(end_if_used_on_day(364), start + TimeDelta::days(365));
    }

    #[test]
    fn session_ids_are_letters_and_digits() {
        assert_eq!(SessionId::parse("a1B2").unwrap().as_str(), "a1B2");
        for text in ["", "a b", "a#b", "é", &"a".repeat(65)] {
            assert_eq!(SessionId::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in any::<String>()) {
            let _ = Token::parse(&text);
        }
    }
}
