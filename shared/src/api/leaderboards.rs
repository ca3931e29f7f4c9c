//! Leaderboards.

use std::collections::HashMap;

use chrono::NaiveDate;
use serde::Serialize;

use super::cursor::Position;
use super::predictions::PersonView;
use super::{Cursor, PerPage, SignedIn, endpoint, input};
use crate::domain::profile::Person;
use crate::domain::room::RoomId;
use crate::domain::standings::table::RankedRow;
use crate::domain::standings::{Place, Span};
use crate::domain::tally::UserStats;
use crate::domain::{Field, Id, Raw, Reason, Timestamp, UserId};

endpoint! {
    /// Read a leaderboard
    ///
    /// Users with settled predictions, ranked by their points. Users with the same points share a rank: 1, 2, 2, 4. Among
    /// them, more exact scores come first, then who reached the points first.
    ///
    /// A leaderboard shows the results of a match within a minute after the points were awarded. The last page
    /// has no `meta.next_cursor`. With `around=me` there is only one page.
    ///
    /// The table of a room has all its members, also those without settled predictions. It counts the matches that the
    /// creator of the room chose with `league`. In a private room, only members can read it. A change of the members can
    /// show up to a minute later, and in rooms of more than 1,000 members some minutes later. Rooms of more than 100,000
    /// members have no table.
    Leaderboard: GET "/api/auth/leaderboards", in "leaderboards", by SignedIn, LeaderboardQuery => Standings,
        errors [RoomNotFound, NotAMember, NoCatalogue]
}

input! {
    LeaderboardQuery {
        /// Which users and matches: `global` for all users and matches, `tournament` for the matches of one
        /// tournament, `room` for the members of a room. The default is `global`.
        scope: ScopeName,
        /// The id of the tournament, or the Matrix id of the room. Required with `scope=tournament` and `scope=room`.
        id: Option<ScopeId>,
        /// Which matches count: those of all times, or those with kick-off in a season (from July to June), a month or
        /// a matchday (a day), in UTC. The default is `all`.
        period: Span,
        /// A day of the season, the month or the matchday. The default is today, or the last matchday with results.
        date: Option<NaiveDate>,
        /// `me`: the caller's row with the five rows before and after it, instead of a page.
        around: Option<Around>,
        per_page: PerPage<50>,
        cursor: Option<Cursor<AfterPlace>>,
    }
}

/// The kind of a leaderboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScopeName {
    Global,
    Tournament,
    Room,
}

impl Field for ScopeName {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match raw.text()? {
            "global" => Ok(Self::Global),
            "tournament" => Ok(Self::Tournament),
            "room" => Ok(Self::Room),
            _ => Err("Choose global, tournament or room.".into()),
        }
    }

    fn absent() -> Result<Self, Reason> {
        Ok(Self::Global)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        crate::domain::text::schema::one_of(&["global", "tournament", "room"])
    }
}

/// The id of a tournament or a room.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScopeId {
    Tournament(Id),
    Room(RoomId),
}

impl Field for ScopeId {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match raw.text().ok().and_then(RoomId::parse) {
            Some(room) => Ok(Self::Room(room)),
            None => Id::read(raw)
                .map(Self::Tournament)
                .map_err(|_| "Send the number of a tournament or the Matrix id of a room.".into()),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "anyOf": [Id::schema(), RoomId::schema()] })
    }
}

impl Field for Span {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match raw.text()? {
            "all" => Ok(Self::All),
            "season" => Ok(Self::Season),
            "month" => Ok(Self::Month),
            "matchday" => Ok(Self::Matchday),
            _ => Err("Choose all, season, month or matchday.".into()),
        }
    }

    fn absent() -> Result<Self, Reason> {
        Ok(Self::All)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        crate::domain::text::schema::one_of(&["all", "season", "month", "matchday"])
    }
}

/// Whose neighbours to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Around {
    Me,
}

impl Field for Around {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        match raw.text()? {
            "me" => Ok(Self::Me),
            _ => Err("The only choice is me.".into()),
        }
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        crate::domain::text::schema::one_of(&["me"])
    }
}

/// A position in a leaderboard: after this place. It stays right if the leaderboard changes between two pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AfterPlace(pub Place);

impl Position for AfterPlace {
    const LIST: &'static str = "leaderboard";

    fn encode(&self) -> String {
        let Place { points, exact, reached, user } = self.0;
        format!("{points} {exact} {reached} {user}")
    }

    fn decode(text: &str) -> Option<Self> {
        let mut numbers = text.split(' ').map(str::parse);
        let mut next = || numbers.next()?.ok();
        let place = Place { points: next()?, exact: next()?, reached: next()?, user: UserId(next()?) };
        Some(Self(place))
    }
}

/// A page of a leaderboard.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Standings {
    /// The rows of this page.
    pub data: Vec<StandingView>,
    /// The caller's row, and what the page is a part of.
    pub meta: StandingsMeta,
}

/// What a page of a leaderboard is a part of.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StandingsMeta {
    /// The caller's row, wherever it is; `null` if none of the caller's predictions is settled. In the table of a room, every
    /// member has a row, and others have none.
    pub me: Option<StandingView>,
    /// How many users the leaderboard has.
    pub total: u32,
    /// When the leaderboard was calculated; `null` if it has no users yet.
    pub as_of: Option<Timestamp>,
    /// Send this text as `cursor` to get the next page. `null` on the last page.
    pub next_cursor: Option<String>,
    /// With `around=me`: why the page is empty; otherwise `null`.
    pub empty_reason: Option<EmptyReason>,
}

/// Why a page around the caller is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EmptyReason {
    /// None of the caller's predictions for the matches that count is settled.
    NoSettledPredictions,
    /// The caller is not a member of the room.
    NotAMember,
    /// The leaderboard is not calculated yet. It follows within a minute.
    NotCalculated,
}

/// A row of a leaderboard.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct StandingView {
    /// The rank, from 1. Users with the same points share a rank.
    pub rank: u32,
    /// The user.
    pub user: PersonView,
    /// The points of all settled predictions together.
    pub points: i64,
    /// How many settled predictions have the right outcome.
    pub correct: i64,
    /// How many settled predictions have the exact score.
    pub exact: i64,
    /// How many predictions are settled.
    pub settled: i64,
    /// The fraction of the settled predictions that have the right outcome, from 0 to 1.
    pub accuracy: f64,
    /// How many places the user moved up since the settlement before, negative for down; `null` if the user is new here.
    pub moved: Option<i64>,
}

impl StandingView {
    /// Describes a row, unless the user is suspended or has deleted the account.
    #[must_use]
    pub fn of(ranked: &RankedRow, people: &HashMap<UserId, Person>) -> Option<Self> {
        let person = people.get(&ranked.row.place.user).filter(|person| person.suspended_at.is_none())?;
        Some(Self::new(ranked.rank, ranked.moved(), &ranked.row.stats(), person))
    }

    #[must_use]
    pub fn new(rank: u32, moved: Option<i64>, stats: &UserStats, person: &Person) -> Self {
        Self {
            rank,
            user: PersonView::of(person),
            points: stats.points,
            correct: stats.correct,
            exact: stats.exact,
            settled: stats.settled,
            accuracy: stats.accuracy(),
            moved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_the_same_after_a_round_trip_through_text() {
        let place = Place { points: 7, exact: 2, reached: 1_794_744_000, user: UserId(9) };
        assert_eq!(AfterPlace::decode(&AfterPlace(place).encode()), Some(AfterPlace(place)));
        for text in ["", "7", "7 2 1", "7 2 x 9"] {
            assert_eq!(AfterPlace::decode(text), None, "{text}");
        }
    }
}
