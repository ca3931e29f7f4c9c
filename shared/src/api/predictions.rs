//! Predictions: making one, and reading everybody's or one's own.

use std::collections::HashMap;
use std::fmt;

use serde::Serialize;

use super::matches::EventView;
use super::{Invalid, Listing, Message, Number, PerPage, endpoint, input};
use crate::domain::catalog::{Catalog, Score};
use crate::domain::prediction::{Confidence, Mark};
use crate::domain::tally::{EventCounts, RoomCounts};
use crate::domain::{Pick, Prediction, Reason, RoomId, Timestamp, UserId};
use crate::http::SignedIn;
use crate::storage::users::Person;

endpoint! {
    /// Predict a match, or change the prediction, until kick-off.
    Predict: POST "/api/auth/predictions", in "predictions", by SignedIn,
        PredictionInput => Message<PredictionView>, answers [200, 201],
        refuses ["event_not_found", "event_started", "no_catalogue"]
}

endpoint! {
    /// One's own predictions, newest first.
    OwnPredictions: GET "/api/auth/predictions", in "predictions", by SignedIn,
        OwnPredictionsQuery => Listing<OwnPrediction>, refuses ["no_catalogue"]
}

endpoint! {
    /// Everybody's predictions for a match.
    EventPredictions: GET "/api/auth/events/{event}/predictions", in "predictions", by SignedIn,
        EventPredictionsQuery => EventPredictionList, refuses ["event_not_found", "no_catalogue"]
}

endpoint! {
    /// The predictions of a room's members for its match.
    RoomPredictions: GET "/api/auth/chat-rooms/{chatRoom}/predictions", in "predictions", by SignedIn,
        RoomPredictionsQuery => RoomPredictionList, refuses ["room_not_found", "not_a_member", "no_catalogue"]
}

input! {
    PredictionInput {
        event_id: Number,
        prediction: Pick,
        score_prediction: Option<Score>,
        confidence: Confidence,
    }
}

input! {
    EventPredictionsQuery {
        user_id: Option<UserId>,
        prediction: Option<Pick>,
        per_page: PerPage,
        cursor: Option<EventCursor>,
    }
}

input! {
    OwnPredictionsQuery { per_page: PerPage, cursor: Option<OwnCursor> }
}

input! {
    RoomPredictionsQuery { per_page: PerPage, cursor: Option<RoomCursor> }
}

/// A place among a match's predictions: after this user's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventCursor {
    event: u32,
    user: UserId,
}

const NOT_OURS: &str = "is not a cursor of this list";

impl EventCursor {
    #[must_use]
    pub fn new(event: u32, user: UserId) -> Self {
        Self { event, user }
    }

    pub(super) fn parse(text: &str) -> Result<Self, Reason> {
        let numbers = text.strip_prefix("e").and_then(|rest| rest.split_once('.'));
        let cursor = numbers.and_then(|(event, user)| {
            Some(Self { event: event.parse().ok()?, user: UserId(user.parse().ok()?) })
        });
        // Only as we write it: no plus signs, no leading zeros.
        cursor.filter(|cursor| cursor.to_string() == text).ok_or_else(|| NOT_OURS.into())
    }

    /// The place, where it is one of this match.
    pub fn within(self, event: u32) -> Result<UserId, Invalid> {
        if self.event == event { Ok(self.user) } else { Err(Invalid::field("cursor", NOT_OURS)) }
    }
}

impl fmt::Display for EventCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}.{}", self.event, self.user)
    }
}

/// A place among a user's own predictions: before the one that was made then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnCursor {
    user: UserId,
    before: Mark,
}

impl OwnCursor {
    #[must_use]
    pub fn new(user: UserId, before: Mark) -> Self {
        Self { user, before }
    }

    pub(super) fn parse(text: &str) -> Result<Self, Reason> {
        let parts = text.strip_prefix("o").and_then(|rest| rest.split_once('.'));
        let cursor = parts.and_then(|(user, before)| {
            Some(Self { user: UserId(user.parse().ok()?), before: Mark::parse(before)? })
        });
        cursor.filter(|cursor| cursor.to_string() == text).ok_or_else(|| NOT_OURS.into())
    }

    /// The place, where it is one of this user's.
    pub fn of(self, user: UserId) -> Result<Mark, Invalid> {
        if self.user == user { Ok(self.before) } else { Err(Invalid::field("cursor", NOT_OURS)) }
    }
}

impl fmt::Display for OwnCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "o{}.{}", self.user, self.before.as_str())
    }
}

/// A place among a room's members: after this user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomCursor {
    room: u32,
    user: UserId,
}

impl RoomCursor {
    #[must_use]
    pub fn new(room: &RoomId, user: UserId) -> Self {
        Self { room: room.mark(), user }
    }

    pub(super) fn parse(text: &str) -> Result<Self, Reason> {
        let parts = text.strip_prefix("r").and_then(|rest| rest.split_once('.'));
        let cursor = parts.and_then(|(room, user)| {
            Some(Self { room: u32::from_str_radix(room, 16).ok()?, user: UserId(user.parse().ok()?) })
        });
        cursor.filter(|cursor| cursor.to_string() == text).ok_or_else(|| NOT_OURS.into())
    }

    /// The place, where it is one of this room.
    pub fn within(self, room: &RoomId) -> Result<UserId, Invalid> {
        if self.room == room.mark() { Ok(self.user) } else { Err(Invalid::field("cursor", NOT_OURS)) }
    }
}

impl fmt::Display for RoomCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{:08x}.{}", self.room, self.user)
    }
}

/// A prediction, to whoever made it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PredictionView {
    pub id: u64,
    pub user_id: UserId,
    pub event_id: u32,
    pub prediction: Pick,
    pub score_prediction: Option<Score>,
    pub confidence: u8,
    pub points_earned: Option<u32>,
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

/// One's own prediction, with its match.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct OwnPrediction {
    #[serde(flatten)]
    pub prediction: PredictionView,
    pub event: EventView,
}

impl OwnPrediction {
    /// `None` for a match that is not in the catalog, which no import takes away.
    #[must_use]
    pub fn of(row: &Prediction, catalog: &Catalog, predictions_count: u64) -> Option<Self> {
        let event = EventView::of(catalog.event(row.event_id)?, catalog, predictions_count)?;
        Some(Self { prediction: PredictionView::of(row), event })
    }
}

/// A prediction among others.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ListedPrediction {
    pub id: u64,
    pub user: PersonView,
    pub prediction: Pick,
    pub score_prediction: Option<Score>,
    pub confidence: u8,
    pub points_earned: Option<u32>,
    pub created_at: Option<Timestamp>,
}

/// Somebody, as others see them.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PersonView {
    pub id: UserId,
    pub username: String,
    pub name: Option<String>,
}

impl ListedPrediction {
    /// Rows in their order, each with whose it is.
    #[must_use]
    pub fn all(rows: &[Prediction], people: &HashMap<UserId, Person>) -> Vec<Self> {
        let view = |row: &Prediction| {
            let person = people.get(&row.user_id)?;
            let PredictionView {
                id,
                prediction,
                score_prediction,
                confidence,
                points_earned,
                created_at,
                ..
            } = PredictionView::of(row);
            let user = PersonView {
                id: row.user_id,
                username: person.username.as_str().to_owned(),
                name: person.name.as_ref().map(|name| name.as_str().to_owned()),
            };
            Some(Self { id, user, prediction, score_prediction, confidence, points_earned, created_at })
        };
        rows.iter().filter_map(view).collect()
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EventPredictionList {
    pub data: Vec<ListedPrediction>,
    pub meta: EventPredictionMeta,
}

/// Of the whole match, whatever the filters.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EventPredictionMeta {
    pub total_predictions: i64,
    pub prediction_distribution: Distribution,
    pub average_confidence: f64,
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Distribution {
    pub home: i64,
    pub draw: i64,
    pub away: i64,
}

impl EventPredictionMeta {
    #[must_use]
    pub fn of(counts: &EventCounts, next: Option<EventCursor>) -> Self {
        Self {
            total_predictions: counts.predictions,
            prediction_distribution: Distribution { home: counts.home, draw: counts.draw, away: counts.away },
            average_confidence: counts.average_confidence(),
            next_cursor: next.map(|cursor| cursor.to_string()),
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoomPredictionList {
    pub data: Vec<ListedPrediction>,
    pub meta: RoomPredictionMeta,
}

/// Of the whole room.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoomPredictionMeta {
    pub total_predictions: i64,
    pub home_predictions: i64,
    pub draw_predictions: i64,
    pub away_predictions: i64,
    pub next_cursor: Option<String>,
}

impl RoomPredictionMeta {
    #[must_use]
    pub fn of(counts: &RoomCounts, next: Option<RoomCursor>) -> Self {
        let counts = &counts.totals;
        Self {
            total_predictions: counts.predictions,
            home_predictions: counts.home,
            draw_predictions: counts.draw,
            away_predictions: counts.away,
            next_cursor: next.map(|cursor| cursor.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back_and_belong_to_one_list() {
        let event = EventCursor::new(9, UserId(7));
        assert_eq!(EventCursor::parse(&event.to_string()), Ok(event));
        assert_eq!(event.within(9), Ok(UserId(7)));
        assert!(event.within(10).is_err());
        let mark = Mark::parse("1763208000000-000000ff").unwrap();
        let own = OwnCursor::new(UserId(7), mark.clone());
        assert_eq!(OwnCursor::parse(&own.to_string()), Ok(own.clone()));
        assert_eq!(own.clone().of(UserId(7)), Ok(mark));
        assert!(own.clone().of(UserId(8)).is_err());
        for text in ["", "x", "e", "e9", "e9.", "e9.x", "e09.7", "e9.+7", "e9.7.7", "E9.7", &own.to_string()]
        {
            assert!(EventCursor::parse(text).is_err(), "{text}");
        }
        let (room, other) = (RoomId::parse("!a:b").unwrap(), RoomId::parse("!c:b").unwrap());
        let cursor = RoomCursor::new(&room, UserId(7));
        assert_eq!(RoomCursor::parse(&cursor.to_string()), Ok(cursor));
        assert_eq!(cursor.within(&room), Ok(UserId(7)));
        assert!(cursor.within(&other).is_err());
        for text in ["", "r", "r1.7", "rxxxxxxxx.7", "r0000000g.7", &event.to_string()] {
            assert!(RoomCursor::parse(text).is_err(), "{text}");
        }
        for text in ["", "o7", "o7.", "o7.1763208000000", &event.to_string()] {
            assert!(OwnCursor::parse(text).is_err(), "{text}");
        }
    }
}
