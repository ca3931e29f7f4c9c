//! The rules. Pure: no async, no AWS, no clock, no randomness of their own.

pub mod address;
pub mod catalog;
pub mod code;
pub mod coins;
pub mod limit;
pub mod phone;
pub mod points;
pub mod prediction;
pub mod profile;
pub mod push;
pub mod room;
pub mod session;
pub mod sms;
pub mod tally;
pub mod time;
pub mod username;

use std::borrow::Cow;
use std::fmt;

use sha2::{Digest as _, Sha256};

pub use address::Address;
pub use code::{CodeKey, IssueId, OneTimeCode, Purpose, Sending};
pub use limit::{Limit, Limited};
pub use phone::Phone;
pub use prediction::{Pick, Prediction};
pub use profile::{BirthDate, Email, Name, User, UserId};
pub use room::{Room, RoomId};
pub use session::Token;
pub use time::Timestamp;
pub use username::Username;

/// Why a value was refused, worded to follow the field's name: "must start with +".
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason(Cow<'static, str>);

impl From<&'static str> for Reason {
    fn from(text: &'static str) -> Self {
        Self(Cow::Borrowed(text))
    }
}

impl From<String> for Reason {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What tells a list of texts from every other list, in a few letters.
#[must_use]
pub fn digest(parts: &[impl AsRef<str>]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        let part = part.as_ref();
        // With its length: where one ends and the next begins is part of it.
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let half: [u8; 16] = std::array::from_fn(|at| digest[at]);
    format!("{:032x}", u128::from_be_bytes(half))
}

/// Text a person typed for others to read: trimmed, bounded, without control characters.
pub(crate) fn line(text: &str, most: usize) -> Result<String, Reason> {
    let text = text.trim();
    if text.is_empty() {
        return Err("must not be empty".into());
    }
    if text.chars().count() > most {
        return Err(format!("must be at most {most} characters").into());
    }
    if text.chars().any(char::is_control) {
        return Err("must not contain control characters".into());
    }
    Ok(text.to_owned())
}
