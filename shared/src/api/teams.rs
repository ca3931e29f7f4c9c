//! Teams, and a user's favourites.

use serde::Serialize;

use super::matches::Named;
use super::{Message, Number, PageNumber, PageSize, Paged, SearchText, TeamIds, endpoint, input};
use crate::domain::catalog::{Catalog, Team};
use crate::http::SignedIn;

endpoint! {
    /// List teams.
    ListTeams: GET "/api/auth/teams", in "teams", by SignedIn, TeamQuery => Paged<TeamView>,
        refuses ["no_catalogue"]
}

endpoint! {
    /// Save the caller's primary team.
    SavePrimaryTeam: POST "/api/auth/teams/primary", in "teams", by SignedIn, PrimaryTeam => Message<SavedTeam>,
        refuses ["team_not_found", "no_catalogue"]
}

endpoint! {
    /// Save the caller's other favourite teams, in place of those before.
    SaveOtherTeams: POST "/api/auth/teams/other", in "teams", by SignedIn, OtherTeams => Message<SavedTeams>,
        refuses ["no_catalogue"]
}

input! {
    TeamQuery { sport_id: Option<Number>, search: Option<SearchText>, page: PageNumber, per_page: PageSize }
}

input! {
    PrimaryTeam { team_id: Number }
}

input! {
    OtherTeams { team_ids: TeamIds }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TeamView {
    pub id: u32,
    pub name: String,
    pub slug: String,
    pub sport_id: u32,
    pub sport: SportView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logo: Option<String>,
    pub country: Option<String>,
    pub founded: Option<i32>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SportView {
    pub id: u32,
    pub name: String,
    pub slug: String,
}

impl TeamView {
    /// `None` for a team whose sport is not in the catalog, which no import makes.
    #[must_use]
    pub fn of(team: &Team, catalog: &Catalog) -> Option<Self> {
        let sport = catalog.sport(team.sport_id)?;
        Some(Self {
            id: team.id,
            name: team.name.clone(),
            slug: team.slug.clone(),
            sport_id: team.sport_id,
            sport: SportView { id: sport.id, name: sport.name.clone(), slug: sport.slug.clone() },
            logo: team.logo.clone(),
            country: team.country.clone(),
            founded: team.founded,
        })
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SavedTeam {
    pub team: Named,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct SavedTeams {
    pub teams: Vec<Named>,
}
