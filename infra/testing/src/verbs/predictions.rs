use lambda_http::http::Method;
use serde_json::json;

use crate::persona::Persona;
use crate::{Api, Request};

const PREDICTIONS: &str = "/api/auth/predictions";

#[derive(Debug)]
pub struct Predict;

#[derive(Debug)]
pub struct ListPredictions;

impl<A: Api> Persona<A> {
    /// Predicts a match: add `.home()`, `.draw()` or `.away()`, and `.score(2, 1)` for an exact score.
    pub fn predicts(&self, event: u32) -> Request<A, Predict> {
        self.verb(Method::POST, PREDICTIONS).field("event_id", event)
    }

    /// Lists the caller's own predictions.
    pub fn lists_own_predictions(&self) -> Request<A, ListPredictions> {
        self.verb(Method::GET, PREDICTIONS)
    }

    pub fn lists_event_predictions(&self, event: u32) -> Request<A, ListPredictions> {
        self.verb(Method::GET, format!("/api/auth/events/{event}/predictions"))
    }

    pub fn lists_room_predictions(&self, room: &str) -> Request<A, ListPredictions> {
        self.verb(Method::GET, format!("/api/auth/chat-rooms/{room}/predictions"))
    }
}

impl<A: Api> Request<A, Predict> {
    pub fn home(self) -> Self {
        self.pick("home")
    }

    pub fn draw(self) -> Self {
        self.pick("draw")
    }

    pub fn away(self) -> Self {
        self.pick("away")
    }

    /// Sets the predicted result: `home`, `draw` or `away`.
    pub fn pick(self, pick: &str) -> Self {
        self.field("prediction", pick)
    }

    /// Sets the predicted score, home team first.
    pub fn score(self, home: u32, away: u32) -> Self {
        self.field("score_prediction", json!({ "home": home, "away": away }))
    }

    /// Sets the confidence in percent, from 0 to 100.
    pub fn confidence(self, confidence: u32) -> Self {
        self.field("confidence", confidence)
    }
}

impl<A: Api> Request<A, ListPredictions> {
    /// Lists only the predictions of this user.
    pub fn user(self, id: u32) -> Self {
        self.query("user_id", id)
    }

    /// Lists only predictions of this result: `home`, `draw` or `away`.
    pub fn pick(self, pick: &str) -> Self {
        self.query("prediction", pick)
    }

    pub fn per_page(self, count: u32) -> Self {
        self.query("per_page", count)
    }

    pub fn cursor(self, cursor: &str) -> Self {
        self.query("cursor", cursor)
    }
}
