use std::str::FromStr;

use chrono::{DateTime, Utc};

use super::variables::{ConfigError, Variables};
use crate::domain::catalog::Match;

/// When users see the predictions of other users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PicksVisible {
    Always,
    /// Before kick-off, users see only their own prediction, and totals of at least this many predictions.
    AfterStart {
        totals_minimum: i64,
    },
}

impl PicksVisible {
    pub(super) fn read(vars: &Variables<'_>) -> Result<Self, ConfigError> {
        let totals_minimum = vars.within("PICKS_TOTALS_MINIMUM", 5, 1..=1_000)?;
        Ok(match vars.parsed("PICKS_VISIBLE", Word::Always, "always or after_start")? {
            Word::Always => Self::Always,
            Word::AfterStart => Self::AfterStart { totals_minimum },
        })
    }

    /// Returns the minimum number of predictions whose totals are visible, if the picks for the match are hidden at this
    /// time.
    #[must_use]
    pub fn hidden_totals_minimum(self, event: &Match, now: DateTime<Utc>) -> Option<i64> {
        match self {
            Self::AfterStart { totals_minimum } if !event.has_kicked_off(now) => Some(totals_minimum),
            _ => None,
        }
    }
}

enum Word {
    Always,
    AfterStart,
}

impl FromStr for Word {
    type Err = ();

    fn from_str(word: &str) -> Result<Self, ()> {
        match word {
            "always" => Ok(Self::Always),
            "after_start" => Ok(Self::AfterStart),
            _ => Err(()),
        }
    }
}
