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
    /// The chunk that holds the whole match.
    pub chunk: ChunkName,
    /// The index of the match in the `matches` of the chunk.
    pub at: u32,
    pub status: ShownStatus,
}

/// Returns the sort key of match lists. Live matches come first, then scheduled matches, then finished
/// matches. Live and scheduled matches are sorted by ascending kick-off, finished matches by descending
/// kick-off. The id breaks ties, so that pages are stable.
pub fn list_order(row: &ListedMatch) -> (ShownStatus, i64, u32) {
    let time = if row.status == ShownStatus::Finished { -row.start } else { row.start };
    (row.status, time, row.id)
}
