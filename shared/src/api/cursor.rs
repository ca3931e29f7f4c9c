//! Cursors: the opaque texts with which clients ask for the next page of a list.

use std::fmt;

use sha2::{Digest as _, Sha256};

use super::Invalid;
use crate::domain::{Field, Raw, Reason};

/// A position in a list. A [`Cursor`] contains one.
pub trait Position: Sized {
    /// The name of the list. A cursor of one list is invalid in another.
    const LIST: &'static str;

    fn encode(&self) -> String;

    fn decode(text: &str) -> Option<Self>;
}

/// Where the next page of a list begins. Clients treat a cursor as opaque text. It is valid only for the list
/// that it came from.
///
/// The text is hexadecimal: 8 digits that identify the list, then the position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor<P> {
    list_id: [u8; 4],
    position: P,
}

impl<P: Position> Cursor<P> {
    /// The maximum number of hexadecimal digits. No list has positions of more than 1,000 bytes.
    const MAX_LENGTH: usize = 8 + 2 * 1_000;

    pub const WRONG_LIST: &'static str =
        "This cursor does not belong to this list. Start from the first page.";

    /// Creates a cursor of the list that belongs to `owner`: a user, a match or a room. `owner` is empty if
    /// only one list of this kind exists.
    #[must_use]
    pub fn new(owner: impl fmt::Display, position: P) -> Self {
        Self { list_id: Self::list_id(owner), position }
    }

    /// Returns the position, or an error if the cursor is not of the list that belongs to `owner`.
    pub fn position_in(self, owner: impl fmt::Display) -> Result<P, Invalid> {
        if self.list_id == Self::list_id(owner) {
            Ok(self.position)
        } else {
            Err(Invalid::field("cursor", Self::WRONG_LIST))
        }
    }

    fn list_id(owner: impl fmt::Display) -> [u8; 4] {
        let digest = Sha256::digest(format!("{}\u{0}{owner}", P::LIST).as_bytes());
        std::array::from_fn(|at| digest[at])
    }

    fn parse(text: &str) -> Option<Self> {
        if text.len() > Self::MAX_LENGTH {
            return None;
        }
        let bytes = base16ct::lower::decode_vec(text).ok()?;
        let (list_id, position) = bytes.split_first_chunk()?;
        let position = P::decode(std::str::from_utf8(position).ok()?)?;
        let cursor = Self { list_id: *list_id, position };
        // Accepts only the text that `Display` writes. The `decode` of a numeric position would also accept
        // `+7` and `07` for 7.
        (cursor.to_string() == text).then_some(cursor)
    }
}

impl<P: Position> fmt::Display for Cursor<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.list_id, self.position.encode().as_bytes()].concat();
        f.write_str(&base16ct::lower::encode_string(&bytes))
    }
}

impl<P: Position> Field for Cursor<P> {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?).ok_or_else(|| Self::WRONG_LIST.into())
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "maxLength": Self::MAX_LENGTH, "pattern": "^[0-9a-f]{8}([0-9a-f]{2})+$",
            "description": "`meta.next_cursor` of the previous page.",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, PartialEq, Eq)]
    struct After(u32);

    impl Position for After {
        const LIST: &'static str = "rows";

        fn encode(&self) -> String {
            self.0.to_string()
        }

        fn decode(text: &str) -> Option<Self> {
            text.parse().ok().map(Self)
        }
    }

    #[derive(Debug, PartialEq, Eq)]
    struct Name(String);

    impl Position for Name {
        const LIST: &'static str = "names";

        fn encode(&self) -> String {
            self.0.clone()
        }

        fn decode(text: &str) -> Option<Self> {
            (!text.is_empty()).then(|| Self(text.to_owned()))
        }
    }

    #[test]
    fn cursors_round_trip_and_are_valid_only_in_their_own_list() {
        let text = Cursor::new("user 7", After(42)).to_string();
        let cursor: Cursor<After> = Cursor::parse(&text).unwrap();
        assert_eq!(cursor.clone().position_in("user 7"), Ok(After(42)));
        assert_eq!(
            cursor.position_in("user 8").unwrap_err().first_sentence(),
            "This cursor does not belong to this list. Start from the first page."
        );
        let other: Cursor<Name> = Cursor::parse(&text).unwrap();
        assert!(
            other.position_in("user 7").is_err(),
            "the cursor is not valid in another list of the same owner"
        );
    }

    #[test]
    fn a_cursor_can_hold_a_position_that_is_not_ascii() {
        let text = Cursor::new("", Name("føroyar · 2–1".into())).to_string();
        assert!(text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)));
        assert_eq!(Cursor::parse(&text).unwrap().position_in(""), Ok(Name("føroyar · 2–1".into())));
    }

    #[test]
    fn malformed_cursors_are_rejected() {
        let valid = Cursor::new("", After(7)).to_string();
        let capitals = valid.to_uppercase();
        let zero = format!("{}3037", &valid[..8]);
        let sign = format!("{}2b37", &valid[..8]);
        let long = format!("{}{}", &valid[..8], "31".repeat(1_001));
        let texts = ["", "x", &valid[..8], &valid[..9], "zzzzzzzz37", "é", "0000000é37", &zero, &sign, &long];
        for text in texts {
            assert_eq!(Cursor::<After>::parse(text), None, "{text}");
        }
        assert!(capitals == valid || Cursor::<After>::parse(&capitals).is_none());
    }
}
