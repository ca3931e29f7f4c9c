//! Matches.

use chrono::NaiveDate;
use serde::Serialize;

use super::{Data, Nothing, Number, PageMeta, PageNumber, PageSize, Paged, endpoint, input};
use crate::domain::Timestamp;
use crate::domain::catalog::{Catalog, Match, ShownStatus};
use crate::http::SignedIn;

endpoint! {
    /// List matches: live, then upcoming, then finished.
    ListEvents: GET "/api/auth/events", in "matches", by SignedIn, EventQuery => Paged<EventView>,
        refuses ["no_catalogue"]
}

endpoint! {
    /// One match.
    OneEvent: GET "/api/auth/events/{event}", in "matches", by SignedIn, Nothing => Data<EventView>,
        refuses ["event_not_found", "no_catalogue"]
}

input! {
    EventQuery {
        tournament_id: Option<Number>,
        /// Home or away.
        team_id: Option<Number>,
        /// The UTC day of the start.
        date: Option<NaiveDate>,
        status: Option<ShownStatus>,
        page: PageNumber,
        per_page: PageSize,
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct EventView {
    pub id: u32,
    pub tournament_id: u32,
    pub tournament: Named,
    pub home_team: Named,
    pub away_team: Named,
    pub start_time: Timestamp,
    pub status: ShownStatus,
    pub venue: Option<String>,
    pub home_score: Option<u16>,
    pub away_score: Option<u16>,
    pub chat_room_id: String,
    pub predictions_count: u64,
}

/// A team or tournament, as far as others show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Named {
    pub id: u32,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
}

impl Named {
    #[must_use]
    pub fn team(catalog: &Catalog, id: u32) -> Option<Self> {
        let team = catalog.team(id)?;
        Some(Self { id, name: team.name.clone(), logo: team.logo.clone() })
    }

    #[must_use]
    pub fn tournament(catalog: &Catalog, id: u32) -> Option<Self> {
        let tournament = catalog.tournament(id)?;
        Some(Self { id, name: tournament.name.clone(), logo: tournament.logo.clone() })
    }
}

impl EventView {
    /// `None` for a match whose teams or tournament are not in the catalog, which no import makes.
    #[must_use]
    pub fn of(event: &Match, catalog: &Catalog, predictions_count: u64) -> Option<Self> {
        Some(Self {
            id: event.id,
            tournament_id: event.tournament_id,
            tournament: Named::tournament(catalog, event.tournament_id)?,
            home_team: Named::team(catalog, event.home_team_id)?,
            away_team: Named::team(catalog, event.away_team_id)?,
            start_time: event.start.into(),
            status: event.status.shown(),
            venue: event.venue.as_deref().map(str::to_owned),
            home_score: event.score.map(|score| score.home),
            away_score: event.score.map(|score| score.away),
            chat_room_id: event.room.to_string(),
            predictions_count,
        })
    }
}

impl PageMeta {
    #[must_use]
    pub fn of<T>(page: &crate::domain::catalog::Page<T>) -> Self {
        Self {
            current_page: page.paging.page,
            last_page: page.last_page(),
            per_page: page.paging.per_page,
            total: page.total,
        }
    }
}
