//! Configuration: read from the environment once, at start, all of it checked.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use aws_sdk_dynamodb::config::Credentials;
use chrono::TimeDelta;
use tracing::Level;

use crate::domain::coins::DailyRules;
use crate::domain::{CodeKey, Limit, Reason};

/// A variable that is missing or makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable} {problem}")]
pub struct ConfigError {
    pub variable: &'static str,
    pub problem: String,
}

/// Everything the functions can be told.
#[derive(Debug, Clone)]
pub struct Config {
    pub environment: Environment,
    pub log_level: Level,
    pub aws: Aws,
    pub tables: Tables,
    pub codes: CodeSettings,
    pub session_length: TimeDelta,
    /// How long a function trusts its copy of the catalog before it looks at the head again.
    pub catalog_max_age: TimeDelta,
    /// Whether anybody sees what others predict before kick-off.
    pub picks_visible: PicksVisible,
    pub coins: CoinSettings,
    pub sms: SmsSettings,
    pub chat: ChatSettings,
    /// Where scheduled imports come from, if anywhere.
    pub feed: Option<FeedSettings>,
}

/// Where this runs. Any word that is not known, or none, is production.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Environment {
    Local,
    Testing,
    Staging,
    Production,
}

impl Environment {
    fn read(word: Option<&str>) -> Self {
        match word {
            Some("local") => Self::Local,
            Some("testing") => Self::Testing,
            Some("staging") => Self::Staging,
            _ => Self::Production,
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Testing => "testing",
            Self::Staging => "staging",
            Self::Production => "production",
        }
    }

    /// Whether codes may be kept and shown in clear, and costs told in a header.
    #[must_use]
    pub fn shows_codes(self) -> bool {
        self != Self::Production
    }
}

/// When people see what others predict. Totals are shown always.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PicksVisible {
    Always,
    /// Before kick-off, only one's own.
    AfterStart,
}

impl FromStr for PicksVisible {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "always" => Ok(Self::Always),
            "after_start" => Ok(Self::AfterStart),
            _ => Err(()),
        }
    }
}

/// How AWS is reached.
///
/// Lambda hands credentials over in variables for as long as the function lives, so these are read
/// once; `aws-config` and its search through files and services stay out of the binary.
#[derive(Debug, Clone)]
pub struct Aws {
    pub region: String,
    pub credentials: Credentials,
    pub dynamodb_endpoint: Option<String>,
    pub sns_endpoint: Option<String>,
}

/// The tables' names.
#[derive(Debug, Clone)]
pub struct Tables {
    pub users: String,
    pub sms_logs: String,
    pub catalog: String,
    pub predictions: String,
    pub rooms: String,
    pub wallets: String,
}

#[derive(Debug, Clone)]
pub struct CodeSettings {
    /// Told to those functions alone that send or check codes.
    pub key: Option<CodeKey>,
    pub per_phone: [Limit; 2],
    pub per_address: Limit,
    /// Phones must begin with one of these; empty means all may.
    pub prefixes: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct CoinSettings {
    /// The words that a deduction may give as its reason.
    pub reasons: Vec<String>,
    pub daily: DailyRules,
    /// How often somebody may ask for the bonus.
    pub claims: Limit,
}

#[derive(Debug, Clone)]
pub enum SmsSettings {
    Console,
    Sns(SnsSettings),
}

#[derive(Debug, Clone)]
pub struct SnsSettings {
    pub sender_id: Option<String>,
    pub max_price_usd: String,
}

/// A text that nobody sees in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

#[derive(Debug, Clone)]
pub struct ChatSettings {
    /// The part of chat identities after the colon.
    pub server: String,
    /// The homeserver, where there is one.
    pub homeserver: Option<Homeserver>,
    /// What the homeserver shows when it tells us what happened. Without one, nobody is believed.
    pub hs_token: Option<Secret>,
}

#[derive(Debug, Clone)]
pub struct Homeserver {
    pub url: String,
    /// What we show to the homeserver.
    pub as_token: Secret,
}

#[derive(Clone)]
pub struct FeedSettings {
    pub url: String,
    pub format: String,
    pub timezone: String,
    pub token: Option<String>,
    pub token_header: String,
}

impl std::fmt::Debug for FeedSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FeedSettings({}, {})", self.url, self.format)
    }
}

impl Config {
    /// Reads the process's own variables.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::read(|name| std::env::var(name).ok())
    }

    /// Reads variables from anywhere. An empty one counts as unset: templates cannot leave one out.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let vars = Variables(|name: &str| lookup(name).filter(|value| !value.is_empty()));
        let environment = Environment::read(vars.get("ENVIRONMENT").as_deref());
        Ok(Self {
            environment,
            log_level: vars.or("LOG_LEVEL", Level::INFO, "error, warn, info, debug or trace")?,
            aws: Aws {
                region: vars.required("AWS_REGION")?,
                credentials: Credentials::new(
                    vars.required("AWS_ACCESS_KEY_ID")?,
                    vars.required("AWS_SECRET_ACCESS_KEY")?,
                    vars.get("AWS_SESSION_TOKEN"),
                    None,
                    "environment",
                ),
                dynamodb_endpoint: vars
                    .get("AWS_ENDPOINT_URL_DYNAMODB")
                    .or_else(|| vars.get("AWS_ENDPOINT_URL")),
                sns_endpoint: vars.get("AWS_ENDPOINT_URL_SNS").or_else(|| vars.get("AWS_ENDPOINT_URL")),
            },
            tables: Tables {
                users: vars.required("USERS_TABLE")?,
                sms_logs: vars.required("SMS_LOGS_TABLE")?,
                catalog: vars.required("CATALOG_TABLE")?,
                predictions: vars.required("PREDICTIONS_TABLE")?,
                rooms: vars.required("ROOMS_TABLE")?,
                wallets: vars.required("WALLETS_TABLE")?,
            },
            codes: CodeSettings {
                key: vars.parsed("CODE_PEPPER", CodeKey::parse)?,
                per_phone: [
                    Limit { count: vars.count("CODES_PER_10_MINUTES", 5)?, window: TimeDelta::minutes(10) },
                    Limit { count: vars.count("CODES_PER_DAY", 10)?, window: TimeDelta::days(1) },
                ],
                per_address: Limit {
                    count: vars.count("CODES_PER_ADDRESS_PER_HOUR", 30)?,
                    window: TimeDelta::hours(1),
                },
                prefixes: vars.prefixes("PHONE_PREFIXES")?,
            },
            session_length: TimeDelta::days(vars.within("SESSION_DAYS", 30, 1..=365)?),
            catalog_max_age: TimeDelta::milliseconds(vars.within("CATALOG_MAX_AGE_MS", 1_000, 0..=60_000)?),
            coins: CoinSettings {
                reasons: vars.words("COIN_REASONS", "purchase,wager,gift,other")?,
                daily: DailyRules {
                    base: vars.within("DAILY_COINS", 10, 0..=1_000_000)?,
                    step: vars.within("DAILY_COINS_STEP", 5, 0..=1_000_000)?,
                    most: vars.within("DAILY_COINS_MOST", 30, 0..=1_000_000)?,
                },
                claims: Limit { count: vars.count("CLAIMS_PER_MINUTE", 10)?, window: TimeDelta::minutes(1) },
            },
            picks_visible: vars.or("PICKS_VISIBLE", PicksVisible::Always, "always or after_start")?,
            sms: vars.sms(environment)?,
            chat: vars.chat()?,
            feed: vars.feed()?,
        })
    }
}

fn is_link(text: &str) -> bool {
    text.starts_with("https://") || text.starts_with("http://")
}

struct Variables<F>(F);

impl<F: Fn(&str) -> Option<String>> Variables<F> {
    fn get(&self, name: &str) -> Option<String> {
        self.0(name)
    }

    fn required(&self, variable: &'static str) -> Result<String, ConfigError> {
        self.get(variable).ok_or(ConfigError { variable, problem: "is not set".into() })
    }

    fn parsed<T>(
        &self,
        variable: &'static str,
        parse: impl Fn(&str) -> Result<T, Reason>,
    ) -> Result<Option<T>, ConfigError> {
        let parsed = self.get(variable).map(|value| parse(&value)).transpose();
        parsed.map_err(|reason| ConfigError { variable, problem: reason.to_string() })
    }

    fn or<T: FromStr>(&self, variable: &'static str, default: T, allowed: &str) -> Result<T, ConfigError> {
        match self.get(variable) {
            None => Ok(default),
            Some(value) => value.parse().map_err(|_| ConfigError {
                variable,
                problem: format!("is {value:?}, but must be {allowed}"),
            }),
        }
    }

    fn within<T: FromStr + PartialOrd + Display>(
        &self,
        variable: &'static str,
        default: T,
        range: RangeInclusive<T>,
    ) -> Result<T, ConfigError> {
        let allowed = format!("a whole number from {} to {}", range.start(), range.end());
        let number = self.or(variable, default, &allowed)?;
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(ConfigError { variable, problem: format!("is {number}, but must be {allowed}") })
        }
    }

    /// A limit's count. The times are kept in the item, one by one, hence the bound.
    fn count(&self, variable: &'static str, default: usize) -> Result<usize, ConfigError> {
        self.within(variable, default, 1..=40)
    }

    /// A list of words, separated by commas.
    fn words(&self, variable: &'static str, default: &str) -> Result<Vec<String>, ConfigError> {
        let text = self.get(variable).unwrap_or_else(|| default.to_owned());
        let words: Vec<String> = text.split(',').map(|word| word.trim().to_owned()).collect();
        let is_word = |word: &String| {
            !word.is_empty()
                && word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        if words.iter().all(is_word) {
            Ok(words)
        } else {
            let problem = format!("is {text:?}, but must be words of a-z, 0-9 and _ with commas between");
            Err(ConfigError { variable, problem })
        }
    }

    fn prefixes(&self, variable: &'static str) -> Result<Vec<String>, ConfigError> {
        let list = self.get(variable).unwrap_or_default();
        let prefixes: Vec<String> =
            list.split(',').map(str::trim).filter(|prefix| !prefix.is_empty()).map(str::to_owned).collect();
        match prefixes.iter().find(|prefix| {
            !prefix
                .strip_prefix('+')
                .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
        }) {
            None => Ok(prefixes),
            Some(prefix) => Err(ConfigError {
                variable,
                problem: format!("holds {prefix:?}, which is not of the form +44"),
            }),
        }
    }

    fn chat(&self) -> Result<ChatSettings, ConfigError> {
        let server = self.get("CHAT_SERVER_NAME").unwrap_or_else(|| "touchline.local".into());
        let is_name = |c: char| c.is_ascii_alphanumeric() || ".-:".contains(c);
        if !server.chars().all(is_name) {
            let problem = format!("is {server:?}, which is no server's name");
            return Err(ConfigError { variable: "CHAT_SERVER_NAME", problem });
        }
        let homeserver = match self.get("CHAT_HOMESERVER_URL") {
            None => None,
            Some(url) if is_link(&url) => {
                let as_token = self.secret("CHAT_AS_TOKEN")?;
                let missing = || ConfigError { variable: "CHAT_AS_TOKEN", problem: "is not set".into() };
                Some(Homeserver { url, as_token: as_token.ok_or_else(missing)? })
            }
            Some(_) => {
                return Err(ConfigError {
                    variable: "CHAT_HOMESERVER_URL",
                    problem: "must be a link".into(),
                });
            }
        };
        Ok(ChatSettings { server, homeserver, hs_token: self.secret("CHAT_HS_TOKEN")? })
    }

    fn secret(&self, variable: &'static str) -> Result<Option<Secret>, ConfigError> {
        let Some(text) = self.get(variable) else { return Ok(None) };
        if text.len() >= 16 && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Some(Secret(text)))
        } else {
            Err(ConfigError { variable, problem: "must be 16 or more letters and digits".into() })
        }
    }

    fn feed(&self) -> Result<Option<FeedSettings>, ConfigError> {
        const FORMATS: [&str; 3] = ["touchline", "football-data.org/v4", "openfootball"];
        let Some(url) = self.get("FEED_URL") else { return Ok(None) };
        if !is_link(&url) {
            return Err(ConfigError { variable: "FEED_URL", problem: "must be a link".into() });
        }
        let format = self.get("FEED_FORMAT").unwrap_or_else(|| FORMATS[0].into());
        if !FORMATS.contains(&format.as_str()) {
            let problem = format!("is {format:?}, but must be one of {}", FORMATS.join(", "));
            return Err(ConfigError { variable: "FEED_FORMAT", problem });
        }
        Ok(Some(FeedSettings {
            url,
            format,
            timezone: self.get("FEED_TIMEZONE").unwrap_or_else(|| "UTC".into()),
            token: self.get("FEED_TOKEN"),
            token_header: self.get("FEED_TOKEN_HEADER").unwrap_or_else(|| "X-Auth-Token".into()),
        }))
    }

    fn sms(&self, environment: Environment) -> Result<SmsSettings, ConfigError> {
        const VARIABLE: &str = "SMS_PROVIDER";
        let on_a_terminal = matches!(environment, Environment::Local | Environment::Testing);
        match self.required(VARIABLE)?.as_str() {
            "console" if on_a_terminal => Ok(SmsSettings::Console),
            "console" => Err(ConfigError {
                variable: VARIABLE,
                problem: "is console, which would write codes into the log: use sns here".into(),
            }),
            "sns" => {
                let max_price_usd = self.get("SMS_MAX_PRICE_USD").unwrap_or_else(|| "0.50".into());
                if max_price_usd.parse::<f64>().is_ok_and(|price| price > 0.0 && price.is_finite()) {
                    Ok(SmsSettings::Sns(SnsSettings { sender_id: self.get("SMS_SENDER_ID"), max_price_usd }))
                } else {
                    Err(ConfigError {
                        variable: "SMS_MAX_PRICE_USD",
                        problem: "must be a positive number".into(),
                    })
                }
            }
            other => Err(ConfigError {
                variable: VARIABLE,
                problem: format!("is {other:?}, but must be sns or console"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn variables() -> HashMap<&'static str, &'static str> {
        HashMap::from([
            ("ENVIRONMENT", "testing"),
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", "k"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("USERS_TABLE", "users"),
            ("SMS_LOGS_TABLE", "sms_logs"),
            ("CATALOG_TABLE", "catalog"),
            ("PREDICTIONS_TABLE", "predictions"),
            ("ROOMS_TABLE", "rooms"),
            ("WALLETS_TABLE", "wallets"),
            ("CODE_PEPPER", "sixteen characters"),
            ("SMS_PROVIDER", "sns"),
        ])
    }

    fn read(changes: &[(&'static str, &'static str)]) -> Result<Config, ConfigError> {
        let mut all = variables();
        all.extend(changes.iter().copied());
        Config::read(|name| all.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn what_is_missing_is_named() {
        for variable in ["AWS_REGION", "USERS_TABLE", "SMS_LOGS_TABLE", "SMS_PROVIDER"] {
            let error = read(&[(variable, "")]).unwrap_err();
            assert_eq!(error.to_string(), format!("{variable} is not set"));
        }
    }

    #[test]
    fn nonsense_is_named() {
        for (variable, value) in [
            ("LOG_LEVEL", "shouting"),
            ("CODE_PEPPER", "short"),
            ("CODES_PER_DAY", "0"),
            ("CODES_PER_DAY", "41"),
            ("CODES_PER_10_MINUTES", "many"),
            ("SESSION_DAYS", "-1"),
            ("SESSION_DAYS", "0"),
            ("PHONE_PREFIXES", "+44,49"),
            ("SMS_PROVIDER", "pigeon"),
            ("FEED_URL", "example.org"),
            ("CHAT_HOMESERVER_URL", "example.org"),
            ("CHAT_SERVER_NAME", "two words"),
            ("CHAT_HS_TOKEN", "short"),
            ("SMS_MAX_PRICE_USD", "free"),
            ("SMS_MAX_PRICE_USD", "inf"),
        ] {
            assert_eq!(read(&[(variable, value)]).unwrap_err().variable, variable, "{value}");
        }
    }

    #[test]
    fn a_homeserver_needs_a_token_which_stays_hidden() {
        let url = ("CHAT_HOMESERVER_URL", "https://chat.example.org");
        assert_eq!(read(&[url]).unwrap_err().variable, "CHAT_AS_TOKEN");
        let config = read(&[url, ("CHAT_AS_TOKEN", "a-token-of-ours-1")]).unwrap();
        assert_eq!(config.chat.homeserver.as_ref().unwrap().as_token.reveal(), "a-token-of-ours-1");
        assert!(!format!("{config:?}").contains("a-token-of-ours"));
    }

    #[test]
    fn an_unknown_environment_is_production() {
        for word in ["", "prod", "production", "Local", "dev"] {
            let config = read(&[("ENVIRONMENT", word)]).unwrap();
            assert_eq!(config.environment, Environment::Production, "{word:?}");
            assert!(!config.environment.shows_codes());
        }
    }

    #[test]
    fn codes_never_go_to_a_deployed_console() {
        for word in ["", "staging", "production"] {
            assert_eq!(
                read(&[("ENVIRONMENT", word), ("SMS_PROVIDER", "console")]).unwrap_err().variable,
                "SMS_PROVIDER"
            );
        }
        assert!(read(&[("ENVIRONMENT", "local"), ("SMS_PROVIDER", "console")]).is_ok());
    }

    #[test]
    fn debug_output_holds_no_secret() {
        let shown = format!("{:?}", read(&[("AWS_SECRET_ACCESS_KEY", "hush-hush")]).unwrap());
        assert!(!shown.contains("hush-hush") && !shown.contains("sixteen"), "{shown}");
    }
}
