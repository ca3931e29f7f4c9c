//! Where a recount continues that stopped early.

use serde::{Deserialize, Serialize};
use touchline::domain::RoomId;

/// How far a recount of everything has come. Matches are first, then rooms, then users.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// The matches with higher ids are next.
    Matches { after: u32 },
    /// The rooms that a scan of the table finds after this one are next, or all rooms.
    Rooms { after: Option<RoomId> },
    /// The memberships of these members are next, then the rooms after theirs.
    Members(NextMembers),
    /// The users with higher ids are next.
    Users { after: u32 },
}

impl Default for Position {
    fn default() -> Self {
        Self::Matches { after: 0 }
    }
}

/// The members of a room whose memberships are next: those after a sort key in one shard, and those in higher shards.
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
