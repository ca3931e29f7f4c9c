use std::str::FromStr;

use super::variables::{ConfigError, Variables};

/// When users see the predictions of other users. Totals are always visible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PicksVisible {
    Always,
    /// Before kick-off, users see only their own prediction.
    AfterStart,
}

impl PicksVisible {
    pub(super) fn read(vars: &Variables<'_>) -> Result<Self, ConfigError> {
        vars.parsed("PICKS_VISIBLE", Self::Always, "always or after_start")
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
