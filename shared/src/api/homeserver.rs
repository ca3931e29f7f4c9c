//! What the homeserver calls: the application service API of the Matrix specification.

use serde::Serialize;
use serde_json::Value;

use super::endpoint::{Kind, PathParameter};
use super::{Homeserver, Nothing, endpoint, input};
use crate::domain::{Field, Raw, Reason};

endpoint! {
    /// Receive room events from the homeserver
    ///
    /// The homeserver pushes membership changes and messages in transactions. A repeated transaction changes nothing.
    Transaction { txn_id: TransactionId }: PUT "/_matrix/app/v1/transactions/{txnId}", in "chat", by Homeserver,
        Pushed => Empty, errors [TokenMissing, NotTheHomeserver]
}

endpoint! {
    /// Tell the homeserver whether a user exists
    ///
    /// The homeserver asks for users of our namespace that it does not know yet.
    QueryUser { user_id: ChatUserId }: GET "/_matrix/app/v1/users/{userId}", in "chat", by Homeserver,
        Nothing => Empty, errors [TokenMissing, NotTheHomeserver, UserNotFound, ChatUnavailable]
}

endpoint! {
    /// Tell the homeserver whether a room alias exists
    ///
    /// Rooms get their aliases when they are created, so an alias that the homeserver does not know does not exist.
    QueryRoom { room_alias: RoomAlias }: GET "/_matrix/app/v1/rooms/{roomAlias}", in "chat", by Homeserver,
        Nothing => Empty, errors [TokenMissing, NotTheHomeserver, RoomNotFound]
}

endpoint! {
    /// Respond to the homeserver's ping
    ///
    /// The homeserver checks that it can reach the application service.
    Ping: POST "/_matrix/app/v1/ping", in "chat", by Homeserver, Nothing => Empty,
        errors [TokenMissing, NotTheHomeserver]
}

input! {
    Pushed { events: Events }
}

/// Unparsed Matrix events, so that one malformed event does not reject the others.
#[derive(Debug, Clone, PartialEq)]
pub struct Events(pub Vec<Value>);

impl Field for Events {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        raw.array().map(|events| Self(events.to_vec()))
    }

    #[cfg(feature = "openapi")]
    fn schema() -> Value {
        serde_json::json!({ "type": "array", "items": {}, "description": "Matrix events." })
    }
}

/// Declares a path parameter that is any text.
macro_rules! text_parameter {
    ($(#[doc = $doc:literal])+ $name:ident, $kind:ident, $description:literal) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name(pub String);

        impl PathParameter for $name {
            const KIND: Kind = Kind::$kind;

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
    /// The homeserver's id of a transaction.
    TransactionId, Transaction, "The transaction's id. A repeated transaction has the same id."
}

text_parameter! {
    /// `@<name>:<server>`, of any server.
    ChatUserId, User, "The Matrix id of a user."
}

text_parameter! {
    /// `#<name>:<server>`.
    RoomAlias, Room, "The alias of a room."
}

/// An empty object.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Empty {}
