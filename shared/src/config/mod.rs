//! Configuration. When the process starts, it reads all settings from environment variables and checks them.

mod age;
mod aws;
mod chat;
mod codes;
mod coins;
mod edge;
mod environment;
mod feed;
mod names;
mod predictions;
mod secret;
mod sms;
mod sms_guard;
mod test_phones;
mod variables;

#[cfg(test)]
mod tests;

use chrono::TimeDelta;
use tracing::Level;

pub use age::AgeSettings;
pub use aws::{Aws, Tables};
pub use chat::{ChatSettings, Homeserver, RoomLimits};
pub use codes::CodeSettings;
pub use coins::CoinSettings;
pub use edge::{DirectRequests, EdgeSettings};
pub use environment::Environment;
pub use feed::FeedSettings;
pub use predictions::PicksVisible;
pub use secret::Secret;
pub use sms::{SmsSettings, SnsSettings};
pub use test_phones::TestPhones;
pub use variables::{ConfigError, SECRET_VARIABLES, secret_id};

use variables::Variables;

use crate::domain::NameRules;
use crate::domain::catalog::FeaturedTournaments;
use crate::domain::session::Lifetime;
use crate::domain::sms_guard::GuardRules;

/// The part of [`Config::old_catalog_is_used_for`] that does not depend on settings. It covers a request, which ends
/// within 10 seconds, and clocks that differ.
const REQUEST_AND_CLOCKS: TimeDelta = TimeDelta::seconds(20);

/// All settings of the Lambda functions.
#[derive(Debug, Clone)]
pub struct Config {
    pub environment: Environment,
    pub log_level: Level,
    pub aws: Aws,
    pub tables: Tables,
    pub codes: CodeSettings,
    pub age: AgeSettings,
    pub sessions: Lifetime,
    /// What the names of users and rooms must not say.
    pub names: NameRules,
    /// How old a cached catalog can be before a Lambda function checks for a newer one.
    pub catalog_max_age: TimeDelta,
    pub picks_visible: PicksVisible,
    pub coins: CoinSettings,
    pub sms: SmsSettings,
    pub sms_guard: GuardRules,
    pub chat: ChatSettings,
    /// The secret with which developers read the SMS log in staging. Without it, nobody can.
    pub log_secret: Option<Secret>,
    /// How to recognise requests from CloudFront. `None` if the API has no CloudFront in front of it.
    pub edge: Option<EdgeSettings>,
    /// The source of scheduled imports. `None` turns them off.
    pub feed: Option<FeedSettings>,
    /// The tournaments that are featured, whatever their feed says.
    pub featured_tournaments: FeaturedTournaments,
    /// The number of shards that a featured match gets.
    pub featured_shards: u8,
    /// The maximum number of predictions that `points` settles in a second.
    pub points_per_second: u32,
}

impl Config {
    /// Reads variables through `lookup`. An empty variable counts as unset, because the deployment template
    /// cannot omit a variable.
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let vars = Variables::new(&lookup);
        let environment = Environment::read(&vars);
        Ok(Self {
            environment,
            log_level: vars.parsed("LOG_LEVEL", Level::INFO, "error, warn, info, debug or trace")?,
            aws: Aws::read(&vars)?,
            tables: Tables::read(&vars)?,
            codes: CodeSettings::read(&vars, environment)?,
            age: AgeSettings::read(&vars)?,
            sessions: Lifetime {
                unused: TimeDelta::days(vars.within("SESSION_DAYS", 30, 1..=365)?),
                longest: TimeDelta::days(vars.within("SESSION_MAX_DAYS", 365, 1..=3_650)?),
            },
            names: names::read(&vars)?,
            catalog_max_age: TimeDelta::milliseconds(vars.within("CATALOG_MAX_AGE_MS", 1_000, 0..=60_000)?),
            coins: CoinSettings::read(&vars)?,
            picks_visible: PicksVisible::read(&vars)?,
            sms: SmsSettings::read(&vars, environment)?,
            sms_guard: sms_guard::read(&vars, environment)?,
            chat: ChatSettings::read(&vars)?,
            log_secret: secret::read_token(&vars, "SMS_LOG_SECRET")?,
            edge: EdgeSettings::read(&vars)?,
            feed: FeedSettings::read(&vars)?,
            featured_tournaments: feed::featured_tournaments(&vars),
            featured_shards: feed::featured_shards(&vars)?,
            points_per_second: vars.within("POINTS_PER_SECOND", 24_000, 1..=1_000_000)?,
        })
    }

    /// Returns how long a request may still act on the old catalog after a new one is published, for example store a
    /// prediction: the maximum age of a cached catalog, the length of a request, and the difference of two clocks.
    #[must_use]
    pub fn old_catalog_is_used_for(&self) -> TimeDelta {
        self.catalog_max_age + REQUEST_AND_CLOCKS
    }
}
