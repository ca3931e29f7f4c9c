//! Matches.

use chrono::NaiveDate;
use serde::Serialize;

use super::endpoint::{PathParameter, Resource};
use super::my_prediction::MyPrediction;
use super::{Anyone, Data, NumberedPage, PageNumber, PerPage, SignedIn, endpoint, input};
use crate::domain::catalog::{Catalog, Match, ShownStatus, Sport, StatusDetail, Tournament};
use crate::domain::pick_shares::PickShares;
use crate::domain::{Field, Id, Raw, Reason, Timestamp};

endpoint! {
    /// List the matches of the next seven days
    ///
    /// The matches that are live, and those that kick off within seven days, in the order of the list of matches. Needs no
    /// token, and is the same for everybody.
    ListUpcoming: GET "/api/events", in "matches", by Anyone, UpcomingQuery => NumberedPage<PublicMatchView>,
        errors [NoCatalogue], with etag, public for 30
}

endpoint! {
    /// List matches
    ///
    /// Live matches come first, then scheduled matches by kick-off, then finished matches from the newest to the
    /// oldest.
    ListEvents: GET "/api/auth/events", in "matches", by SignedIn, EventQuery => NumberedPage<EventWithExtras>,
        errors [NoCatalogue], with etag
}

endpoint! {
    /// Read one match
    ///
    /// The match with its tournament, teams, score and chat room.
    OneEvent { event: EventId }: GET "/api/auth/events/{event}", in "matches", by SignedIn,
        OneEventQuery => Data<EventWithExtras>, errors [EventNotFound, NoCatalogue], with etag
}

input! {
    UpcomingQuery { page: PageNumber, per_page: PerPage<20> }
}

input! {
    EventQuery {
        /// Only matches of this tournament.
        tournament_id: Option<Id>,
        /// Only matches of this sport.
        sport_id: Option<Id>,
        /// Only matches of this team, home or away.
        team_id: Option<Id>,
        /// Only matches with kick-off on this UTC day.
        date: Option<NaiveDate>,
        /// Only matches with kick-off at this time or later.
        from: Option<Timestamp>,
        /// Only matches with kick-off before this time.
        to: Option<Timestamp>,
        /// Only matches with this status.
        status: Option<ShownStatus>,
        include: Include,
        page: PageNumber,
        per_page: PerPage<20>,
    }
}

input! {
    OneEventQuery { include: Include }
}

/// What a response has of each match beyond the match itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Include {
    pub my_prediction: bool,
    pub picks: bool,
}

/// Reads names with commas between them.
impl Field for Include {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        let mut include = Self::default();
        for name in raw.text()?.split(',') {
            match name {
                "my_prediction" => include.my_prediction = true,
                "picks" => include.picks = true,
                _ => return Err("Use my_prediction, picks or both, with a comma between them.".into()),
            }
        }
        Ok(include)
    }

    fn absent() -> Result<Self, Reason> {
        Ok(Self::default())
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "pattern": "^(my_prediction|picks)(,(my_prediction|picks))*$",
            "examples": ["my_prediction,picks"],
            "description": "What each match has in addition: `my_prediction`, `picks` or both, with a comma between them.",
        })
    }
}

endpoint! {
    /// List tournaments
    ///
    /// Featured tournaments come first. Both groups are sorted by name.
    ListTournaments: GET "/api/auth/tournaments", in "matches", by SignedIn, TournamentQuery => NumberedPage<TournamentView>,
        errors [NoCatalogue], with etag
}

input! {
    TournamentQuery { page: PageNumber, per_page: PerPage<20> }
}

/// A tournament.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TournamentView {
    /// The tournament's id.
    pub id: u32,
    /// The tournament's name.
    pub name: String,
    /// The URL of the logo; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
    /// Whether the operator or the feed highlights the tournament.
    pub is_featured: bool,
}

impl TournamentView {
    #[must_use]
    pub fn of(tournament: &Tournament) -> Self {
        Self {
            id: tournament.id,
            name: tournament.name.clone(),
            logo: tournament.logo.clone(),
            is_featured: tournament.featured,
        }
    }
}

/// A match's id, as a path parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId(pub u32);

impl PathParameter for EventId {
    const RESOURCE: Resource = Resource::Event;

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX, "description": "The id of a match." })
    }
}

/// What everybody can see of a match, also without a token.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PublicMatchView {
    /// The id of the match.
    pub id: u32,
    /// The sport of the teams.
    pub sport: SportView,
    /// The id of the tournament.
    pub tournament_id: u32,
    /// The tournament that the match belongs to.
    pub tournament: Named,
    /// The home team.
    pub home_team: Named,
    /// The away team.
    pub away_team: Named,
    /// The time of kick-off.
    pub start_time: Timestamp,
    /// Whether the match is scheduled, live or finished.
    pub status: ShownStatus,
    /// Why the match is not simply scheduled, live or finished; `null` if it is.
    pub status_detail: Option<StatusDetail>,
    /// Where the match is played. If that is unknown, the home team's ground; empty if both are unknown.
    pub venue: String,
    /// Goals of the home team; `null` if the match has no score, for example before kick-off.
    pub home_score: Option<u16>,
    /// Goals of the away team; `null` if the match has no score, for example before kick-off.
    pub away_score: Option<u16>,
}

/// A match.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EventView {
    #[serde(flatten)]
    pub public: PublicMatchView,
    /// The Matrix id of the match's chat room.
    pub chat_room_id: String,
    /// How many users have predicted the match.
    pub predictions_count: u64,
}

/// A match, with what the request includes.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EventWithExtras {
    #[serde(flatten)]
    pub event: EventView,
    /// The caller's prediction; `null` if there is none. Present if the request includes it.
    #[serde(skip_serializing_if = "Included::is_absent")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<MyPrediction>"))]
    pub my_prediction: Included<MyPrediction>,
    /// How the predictions of all users divide into outcomes; `null` if there are none, or while they are hidden. Present if
    /// the request includes it.
    #[serde(skip_serializing_if = "Included::is_absent")]
    #[cfg_attr(feature = "openapi", schemars(with = "Option<PickShares>"))]
    pub picks: Included<PickShares>,
}

/// A field that a response has only if the request includes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Included<T> {
    /// The request does not include the field.
    Absent,
    Value(T),
    /// The request includes the field, but it has no value.
    Null,
}

impl<T> Included<T> {
    /// Creates a field that is present if `is_included`.
    pub fn when(is_included: bool, value: impl FnOnce() -> Option<T>) -> Self {
        if is_included { value().map_or(Self::Null, Self::Value) } else { Self::Absent }
    }

    #[must_use]
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent)
    }
}

/// A team or a tournament, as part of another object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Named {
    /// The id of the team or tournament.
    pub id: u32,
    /// The name of the team or tournament.
    pub name: String,
    /// A team's name for narrow screens; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_name: Option<String>,
    /// The URL of the logo; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
}

impl Named {
    #[must_use]
    pub fn team(catalog: &Catalog, id: u32) -> Option<Self> {
        let team = catalog.team(id)?;
        let (name, short_name, logo) = (team.name.clone(), team.short_name.clone(), team.logo.clone());
        Some(Self { id, name, short_name, logo })
    }

    #[must_use]
    pub fn tournament(catalog: &Catalog, id: u32) -> Option<Self> {
        let tournament = catalog.tournament(id)?;
        Some(Self { id, name: tournament.name.clone(), short_name: None, logo: tournament.logo.clone() })
    }
}

/// A sport.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SportView {
    /// The sport's id.
    pub id: u32,
    /// The sport's name.
    pub name: String,
    /// The sport's name in a form for URLs.
    pub slug: String,
}

impl SportView {
    #[must_use]
    pub fn of(sport: &Sport) -> Self {
        Self { id: sport.id, name: sport.name.clone(), slug: sport.slug.clone() }
    }
}

impl PublicMatchView {
    /// Describes a match. Returns `None` if the catalog lacks one of its teams, its sport or its tournament. Imports
    /// reject such a match, so the catalog should contain none.
    #[must_use]
    pub fn of(event: &Match, catalog: &Catalog) -> Option<Self> {
        Some(Self {
            id: event.id,
            sport: SportView::of(catalog.sport_of(event)?),
            tournament_id: event.tournament_id,
            tournament: Named::tournament(catalog, event.tournament_id)?,
            home_team: Named::team(catalog, event.home_team_id)?,
            away_team: Named::team(catalog, event.away_team_id)?,
            start_time: event.start.into(),
            status: event.status.shown(),
            status_detail: event.status.detail(),
            venue: catalog.venue(event).unwrap_or_default().to_owned(),
            home_score: event.score.map(|score| score.home),
            away_score: event.score.map(|score| score.away),
        })
    }
}

impl EventView {
    /// Describes a match, or returns `None` like [`PublicMatchView::of`].
    #[must_use]
    pub fn of(event: &Match, catalog: &Catalog, predictions_count: u64) -> Option<Self> {
        Some(Self {
            public: PublicMatchView::of(event, catalog)?,
            chat_room_id: event.room.to_string(),
            predictions_count,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use chrono::DateTime;
    use serde_json::json;

    use super::*;
    use crate::domain::catalog::testing::team;
    use crate::domain::catalog::{Chunk, ChunkName, Key, Status, Team, Tournament};

    #[test]
    fn an_include_is_a_list_of_known_names_in_any_order() {
        let read = |text| Include::read(Raw::Text(text)).ok();
        let both = Include { my_prediction: true, picks: true };
        assert_eq!(read("picks"), Some(Include { picks: true, ..Include::default() }));
        for text in ["my_prediction,picks", "picks,my_prediction", "picks,my_prediction,picks"] {
            assert_eq!(read(text), Some(both), "{text}");
        }
        for text in ["", ",", "picks,", "picks, my_prediction", "Picks", "picks;my_prediction", "teams"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn an_unknown_venue_is_empty_and_an_unknown_logo_or_short_name_is_absent() {
        let (key, as_of) = (Key(1), DateTime::UNIX_EPOCH);
        let sport = Sport { id: 1, name: "Football".into(), slug: "football".into(), key, as_of };
        let team = |id: u32| team(id, &format!("Team {id}"));
        let tournament = Tournament { id: 3, name: "League".into(), logo: None, featured: false, key, as_of };
        let event = Match {
            id: 9,
            tournament_id: 3,
            home_team_id: 1,
            away_team_id: 2,
            start: as_of,
            status: Status::Scheduled,
            venue: None,
            score: None,
            room: "!match9:touchline.local".into(),
            room_name_hash: 0,
            shards: 4,
            pause: None,
            revision: 0,
            key,
            as_of,
        };
        let chunk = Chunk {
            sports: vec![sport],
            teams: vec![team(1), Team { short_name: Some("T2".into()), ..team(2) }],
            tournaments: vec![tournament],
            ..Chunk::default()
        };
        let catalog = Catalog::new([(ChunkName::Base, Arc::new(chunk))].into());
        assert_eq!(
            json!(EventView::of(&event, &catalog, 5).unwrap()),
            json!({
                "id": 9, "sport": { "id": 1, "name": "Football", "slug": "football" },
                "tournament_id": 3, "tournament": { "id": 3, "name": "League" },
                "home_team": { "id": 1, "name": "Team 1" },
                "away_team": { "id": 2, "name": "Team 2", "short_name": "T2" },
                "start_time": "1970-01-01T00:00:00Z", "status": "scheduled", "status_detail": null, "venue": "",
                "home_score": null, "away_score": null, "chat_room_id": "!match9:touchline.local",
                "predictions_count": 5,
            })
        );
    }
}
