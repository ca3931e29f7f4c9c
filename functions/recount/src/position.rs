//! Where a recount continues that stopped early.

use serde::{Deserialize, Serialize};
use touchline::domain::RoomId;

/// How far a recount of everything has come. Matches are first, then rooms, then users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// The matches with higher ids are next.
    Matches { after: u32 },
    /// The rooms that a scan of the table finds after this room are next. Without a room, the scan starts at the
    /// beginning.
    Rooms { after: Option<RoomId> },
    /// These members of a room are next, then the rooms after it.
    Members(NextMembers),
    /// The users with higher ids are next.
    Users { after: u32 },
}

impl Default for Position {
    fn default() -> Self {
        Self::Matches { after: 0 }
    }
}

/// The next members of a room: those after a sort key in one shard, and all in higher shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextMembers {
    pub room: RoomId,
    pub shard: u8,
    pub after: Option<String>,
}

impl NextMembers {
    pub fn first(room: RoomId) -> Self {
        Self { room, shard: 0, after: None }
    }
}
