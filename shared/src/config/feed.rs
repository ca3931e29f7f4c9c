use super::Secret;
use super::variables::{ConfigError, Variables};
use crate::domain::catalog::FeaturedTournaments;
use crate::domain::promotion::{FEATURED_SHARDS, SHARDS};

const FORMATS: [&str; 3] = ["touchline", "football-data.org/v4", "openfootball"];

/// The source of scheduled imports.
#[derive(Debug, Clone)]
pub struct FeedSettings {
    pub url: String,
    pub format: String,
    pub timezone: String,
    pub token: Option<Secret>,
    pub token_header: String,
}

impl FeedSettings {
    pub(super) fn read(vars: &Variables<'_>) -> Result<Option<Self>, ConfigError> {
        let Some(url) = vars.url("FEED_URL")? else { return Ok(None) };
        Ok(Some(Self {
            url,
            format: format(vars)?,
            timezone: vars.get("FEED_TIMEZONE").unwrap_or_else(|| "UTC".into()),
            token: vars.secret("FEED_TOKEN")?.map(Secret::new),
            token_header: vars.get("FEED_TOKEN_HEADER").unwrap_or_else(|| "X-Auth-Token".into()),
        }))
    }
}

/// Reads the names of the featured tournaments. Imports by an operator use them too, so they do not depend on a URL.
pub(super) fn featured_tournaments(vars: &Variables<'_>) -> FeaturedTournaments {
    FeaturedTournaments::parse(&vars.get("FEATURED_TOURNAMENTS").unwrap_or_default())
}

/// Reads the number of shards of a featured match. It does not change matches that are stored.
pub(super) fn featured_shards(vars: &Variables<'_>) -> Result<u8, ConfigError> {
    vars.within("FEATURED_SHARDS", FEATURED_SHARDS, SHARDS..=u8::MAX)
}

fn format(vars: &Variables<'_>) -> Result<String, ConfigError> {
    const VARIABLE: &str = "FEED_FORMAT";
    let format = vars.get(VARIABLE).unwrap_or_else(|| FORMATS[0].into());
    if FORMATS.contains(&format.as_str()) {
        Ok(format)
    } else {
        Err(ConfigError::invalid(VARIABLE, &format, format!("one of {}", FORMATS.join(", "))))
    }
}
