use crate::persona::Persona;
use crate::{Api, Request};

impl<A: Api> Persona<A> {
    pub fn views_leaderboard(&self) -> Request<A> {
        self.get("/api/auth/leaderboards".to_owned())
    }

    pub fn views_table(&self, room: &str) -> Request<A> {
        self.views_leaderboard().query("scope", "room").query("id", room)
    }
}
