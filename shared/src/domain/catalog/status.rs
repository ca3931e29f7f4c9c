use serde::{Deserialize, Serialize};

use crate::domain::{Field, Raw, Reason};

/// The state of a match. The API shows the three states of [`ShownStatus`] and, for special cases, a
/// [`StatusDetail`]; the rules for predictions and points use all states.
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
    /// Play has stopped, and may go on at any time.
    Suspended,
}

impl Status {
    /// Returns the state of a match that was in this state, when the feed reports the state `new`. A match that has begun
    /// never opens again.
    #[must_use]
    pub fn after(self, new: Self) -> Self {
        let has_begun = !matches!(self, Self::Scheduled | Self::Postponed | Self::Cancelled);
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
            Self::Live | Self::Suspended => ShownStatus::Live,
            Self::Finished | Self::Cancelled | Self::Abandoned | Self::Awarded => ShownStatus::Finished,
        }
    }

    /// Returns what [`Self::shown`] leaves out.
    #[must_use]
    pub fn detail(self) -> Option<StatusDetail> {
        match self {
            Self::Scheduled | Self::Live | Self::Finished => None,
            Self::Postponed => Some(StatusDetail::Postponed),
            Self::Cancelled => Some(StatusDetail::Cancelled),
            Self::Abandoned => Some(StatusDetail::Abandoned),
            Self::Awarded => Some(StatusDetail::Awarded),
            Self::Interrupted | Self::Suspended => Some(StatusDetail::Suspended),
        }
    }
}

/// Why a match is not simply scheduled, live or finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum StatusDetail {
    /// The match will be played later.
    Postponed,
    /// The match will not be played.
    Cancelled,
    /// The match began, and will not be finished.
    Abandoned,
    /// The result was decided by a ruling.
    Awarded,
    /// The match began, and may go on.
    Suspended,
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
