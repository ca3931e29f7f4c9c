use chrono::TimeDelta;

use super::variables::{ConfigError, Variables};
use crate::domain::Limit;
use crate::domain::coins::DailyRules;

/// Settings of the coins.
#[derive(Debug, Clone)]
pub struct CoinSettings {
    /// The reasons that a deduction can have.
    pub reasons: Vec<String>,
    pub daily: DailyRules,
    /// How often a user can request the daily coins.
    pub claims: Limit,
}

impl CoinSettings {
    pub(super) fn read(vars: &Variables<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            reasons: reasons(vars)?,
            daily: DailyRules {
                base: vars.within("DAILY_COINS", 10, 0..=1_000_000)?,
                streak_step: vars.within("DAILY_COINS_STEP", 5, 0..=1_000_000)?,
                max_streak_bonus: vars.within("DAILY_COINS_MOST", 30, 0..=1_000_000)?,
            },
            claims: Limit { count: vars.count("CLAIMS_PER_MINUTE", 10)?, window: TimeDelta::minutes(1) },
        })
    }
}

fn reasons(vars: &Variables<'_>) -> Result<Vec<String>, ConfigError> {
    const VARIABLE: &str = "COIN_REASONS";
    let list = vars.get(VARIABLE).unwrap_or_else(|| "purchase,wager,gift,other".into());
    let reasons: Vec<String> = list.split(',').map(|word| word.trim().to_owned()).collect();
    if reasons.iter().all(|word| is_word(word)) {
        Ok(reasons)
    } else {
        Err(ConfigError::invalid(VARIABLE, &list, "words of a-z, 0-9 and _, separated by commas"))
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}
