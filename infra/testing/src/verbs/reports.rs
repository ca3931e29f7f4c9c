use lambda_http::http::Method;

use crate::persona::Persona;
use crate::{Api, Request};

#[derive(Debug)]
pub struct Report;

impl<A: Api> Persona<A> {
    /// Reports something: add `.user(id)`, `.room(id)` or `.message(id)`.
    pub fn reports(&self, reason: &str) -> Request<A, Report> {
        self.verb(Method::POST, "/api/auth/reports").field("reason", reason)
    }
}

impl<A: Api> Request<A, Report> {
    pub fn user(self, id: u32) -> Self {
        self.field("user_id", id)
    }

    pub fn room(self, id: &str) -> Self {
        self.field("room_id", id)
    }

    pub fn message(self, id: &str) -> Self {
        self.field("message_id", id)
    }
}
