//! What the homeserver asks and tells, as the specification of application services has it.

use serde::Serialize;
use serde_json::Value;

use super::{Nothing, endpoint, input};
use crate::http::Homeserver;

endpoint! {
    /// The homeserver tells what happened in rooms.
    Transaction: PUT "/_matrix/app/v1/transactions/{txnId}", in "chat", by Homeserver, Pushed => Empty,
        refuses ["token_missing", "not_the_homeserver"]
}

endpoint! {
    /// The homeserver asks whether a user exists.
    QueryUser: GET "/_matrix/app/v1/users/{userId}", in "chat", by Homeserver, Nothing => Empty,
        refuses ["token_missing", "not_the_homeserver", "user_not_found", "chat_unavailable"]
}

endpoint! {
    /// The homeserver asks whether a room exists under an alias.
    QueryRoom: GET "/_matrix/app/v1/rooms/{roomAlias}", in "chat", by Homeserver, Nothing => Empty,
        refuses ["token_missing", "not_the_homeserver", "room_not_found"]
}

endpoint! {
    /// The homeserver asks whether anybody is here.
    Ping: POST "/_matrix/app/v1/ping", in "chat", by Homeserver, Nothing => Empty,
        refuses ["token_missing", "not_the_homeserver"]
}

input! {
    Pushed { events: Events }
}

/// Events as they came. One that makes no sense is passed over, not the others with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Events(pub Vec<Value>);

/// An object without anything in it.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Empty {}
