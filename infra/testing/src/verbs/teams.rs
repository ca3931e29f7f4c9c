use lambda_http::http::Method;

use crate::persona::Persona;
use crate::{Api, Request};

const TEAMS: &str = "/api/auth/teams";

#[derive(Debug)]
pub struct ListTeams;

impl<A: Api> Persona<A> {
    pub fn lists_teams(&self) -> Request<A, ListTeams> {
        self.verb(Method::GET, TEAMS)
    }

    pub fn lists_sports(&self) -> Request<A> {
        self.get("/api/auth/sports".to_owned())
    }

    pub fn saves_primary_team(&self, team: u32) -> Request<A> {
        self.request(Method::POST, format!("{TEAMS}/primary")).field("team_id", team)
    }

    pub fn saves_other_teams(&self, teams: &[u32]) -> Request<A> {
        self.request(Method::POST, format!("{TEAMS}/other")).field("team_ids", teams)
    }
}

impl<A: Api> Request<A, ListTeams> {
    pub fn sport(self, sport: u32) -> Self {
        self.query("sport_id", sport)
    }

    pub fn search(self, text: &str) -> Self {
        self.query("search", text)
    }

    pub fn page(self, page: u32) -> Self {
        self.query("page", page)
    }

    pub fn per_page(self, count: u32) -> Self {
        self.query("per_page", count)
    }
}
