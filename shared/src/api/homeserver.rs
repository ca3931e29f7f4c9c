//! The endpoints that the homeserver calls: the application service API of the Matrix specification.

use serde::Serialize;
use serde_json::Value;

use super::endpoint::{PathParameter, Resource};
use super::{Homeserver, NoInput, endpoint, input};
use crate::domain::{Field, Raw, Reason};

endpoint! {
    /// Receive room events from the homeserver
    ///
    /// The homeserver pushes membership changes and messages in transactions. A repeated transaction changes
    /// nothing.
    Transaction { txn_id: TransactionId }: PUT "/_matrix/app/v1/transactions/{txnId}", in "chat", by Homeserver,
        TransactionInput => Empty, errors [ConcurrentChange]
}

endpoint! {
    /// Tell the homeserver whether a user exists
    ///
    /// The homeserver asks this about users of the service's namespace that it does not know yet.
    QueryUser { user_id: ChatUserId }: GET "/_matrix/app/v1/users/{userId}", in "chat", by Homeserver,
        NoInput => Empty, errors [UserNotFound, ChatUnavailable]
}

endpoint! {
    /// Tell the homeserver whether a room alias exists
    ///
    /// Always responds with 404. A room gets its alias when it is created, so the homeserver already knows
    /// every alias that exists.
    QueryRoom { room_alias: RoomAlias }: GET "/_matrix/app/v1/rooms/{roomAlias}", in "chat", by Homeserver,
        NoInput => Empty, errors [RoomNotFound]
}

endpoint! {
    /// Respond to the homeserver's ping
    ///
    /// The homeserver sends a ping to check that it can reach the application service.
    Ping: POST "/_matrix/app/v1/ping", in "chat", by Homeserver, NoInput => Empty
}

input! {
    TransactionInput { events: MatrixEvents }
}

/// The Matrix events of a transaction, not parsed yet. The handler parses each event separately, so that it
/// can ignore a malformed event and handle the others.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixEvents(pub Vec<Value>);

impl Field for MatrixEvents {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        raw.array().map(|events| Self(events.to_vec()))
    }

    #[cfg(feature = "openapi")]
    fn schema() -> Value {
        serde_json::json!({ "type": "array", "items": {}, "description": "Matrix events." })
    }
}

/// Declares the type of a path parameter that accepts any text.
macro_rules! text_parameter {
    ($(#[doc = $doc:literal])+ $name:ident, $resource:ident, $description:literal) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(pub String);

        impl PathParameter for $name {
            const RESOURCE: Resource = Resource::$resource;

            fn parse(text: &str) -> Option<Self> {
                Some(Self(text.to_owned()))
            }

            #[cfg(feature = "openapi")]
            fn schema() -> Value {
                serde_json::json!({ "type": "string", "minLength": 1, "description": $description })
            }
        }
    };
}

text_parameter! {
    /// The id that the homeserver gave a transaction.
    TransactionId, Transaction, "The transaction's id. A repeated transaction has the same id."
}

text_parameter! {
    /// The Matrix id of a user, `@<name>:<server>`. It can belong to any homeserver.
    ChatUserId, User, "The Matrix id of a user."
}

text_parameter! {
    /// The alias of a room, `#<name>:<server>`.
    RoomAlias, Room, "The alias of a room."
}

/// An empty object.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Empty {}
