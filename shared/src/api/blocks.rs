//! Blocked users.

use chrono::DateTime;
use serde::Serialize;

use super::endpoint::{PathParameter, Resource};
use super::predictions::PersonView;
use super::{
    Cursor, CursorPage, Message, MessageOnly, NoInput, PerPage, Position, SignedIn, endpoint, input,
};
use crate::domain::block::Block;
use crate::domain::profile::Person;
use crate::domain::{Timestamp, UserId};

endpoint! {
    /// Block a user
    ///
    /// The blocked user cannot invite the caller, is left out of the caller's lists, and is ignored in chat. The
    /// blocked user is not told. Blocking a user again changes nothing.
    BlockUser { user: UserId }: POST "/api/auth/users/{user}/block", in "chat", by SignedIn,
        NoInput => Message<BlockedUser>, errors [UserNotFound, TooManyBlocks, ConcurrentChange]
}

endpoint! {
    /// Unblock a user
    ///
    /// Unblocking a user who is not blocked changes nothing.
    UnblockUser { user: UserId }: POST "/api/auth/users/{user}/unblock", in "chat", by SignedIn,
        NoInput => MessageOnly, errors [UserNotFound]
}

endpoint! {
    /// List the blocked users
    ///
    /// The users whom the caller has blocked, the newest block first.
    ListBlocks: GET "/api/auth/blocks", in "chat", by SignedIn, BlocksQuery => CursorPage<BlockedUser>
}

input! {
    BlocksQuery { per_page: PerPage<50>, cursor: Option<Cursor<BeforeBlock>> }
}

impl PathParameter for UserId {
    const RESOURCE: Resource = Resource::User;

    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX, "description": "The id of a user." })
    }
}

/// A position in the list of blocked users, which begins with the newest block. The next page has the blocks before this
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeforeBlock(pub Block);

impl Position for BeforeBlock {
    const LIST: &'static str = "blocks";

    fn encode(&self) -> String {
        format!("{}-{}", self.0.at.timestamp_millis(), self.0.user)
    }

    fn decode(text: &str) -> Option<Self> {
        let (at, user) = text.split_once('-')?;
        let at = DateTime::from_timestamp_millis(at.parse().ok()?)?;
        Some(Self(Block { at, user: user.parse().ok()? }))
    }
}

/// A user whom the caller has blocked.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct BlockedUser {
    /// The blocked user.
    pub user: PersonView,
    /// When the caller blocked the user.
    pub created_at: Timestamp,
}

impl BlockedUser {
    #[must_use]
    pub fn of(person: &Person, block: Block) -> Self {
        Self { user: PersonView::of(person), created_at: block.at.into() }
    }
}
