use std::str::FromStr;

use chrono::{DateTime, Utc};

use super::variables::{ConfigError, Variables};
use crate::domain::catalog::Match;

/// When users see the predictions of other users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PicksVisible {
    Always,
    /// Before kick-off, users see only their own prediction and the number of predictions.
    AfterStart,
}

impl PicksVisible {
    pub(super) fn read(vars: &Variables<'_>) -> Result<Self, ConfigError> {
        vars.parsed("PICKS_VISIBLE", Self::Always, "always or after_start")
    }

    /// Returns whether the picks for a match are hidden at this time.
    #[must_use]
    pub fn hides(self, event: &Match, now: DateTime<Utc>) -> bool {
        self == Self::AfterStart && !event.has_kicked_off(now)
    }
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
