use super::{ChunkName, ShownStatus};

/// The fields of a match that lists filter and sort by, close together in memory.
#[derive(Debug, Clone, Copy)]
pub struct ListedMatch {
    pub start: i64,
    pub id: u32,
    pub tournament: u32,
    pub home: u32,
    pub away: u32,
    /// Where the match itself is.
    pub chunk: ChunkName,
    pub at: u32,
    pub status: ShownStatus,
}

/// Live, then scheduled by start, then finished, newest first. The id breaks ties, so that pages are stable.
pub fn list_order(row: &ListedMatch) -> (ShownStatus, i64, u32) {
    let time = if row.status == ShownStatus::Finished { -row.start } else { row.start };
    (row.status, time, row.id)
}
