use super::variables::{ConfigError, Variables};

/// How the age of users is checked. A date of birth under 13 is always rejected.
#[derive(Debug, Clone, Copy)]
pub struct AgeSettings {
    /// Whether a user who was rejected cannot try another date.
    pub remembers_refusals: bool,
    /// Whether the first login of a phone needs a date of birth.
    pub asks_at_login: bool,
}

impl AgeSettings {
    pub(super) fn read(vars: &Variables<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            remembers_refusals: is_yes(vars, "AGE_GATE", true)?,
            asks_at_login: is_yes(vars, "ASK_BIRTH_DATE_AT_LOGIN", false)?,
        })
    }
}

fn is_yes(vars: &Variables<'_>, variable: &'static str, default: bool) -> Result<bool, ConfigError> {
    match vars.get(variable).as_deref() {
        None => Ok(default),
        Some("yes") => Ok(true),
        Some("no") => Ok(false),
        Some(other) => Err(ConfigError::invalid(variable, other, "yes or no")),
    }
}
