//! Predictions: make one, or list those of the caller, of a match or of a room.

use std::collections::HashMap;

use serde::Serialize;

use super::matches::{EventId, EventView};
pub use super::my_prediction::{MyPrediction, PredictionView};
use super::{Cursor, CursorPage, Message, PerPage, Position, SignedIn, endpoint, input};
use crate::domain::catalog::{Catalog, Score};
use crate::domain::prediction::{Confidence, Stamp};
use crate::domain::profile::Person;
use crate::domain::tally::{EventCounts, RoomCounts};
use crate::domain::{Id, Pick, Prediction, RoomId, Timestamp, UserId};

endpoint! {
    /// Predict a match
    ///
    /// Creates the caller's prediction for a match (201) or replaces it (200). Both are possible until
    /// kick-off. A predicted score must agree with the predicted outcome.
    Predict: POST "/api/auth/predictions", in "predictions", by SignedIn,
        PredictionInput => Message<PredictionView>, status [200, 201],
        errors [EventNotFound, EventStarted, PredictionsPaused, NoCatalogue]
}

endpoint! {
    /// List the caller's predictions
    ///
    /// The caller's predictions with their matches, the newest first.
    OwnPredictions: GET "/api/auth/predictions", in "predictions", by SignedIn,
        OwnPredictionsQuery => CursorPage<OwnPrediction>, errors [NoCatalogue]
}

endpoint! {
    /// List the predictions for a match
    ///
    /// `meta` counts all predictions for the match, whatever the filters. A deployment can hide the
    /// predictions of other users until kick-off. The list then has only the caller's own prediction.
    EventPredictions { event: EventId }: GET "/api/auth/events/{event}/predictions", in "predictions", by SignedIn,
        EventPredictionsQuery => EventPredictionList, errors [EventNotFound, NoCatalogue]
}

endpoint! {
    /// List the predictions in a room
    ///
    /// The predictions of the room's members for the room's match. A room without a match has no predictions.
    /// In a private room, only members can read the predictions.
    RoomPredictions { chat_room: RoomId }: GET "/api/auth/chat-rooms/{chatRoom}/predictions", in "predictions",
        by SignedIn, RoomPredictionsQuery => RoomPredictionList, errors [RoomNotFound, NotAMember, NoCatalogue]
}

input! {
    PredictionInput {
        /// The id of the match.
        event_id: Id,
        /// The predicted outcome: a home win, a draw or an away win.
        prediction: Pick,
        /// The predicted score after 90 minutes.
        score_prediction: Option<Score>,
        confidence: Confidence,
    }
}

input! {
    EventPredictionsQuery {
        /// Only the prediction of this user.
        user_id: Option<UserId>,
        /// Only predictions of this outcome.
        prediction: Option<Pick>,
        per_page: PerPage<50>,
        cursor: Option<Cursor<AfterPredictor>>,
    }
}

input! {
    OwnPredictionsQuery { per_page: PerPage<50>, cursor: Option<Cursor<BeforePrediction>> }
}

input! {
    RoomPredictionsQuery { per_page: PerPage<50>, cursor: Option<Cursor<AfterMember>> }
}

/// A position in the predictions for a match: after the prediction of this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AfterPredictor(pub UserId);

impl Position for AfterPredictor {
    const LIST: &'static str = "event predictions";

    fn encode(&self) -> String {
        self.0.to_string()
    }

    fn decode(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

/// A position in a user's own predictions, which are listed from the newest to the oldest. The next page has
/// the predictions that were created before this stamp.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeforePrediction(pub Stamp);

impl Position for BeforePrediction {
    const LIST: &'static str = "own predictions";

    fn encode(&self) -> String {
        self.0.as_str().to_owned()
    }

    fn decode(text: &str) -> Option<Self> {
        Stamp::parse(text).map(Self)
    }
}

/// A position in the predictions in a room: after the prediction of this member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AfterMember(pub UserId);

impl Position for AfterMember {
    const LIST: &'static str = "room predictions";

    fn encode(&self) -> String {
        self.0.to_string()
    }

    fn decode(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }
}

/// A prediction of the caller, with its match.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct OwnPrediction {
    #[serde(flatten)]
    pub prediction: MyPrediction,
    /// The predicted match.
    pub event: EventView,
}

impl OwnPrediction {
    /// Describes a prediction with its match. Returns `None` if the catalog does not have the match. Imports
    /// never remove matches, so only an outdated catalog can lack the match.
    #[must_use]
    pub fn of(row: &Prediction, catalog: &Catalog, predictions_count: u64) -> Option<Self> {
        let event = catalog.event(row.event_id)?;
        Some(Self {
            prediction: MyPrediction::of(row, event),
            event: EventView::of(event, catalog, predictions_count)?,
        })
    }
}

/// A prediction in a list, with the user who made it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ListedPrediction {
    /// The prediction's id.
    pub id: u64,
    /// The user who made the prediction.
    pub user: PersonView,
    /// The predicted outcome.
    pub prediction: Pick,
    /// The predicted score; `null` if none was given.
    pub score_prediction: Option<Score>,
    /// How sure the user is, in percent from 0 to 100.
    pub confidence: u8,
    /// The points for the prediction; `null` before the match is settled, or if it has no valid result.
    pub points_earned: Option<u32>,
    /// When the prediction was first made.
    pub created_at: Option<Timestamp>,
}

/// A user, as other users see them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PersonView {
    /// The user's id.
    pub id: UserId,
    /// The username; `deleted` if the user has deleted the account.
    pub username: String,
    /// The name from the profile; `null` if there is none.
    pub name: Option<String>,
}

impl PersonView {
    /// Describes a user who has deleted the account. Nobody can choose this username.
    #[must_use]
    pub fn deleted(id: UserId) -> Self {
        Self { id, username: "deleted".into(), name: None }
    }

    #[must_use]
    pub fn of(person: &Person) -> Self {
        Self {
            id: person.id,
            username: person.username.as_str().to_owned(),
            name: person.name.as_ref().map(|name| name.as_str().to_owned()),
        }
    }
}

impl ListedPrediction {
    /// Describes the predictions in the given order, each with its user. Leaves out those of suspended users. Users who are not
    /// in `people` have deleted their accounts.
    #[must_use]
    pub fn all(rows: &[Prediction], people: &HashMap<UserId, Person>) -> Vec<Self> {
        let view = |row: &Prediction| {
            let person = people.get(&row.user_id);
            let user = person.map_or_else(|| PersonView::deleted(row.user_id), PersonView::of);
            let row = PredictionView::of(row);
            let view = Self {
                id: row.id,
                user,
                prediction: row.prediction,
                score_prediction: row.score_prediction,
                confidence: row.confidence,
                points_earned: row.points_earned,
                created_at: row.created_at,
            };
            person.is_none_or(|person| person.suspended_at.is_none()).then_some(view)
        };
        rows.iter().filter_map(view).collect()
    }
}

/// A page of the predictions for a match.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EventPredictionList {
    /// The predictions of this page.
    pub data: Vec<ListedPrediction>,
    /// Counts of all predictions for the match, whatever the filters.
    pub meta: EventPredictionMeta,
}

/// Counts of all predictions for a match.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EventPredictionMeta {
    /// How many predictions the match has.
    pub total_predictions: i64,
    /// How many predictions each outcome has. All are 0 while the operator hides the totals of few predictions.
    pub prediction_distribution: Distribution,
    /// The average confidence in percent; 0 if there are no predictions, or while it is hidden.
    pub average_confidence: f64,
    /// Send this text as `cursor` to get the next page. `null` on the last page.
    pub next_cursor: Option<String>,
}

/// The number of predictions for each outcome.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Distribution {
    /// The number of predictions of a home win.
    pub home: i64,
    /// The number of predictions of a draw.
    pub draw: i64,
    /// The number of predictions of an away win.
    pub away: i64,
}

impl EventPredictionMeta {
    #[must_use]
    pub fn of(counts: &EventCounts, next: Option<&Cursor<AfterPredictor>>) -> Self {
        Self {
            total_predictions: counts.predictions,
            prediction_distribution: Distribution { home: counts.home, draw: counts.draw, away: counts.away },
            average_confidence: counts.average_confidence(),
            next_cursor: next.map(ToString::to_string),
        }
    }
}

/// A page of the predictions in a room.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoomPredictionList {
    /// The predictions of this page.
    pub data: Vec<ListedPrediction>,
    /// Counts of all predictions in the room.
    pub meta: RoomPredictionMeta,
}

/// Counts of all predictions in a room.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoomPredictionMeta {
    /// How many members predict the room's match.
    pub total_predictions: i64,
    /// How many members predict a home win. This and the next two are 0 while the operator hides the totals of few
    /// predictions.
    pub home_predictions: i64,
    /// How many members predict a draw.
    pub draw_predictions: i64,
    /// How many members predict an away win.
    pub away_predictions: i64,
    /// Send this text as `cursor` to get the next page. `null` on the last page.
    pub next_cursor: Option<String>,
}

impl RoomPredictionMeta {
    #[must_use]
    pub fn of(counts: &RoomCounts, next: Option<&Cursor<AfterMember>>) -> Self {
        let counts = &counts.totals;
        Self {
            total_predictions: counts.predictions,
            home_predictions: counts.home,
            draw_predictions: counts.draw,
            away_predictions: counts.away,
            next_cursor: next.map(ToString::to_string),
        }
    }
}
