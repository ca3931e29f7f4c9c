use std::collections::BTreeMap;
use std::fmt;

use super::variables::{ConfigError, Variables};
use crate::domain::{OneTimeCode, Phone};

/// Phones with a fixed code, to which no message is sent. The reviewers of app stores log in with them.
///
/// `Debug` hides them.
#[derive(Clone, Default)]
pub struct TestPhones(BTreeMap<Phone, OneTimeCode>);

impl TestPhones {
    /// Returns the fixed code of a phone.
    #[must_use]
    pub fn code(&self, phone: &Phone) -> Option<&OneTimeCode> {
        self.0.get(phone)
    }

    /// Reads a JSON object with a code for each phone: `{"+15555550100": "123456"}`.
    pub(super) fn read(vars: &Variables<'_>) -> Result<Self, ConfigError> {
        const VARIABLE: &str = "TEST_PHONES";
        let Some(text) = vars.secret(VARIABLE)? else { return Ok(Self::default()) };
        let codes: Option<BTreeMap<String, String>> = serde_json::from_str(&text).ok();
        let parse = |(phone, code): (String, String)| {
            Some((Phone::parse(&phone).ok()?, OneTimeCode::parse(&code).ok()?))
        };
        let phones = codes.and_then(|codes| codes.into_iter().map(parse).collect::<Option<_>>());
        let expected =
            "a JSON object with a code of 6 digits for each phone, such as {\"+15555550100\":\"123456\"}";
        let problem = "is no such object, or has an invalid phone or code";
        phones.map(Self).ok_or_else(|| ConfigError::new(VARIABLE, problem, expected))
    }
}

impl fmt::Debug for TestPhones {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TestPhones(hidden)")
    }
}
