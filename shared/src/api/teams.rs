//! Teams, and the favourite teams of a user.

use serde::Serialize;

use super::matches::{Named, SportView};
use super::{Message, NumberedPage, PageNumber, PerPage, SignedIn, endpoint, input};
use crate::domain::catalog::{Catalog, Team};
use crate::domain::{Field, Id, Raw, Reason, SearchText};

endpoint! {
    /// List teams
    ///
    /// The teams are sorted by name.
    ListTeams: GET "/api/auth/teams", in "teams", by SignedIn, TeamQuery => NumberedPage<TeamView>,
        errors [NoCatalogue], with etag
}

endpoint! {
    /// List sports
    ///
    /// The sports are sorted by name.
    ListSports: GET "/api/auth/sports", in "teams", by SignedIn, SportQuery => NumberedPage<SportView>,
        errors [NoCatalogue], with etag
}

endpoint! {
    /// Save the caller's primary team
    ///
    /// Replaces the previous primary team.
    SavePrimaryTeam: POST "/api/auth/teams/primary", in "teams", by SignedIn, PrimaryTeamInput => Message<SavedTeam>,
        errors [TeamNotFound, NoCatalogue, RateLimited]
}

endpoint! {
    /// Save the caller's other favourite teams
    ///
    /// Replaces all of the caller's previous favourite teams, except the primary team.
    SaveOtherTeams: POST "/api/auth/teams/other", in "teams", by SignedIn, OtherTeamsInput => Message<SavedTeams>,
        errors [ConcurrentChange, NoCatalogue]
}

input! {
    TeamQuery {
        /// Only teams of this sport.
        sport_id: Option<Id>,
        /// Only teams with this text in their name. The search ignores case and accents.
        search: Option<SearchText>,
        page: PageNumber,
        per_page: PerPage<20>,
    }
}

input! {
    SportQuery { page: PageNumber, per_page: PerPage<20> }
}

input! {
    PrimaryTeamInput {
        /// The id of the team.
        team_id: Id,
    }
}

input! {
    OtherTeamsInput { team_ids: TeamIds }
}

/// The ids of up to 5 teams, each at most once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamIds(pub Vec<u32>);

impl TeamIds {
    const MAX: usize = 5;
}

impl Field for TeamIds {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        let values = raw.array()?;
        if values.len() > Self::MAX {
            return Err(format!("Choose at most {} teams.", Self::MAX).into());
        }
        let mut ids = Vec::with_capacity(values.len());
        for value in values {
            let id = Raw::Json(value).id().map_err(|_| Reason::from("Every team id must be an integer."))?;
            if ids.contains(&id) {
                return Err(format!("Choose each team once; {id} is listed twice.").into());
            }
            ids.push(id);
        }
        Ok(Self(ids))
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "array", "items": Id::schema(), "maxItems": Self::MAX, "uniqueItems": true,
            "description": "The ids of up to 5 teams.",
        })
    }
}

/// A team.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TeamView {
    /// The team's id.
    pub id: u32,
    /// The team's name.
    pub name: String,
    /// A name for narrow screens; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub short_name: Option<String>,
    /// The team's name in a form for URLs.
    pub slug: String,
    /// The id of the team's sport.
    pub sport_id: u32,
    /// The team's sport.
    pub sport: SportView,
    /// The URL of the team's logo; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
    /// The team's country; empty if unknown.
    pub country: String,
    /// The year in which the team was founded; 0 if unknown.
    pub founded: i32,
}

impl TeamView {
    /// Describes a team. Returns `None` if the catalog lacks the team's sport. This does not happen in practice,
    /// because imports reject a team of an unknown sport.
    #[must_use]
    pub fn of(team: &Team, catalog: &Catalog) -> Option<Self> {
        let sport = catalog.sport(team.sport_id)?;
        Some(Self {
            id: team.id,
            name: team.name.clone(),
            short_name: team.short_name.clone(),
            slug: team.slug.clone(),
            sport_id: team.sport_id,
            sport: SportView::of(sport),
            logo: team.logo.clone(),
            country: team.country.clone().unwrap_or_default(),
            founded: team.founded.unwrap_or_default(),
        })
    }
}

/// The saved primary team.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SavedTeam {
    /// The new primary team.
    pub team: Named,
}

/// The saved favourite teams other than the primary team.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SavedTeams {
    /// The teams, in the order of the request.
    pub teams: Vec<Named>,
}
