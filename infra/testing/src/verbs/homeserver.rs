use lambda_http::http::Method;
use serde::Serialize;
use serde_json::json;

use crate::persona::Persona;
use crate::{Api, Request};

/// The requests that the homeserver sends. `app.homeserver()` returns the persona that sends them.
impl<A: Api> Persona<A> {
    /// Pushes a transaction with these Matrix events, as the homeserver does.
    pub fn pushes(&self, transaction: &str, events: impl Serialize) -> Request<A> {
        self.put(format!("/_matrix/app/v1/transactions/{transaction}"), json!({ "events": events }))
    }

    /// Asks whether a chat user exists.
    pub fn queries_user(&self, chat_id: &str) -> Request<A> {
        self.get(format!("/_matrix/app/v1/users/{chat_id}"))
    }

    /// Asks whether a room alias exists.
    pub fn queries_room(&self, alias: &str) -> Request<A> {
        self.get(format!("/_matrix/app/v1/rooms/{alias}"))
    }

    pub fn pings(&self) -> Request<A> {
        self.request(Method::POST, "/_matrix/app/v1/ping")
    }
}
