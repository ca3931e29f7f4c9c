use chrono::TimeDelta;

use super::variables::{ConfigError, Variables};
use super::{Environment, TestPhones};
use crate::domain::sms::Autofill;
use crate::domain::{CodePepper, Limit};

/// Settings of the one-time codes.
#[derive(Debug, Clone)]
pub struct CodeSettings {
    /// The key for the HMACs of codes. Only the Lambda functions that send or check codes have it.
    pub pepper: Option<CodePepper>,
    /// How many codes can be sent to one phone.
    pub per_phone: [Limit; 2],
    /// How many codes can be requested from one network.
    pub per_address: Limit,
    /// How many codes can be requested from one IPv6 /48 in a UTC hour, and how many wrong codes can be entered from it for
    /// codes that other networks requested.
    pub per_ipv6_48: u32,
    /// How many wrong codes one network can enter for codes that other networks requested.
    pub wrong_per_address: Limit,
    /// Codes are sent only to phones that start with one of these prefixes. An empty list allows no phone.
    pub prefixes: Vec<String>,
    /// Phones with a fixed code.
    pub test_phones: TestPhones,
    /// The last line of messages with a code.
    pub autofill: Option<Autofill>,
}

/// How many additional codes each limit of a phone allows for requests from a network from which its owner has logged in
/// before. Without them, a stranger could use up all codes of the phone.
const EXTRA_CODES: usize = 3;

impl CodeSettings {
    /// Returns the limits of a phone for a network from which its owner has logged in before.
    #[must_use]
    pub fn per_phone_if_known(&self) -> [Limit; 2] {
        self.per_phone.map(|limit| Limit { count: limit.count + EXTRA_CODES, ..limit })
    }

    pub(super) fn read(vars: &Variables<'_>, environment: Environment) -> Result<Self, ConfigError> {
        Ok(Self {
            pepper: pepper(vars)?,
            per_phone: [
                Limit { count: vars.count("CODES_PER_10_MINUTES", 5)?, window: TimeDelta::minutes(10) },
                Limit { count: vars.count("CODES_PER_DAY", 10)?, window: TimeDelta::days(1) },
            ],
            per_address: Limit {
                count: vars.count("CODES_PER_ADDRESS_PER_HOUR", 30)?,
                window: TimeDelta::hours(1),
            },
            per_ipv6_48: vars.within("CODES_PER_IPV6_48_PER_HOUR", 1_000, 1..=1_000_000)?,
            wrong_per_address: Limit {
                count: vars.count("WRONG_CODES_PER_ADDRESS_PER_HOUR", 30)?,
                window: TimeDelta::hours(1),
            },
            prefixes: prefixes(vars, environment)?,
            test_phones: TestPhones::read(vars)?,
            autofill: autofill(vars)?,
        })
    }
}

fn pepper(vars: &Variables<'_>) -> Result<Option<CodePepper>, ConfigError> {
    const VARIABLE: &str = "CODE_PEPPER";
    let Some(text) = vars.secret(VARIABLE)? else { return Ok(None) };
    let too_short = || ConfigError::new(VARIABLE, "is too short", "a random text of 16 characters or more");
    CodePepper::parse(&text).map(Some).ok_or_else(too_short)
}

fn autofill(vars: &Variables<'_>) -> Result<Option<Autofill>, ConfigError> {
    const DOMAIN: &str = "SMS_AUTOFILL_DOMAIN";
    const APP_HASH: &str = "SMS_RETRIEVER_HASH";
    match (vars.get(DOMAIN), vars.get(APP_HASH)) {
        (None, None) => Ok(None),
        (Some(domain), None) => Autofill::domain(&domain).map(Some).ok_or_else(|| {
            let most = Autofill::MAX_DOMAIN;
            let expected =
                format!("a domain such as example.com, in lower case, of at most {most} characters");
            ConfigError::invalid(DOMAIN, &domain, expected)
        }),
        (None, Some(hash)) => Autofill::app_hash(&hash).map(Some).ok_or_else(|| {
            ConfigError::invalid(
                APP_HASH,
                &hash,
                "the 11 characters that the SMS Retriever of Android expects",
            )
        }),
        (Some(_), Some(_)) => {
            let problem = format!("and {APP_HASH} are both set, but a message has one last line");
            Err(ConfigError::new(DOMAIN, &problem, "nothing, or remove the other one"))
        }
    }
}

/// The prefix of all phones.
const EVERY_PHONE: &str = "+";

/// In production, an operator must choose the countries, because messages to some cost a hundred times as much as to others.
fn prefixes(vars: &Variables<'_>, environment: Environment) -> Result<Vec<String>, ConfigError> {
    const VARIABLE: &str = "PHONE_PREFIXES";
    let Some(list) = vars.get(VARIABLE) else {
        let is_open = environment != Environment::Production;
        return Ok(is_open.then(|| EVERY_PHONE.to_owned()).into_iter().collect());
    };
    let prefixes = list.split(',').map(str::trim).filter(|prefix| !prefix.is_empty());
    let prefixes: Vec<&str> =
        prefixes.map(|prefix| if prefix == "*" { EVERY_PHONE } else { prefix }).collect();
    match prefixes.iter().find(|prefix| **prefix != EVERY_PHONE && !is_prefix(prefix)) {
        None => Ok(prefixes.into_iter().map(str::to_owned).collect()),
        Some(wrong) => {
            let problem = format!("contains {wrong:?}");
            let expected = "prefixes such as +44, separated by commas, or * for all countries";
            Err(ConfigError::new(VARIABLE, &problem, expected))
        }
    }
}

pub(super) fn is_prefix(text: &str) -> bool {
    text.strip_prefix('+')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}
