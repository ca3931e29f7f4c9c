use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Field, Raw, Reason};

/// A phone number in international form: `+`, then 7 to 15 digits, the first not zero.
///
/// Its `Debug` form hides the digits, so that a number cannot reach a log by accident.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Phone(String);

impl Phone {
    /// Reads a number as people write it: spaces, dashes and brackets are passed over.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        // Bounded before it is copied: a number with all its decoration is well under this.
        if text.len() > 40 {
            return Err("is too long for a phone number".into());
        }
        let bare: String = text.chars().filter(|c| !matches!(c, ' ' | '-' | '(' | ')')).collect();
        let Some(digits) = bare.strip_prefix('+') else {
            return Err("must be in international format, starting with +".into());
        };
        if !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err("must contain only digits after the +".into());
        }
        if digits.starts_with('0') {
            return Err("must not have a zero after the +".into());
        }
        if !(7..=15).contains(&digits.len()) {
            return Err("must have 7 to 15 digits after the +".into());
        }
        Ok(Self(bare))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether one of `prefixes` (such as `+44`) begins the number; no prefixes means all are welcome.
    #[must_use]
    pub fn is_allowed(&self, prefixes: &[String]) -> bool {
        prefixes.is_empty() || prefixes.iter().any(|prefix| self.0.starts_with(prefix))
    }
}

impl Field for Phone {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match raw {
            // In a query string a bare + means a space, and clients forget to escape it.
            Raw::Text(text) if text.starts_with(' ') => Self::parse(&format!("+{}", text.trim_start())),
            _ => Self::parse(raw.text()?),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "maxLength": 40, "examples": ["+447700900123"],
            "pattern": r"^[ ()\-]*\+[ ()\-]*[1-9]([ ()\-]*[0-9]){6,14}[ ()\-]*$",
            "description": "A phone number in international format. Spaces, hyphens and parentheses are ignored.",
        })
    }
}

#[cfg(feature = "openapi")]
super::field::shown_as!(Phone, { "type": "string", "pattern": r"^\+[1-9][0-9]{6,14}$" });

impl fmt::Debug for Phone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Phone(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_people_write() {
        for text in ["+447700900123", "+44 7700 900-123", "+44 (7700) 900123"] {
            assert_eq!(Phone::parse(text).unwrap().as_str(), "+447700900123");
        }
    }

    #[test]
    fn refuses_what_is_no_number() {
        for text in [
            "",
            "+",
            "447700900123",
            "+044770090",
            "+123456",
            "+1234567890123456",
            "+44x700900123",
            "++447700900123",
            "+44.7700.900123",
            "+447700900123\n",
            "+४४७७००९००१२३",
        ] {
            assert!(Phone::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn the_allow_list_is_by_prefix() {
        let phone = Phone::parse("+447700900123").unwrap();
        assert!(phone.is_allowed(&[]));
        assert!(phone.is_allowed(&["+1".into(), "+44".into()]));
        assert!(!phone.is_allowed(&["+1".into()]));
    }

    #[test]
    fn debug_output_hides_the_number() {
        assert!(!format!("{:?}", Phone::parse("+447700900123").unwrap()).contains("7700"));
    }

    proptest! {
        #[test]
        fn parsing_is_stable(text in "\\+[1-9][0-9 ()-]{0,20}") {
            if let Ok(phone) = Phone::parse(&text) {
                prop_assert_eq!(Phone::parse(phone.as_str()).unwrap(), phone);
            }
        }

        #[test]
        fn never_panics(text in any::<String>()) {
            let _ = Phone::parse(&text);
        }
    }
}
