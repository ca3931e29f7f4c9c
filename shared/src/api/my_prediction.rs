//! A prediction as its user sees it: alone, or with the reason for its points.

use serde::Serialize;

use crate::domain::catalog::{Match, Score};
use crate::domain::points::{RULES, Verdict};
use crate::domain::{Pick, Prediction, Timestamp, UserId};

/// A prediction of the caller.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PredictionView {
    /// The prediction's id. It stays the same when the prediction is replaced.
    pub id: u64,
    /// The id of the user who made the prediction.
    pub user_id: UserId,
    /// The id of the match.
    pub event_id: u32,
    /// The predicted outcome.
    pub prediction: Pick,
    /// The predicted score; `null` if none was given.
    pub score_prediction: Option<Score>,
    /// How sure the user is, in percent from 0 to 100.
    pub confidence: u8,
    /// The points for the prediction; `null` before the match is settled, if it has no valid result, or if it began
    /// before the last change of the prediction.
    pub points_earned: Option<u32>,
    /// When the prediction was first made.
    pub created_at: Option<Timestamp>,
}

impl PredictionView {
    #[must_use]
    pub fn of(row: &Prediction) -> Self {
        Self {
            id: row.id(),
            user_id: row.user_id,
            event_id: row.event_id,
            prediction: row.forecast.pick(),
            score_prediction: row.forecast.score(),
            confidence: row.confidence.percent(),
            points_earned: row.points,
            created_at: row.created.time().map(Into::into),
        }
    }
}

/// A prediction of the caller, with the reason for its points.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MyPrediction {
    #[serde(flatten)]
    pub prediction: PredictionView,
    /// Why the prediction has its points, or none; `null` until the points are calculated.
    pub reason: Option<PointsReason>,
    /// Why the prediction earns no points although the match has a result; otherwise `null`.
    pub note: Option<&'static str>,
}

/// Why a prediction has its points, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PointsReason {
    /// The score is right.
    Exact,
    /// The winner and the goal difference are right.
    Difference,
    /// The winner is right, or the draw.
    Outcome,
    /// The predicted outcome is wrong.
    Miss,
    /// The match was cancelled, abandoned or decided by a ruling.
    Void,
    /// The match began before the last change of the prediction.
    Late,
}

impl PointsReason {
    /// Returns `None` until the points for the current result are calculated.
    #[must_use]
    pub fn of(row: &Prediction, event: &Match) -> Option<Self> {
        // After a correction, the old points stay until the new ones are calculated.
        if event.status.is_void() {
            return row.points.is_none().then_some(Self::Void);
        }
        let result = event.result()?;
        if row.is_late(event) {
            return row.points.is_none().then_some(Self::Late);
        }
        if row.points != Some(RULES.points(&row.forecast, result)) {
            return None;
        }
        Some(match Verdict::of(&row.forecast, result) {
            Verdict::Exact => Self::Exact,
            Verdict::Difference => Self::Difference,
            Verdict::Outcome => Self::Outcome,
            Verdict::Miss => Self::Miss,
        })
    }
}

/// The note on a prediction whose match got an earlier kick-off after its last change.
const LATE: &str = "The match began before you last changed this prediction, so it earns no points.";

impl MyPrediction {
    #[must_use]
    pub fn of(row: &Prediction, event: &Match) -> Self {
        let reason = PointsReason::of(row, event);
        let note = (reason == Some(PointsReason::Late)).then_some(LATE);
        Self { prediction: PredictionView::of(row), reason, note }
    }
}
