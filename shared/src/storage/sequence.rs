//! Sequence numbers of DynamoDB Streams.

/// The position of a stream record in its stream shard. A later record has a greater sequence number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sequence(u128);

/// The maximum length of a sequence number that [`Sequence::parse`] accepts, in digits. A DynamoDB attribute stores
/// numbers of up to 38 digits exactly. The examples in the DynamoDB documentation have 21 digits, although its limit
/// for sequence numbers is 40.
const MAX_DIGITS: usize = 38;

impl Sequence {
    /// Parses a sequence number. Returns `None` if the text is not a sequence number.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_well_formed =
            (1..=MAX_DIGITS).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        text.parse().ok().filter(|_| is_well_formed).map(Self)
    }

    pub(super) fn number(self) -> u128 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_compare_as_numbers() {
        let sequence = |text| Sequence::parse(text).unwrap();
        assert!(sequence("9") < sequence("10"));
        assert!(sequence("400000000000000499660") < sequence("4421584500000000017450439091"));
        assert_eq!(sequence("007"), sequence("7"));
    }

    #[test]
    fn malformed_sequences_are_rejected() {
        for text in ["", "x", "-1", "1.0", &"9".repeat(39)] {
            assert_eq!(Sequence::parse(text), None, "{text}");
        }
    }
}
