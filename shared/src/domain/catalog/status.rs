use serde::{Deserialize, Serialize};

use crate::domain::{Field, Raw, Reason};

/// The state of a match. The API shows the three states of [`ShownStatus`]; the rules for predictions and
/// points use all eight states. Published snapshots contain the position of a state in this list, so new
/// states go to the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Status {
    Scheduled,
    /// The match will be played later. Its predictions are kept.
    Postponed,
    Live,
    Finished,
    Cancelled,
    Abandoned,
    /// The result was decided by a ruling, not on the pitch.
    Awarded,
    /// The match began and will go on later. Its predictions stay closed, because people know the score so far.
    Interrupted,
}

impl Status {
    /// Returns the state of a match that was in this state, when the feed reports the state `new`. A match that has begun
    /// never opens again.
    #[must_use]
    pub fn after(self, new: Self) -> Self {
        let has_begun =
            matches!(self, Self::Live | Self::Finished | Self::Abandoned | Self::Awarded | Self::Interrupted);
        match new {
            Self::Scheduled | Self::Postponed if has_begun => Self::Interrupted,
            Self::Cancelled if has_begun => Self::Abandoned,
            new => new,
        }
    }

    /// Returns whether the match was cancelled, abandoned or decided by a ruling. Predictions for such a
    /// match earn no points.
    #[must_use]
    pub fn is_void(self) -> bool {
        matches!(self, Self::Cancelled | Self::Abandoned | Self::Awarded)
    }

    #[must_use]
    pub fn shown(self) -> ShownStatus {
        match self {
            Self::Scheduled | Self::Postponed | Self::Interrupted => ShownStatus::Scheduled,
            Self::Live => ShownStatus::Live,
            Self::Finished | Self::Cancelled | Self::Abandoned | Self::Awarded => ShownStatus::Finished,
        }
    }
}

/// The state of a match in the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ShownStatus {
    Live,
    Scheduled,
    Finished,
}

impl ShownStatus {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        match text {
            "scheduled" => Ok(Self::Scheduled),
            "live" => Ok(Self::Live),
            "finished" => Ok(Self::Finished),
            _ => Err("Choose scheduled, live or finished as the status.".into()),
        }
    }
}

impl Field for ShownStatus {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        crate::domain::text::schema::one_of(&["live", "scheduled", "finished"])
    }
}
