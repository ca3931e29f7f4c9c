use serde::{Deserialize, Serialize};

use crate::domain::{Field, Raw, Reason};

/// Goals of both teams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Score {
    /// Goals of the home team.
    pub home: u16,
    /// Goals of the away team.
    pub away: u16,
}

impl Score {
    /// The maximum that a user can predict for one team, in any sport. The rules of the sport can be stricter.
    pub const MAX_PREDICTED: u16 = 299;
    /// The maximum that a user can predict for one team in a sport with goals.
    pub const MAX_GOALS: u16 = 99;
}

/// Reads a predicted score.
impl Field for Score {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        let sides = raw.object()?;
        let goals = |side: &str| {
            let goals = sides.get(side).and_then(|goals| Raw::Json(goals).integer().ok());
            let goals = goals.and_then(|goals| u16::try_from(goals).ok());
            goals.filter(|goals| *goals <= Self::MAX_PREDICTED).ok_or_else(|| {
                let (goals, points) = (Self::MAX_GOALS, Self::MAX_PREDICTED);
                format!("Enter 0 to {goals} for each team, or up to {points} in basketball.")
            })
        };
        Ok(Self { home: goals("home")?, away: goals("away")? })
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        let goals = |of: &str| {
            serde_json::json!({
                "type": "integer", "minimum": 0, "maximum": Self::MAX_PREDICTED, "description": of,
            })
        };
        serde_json::json!({
            "type": "object", "required": ["home", "away"],
            "properties": { "home": goals("Goals of the home team."), "away": goals("Goals of the away team.") },
            "description": "A score that agrees with `prediction`: up to 99 each; in basketball up to 299, and no draw.",
        })
    }
}
