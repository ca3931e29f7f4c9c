use std::fmt;

use super::{ChunkName, ShownStatus};

/// A compact copy of the fields by which match lists are filtered and sorted, so that a scan of all matches
/// reads little memory.
#[derive(Debug, Clone, Copy)]
pub struct ListedMatch {
    /// Kick-off, in seconds since 1970.
    pub start: i64,
    pub id: u32,
    pub tournament: u32,
    pub home: u32,
    pub away: u32,
    /// The sport of the home team.
    pub sport: u32,
    /// The chunk that holds the whole match.
    pub chunk: ChunkName,
    /// The index of the match in the `matches` of the chunk.
    pub at: u32,
    pub status: ShownStatus,
}

/// The position of a match in match lists. Live matches come first, then scheduled matches, then finished matches.
/// Live and scheduled matches are sorted by ascending kick-off, finished matches by descending kick-off. The id
/// breaks ties, so that pages are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ListPosition {
    status: ShownStatus,
    /// Kick-off in seconds since 1970, negative for finished matches.
    time: i64,
    id: u32,
}

impl ListPosition {
    /// Parses what `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let status = match parts.next()? {
            "0" => ShownStatus::Live,
            "1" => ShownStatus::Scheduled,
            "2" => ShownStatus::Finished,
            _ => return None,
        };
        Some(Self { status, time: parts.next()?.parse().ok()?, id: parts.next()?.parse().ok()? })
    }
}

impl fmt::Display for ListPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.status as u8, self.time, self.id)
    }
}

/// Returns the position of a match in match lists.
pub fn list_order(row: &ListedMatch) -> ListPosition {
    let time = if row.status == ShownStatus::Finished { -row.start } else { row.start };
    ListPosition { status: row.status, time, id: row.id }
}
