use lambda_http::http::Method;

use crate::persona::Persona;
use crate::{Api, Request};

const EVENTS: &str = "/api/auth/events";

#[derive(Debug)]
pub struct ListEvents;

impl<A: Api> Persona<A> {
    pub fn lists_events(&self) -> Request<A, ListEvents> {
        self.verb(Method::GET, EVENTS)
    }

    pub fn lists_tournaments(&self) -> Request<A> {
        self.get("/api/auth/tournaments".to_owned())
    }

    pub fn views_event(&self, event: u32) -> Request<A> {
        self.get(format!("{EVENTS}/{event}"))
    }
}

impl<A: Api> Request<A, ListEvents> {
    /// Lists each match with more: `my_prediction`, `picks` or both.
    pub fn include(self, names: &str) -> Self {
        self.query("include", names)
    }

    pub fn status(self, status: &str) -> Self {
        self.query("status", status)
    }

    pub fn tournament(self, tournament: u32) -> Self {
        self.query("tournament_id", tournament)
    }

    pub fn team(self, team: u32) -> Self {
        self.query("team_id", team)
    }

    /// Lists only matches on this date: `YYYY-MM-DD`.
    pub fn date(self, date: &str) -> Self {
        self.query("date", date)
    }

    /// Lists only matches with kick-off at this time or later: `2026-11-15T15:00:00Z`.
    pub fn from(self, time: &str) -> Self {
        self.query("from", time)
    }

    /// Lists only matches with kick-off before this time.
    pub fn to(self, time: &str) -> Self {
        self.query("to", time)
    }

    pub fn page(self, page: u32) -> Self {
        self.query("page", page)
    }

    pub fn per_page(self, count: u32) -> Self {
        self.query("per_page", count)
    }
}
