use std::collections::{BTreeMap, BTreeSet, HashSet};

use touchline::storage::catalog::{Replacement, Row, Written};
use touchline::storage::settlements::Due;
use touchline::storage::{Retry, StoreError};

use super::Import;

/// What the import does with a row of the document.
enum Decision<T> {
    /// `changed` is false if the row differs from the stored row only in `as_of`.
    Write {
        row: T,
        changed: bool,
    },
    Keep(T),
    Reject(String),
}

impl Import<'_> {
    /// Writes the rows that differ from the stored rows, and counts all rows in the report. Returns the rows
    /// as they are stored afterwards. `settle` fills in the fields that depend on the stored row.
    pub async fn apply<T: Row>(
        &mut self,
        wanted: Vec<(String, T)>,
        settle: impl Fn(Option<&T>, T) -> T,
    ) -> Result<BTreeMap<u32, T>, StoreError> {
        let ids: BTreeSet<u32> = wanted.iter().map(|(_, row)| row.id()).collect();
        let mut stored = self.app.store.catalog_rows::<T>(&ids.into_iter().collect::<Vec<_>>()).await?;
        let mut rows: BTreeMap<u32, T> = BTreeMap::new();
        let mut open = self.first_of_each_id(wanted);
        // A concurrent import can change a row between our read and our write: then decide again.
        let mut retry = Retry::immediate("catalog row", 10);
        loop {
            let mut writes = Vec::new();
            for (label, row) in std::mem::take(&mut open) {
                let id = row.id();
                match decide(stored.get(&id), &row, self.is_dated, &settle) {
                    Decision::Keep(row) => {
                        self.report.unchanged += 1;
                        rows.insert(id, row);
                    }
                    Decision::Write { row: settled, changed } => {
                        let replacement = Replacement { row: settled, read: stored.get(&id).cloned() };
                        writes.push((label, row, replacement, changed));
                    }
                    Decision::Reject(reason) => {
                        self.rejected.insert((T::KIND, id));
                        // A row of another source has this id. Remove the id's assignment to our row, so that
                        // the next import assigns another id to our row.
                        self.app.store.release_id(T::KIND, row.key(), id).await?;
                        self.reject(label, reason);
                    }
                }
            }
            let replacements: Vec<_> =
                writes.iter().map(|(_, _, replacement, _)| replacement.clone()).collect();
            self.queue_points(&replacements).await?;
            let written = self.app.store.put_rows(&replacements).await?;
            for ((label, row, replacement, changed), outcome) in writes.into_iter().zip(written) {
                match outcome {
                    Written::Now => {
                        match (&replacement.read, changed) {
                            (None, _) => self.report.created += 1,
                            (Some(_), true) => self.report.updated += 1,
                            (Some(_), false) => self.report.unchanged += 1,
                        }
                        rows.insert(row.id(), replacement.row);
                    }
                    Written::Changed(found) => {
                        stored.insert(row.id(), found);
                        open.push((label, row));
                    }
                }
            }
            if open.is_empty() {
                return Ok(rows);
            }
            retry.again().await?;
        }
    }

    /// Rejects every row whose id an earlier row of the same list has.
    pub fn first_of_each_id<T: Row>(&mut self, rows: Vec<(String, T)>) -> Vec<(String, T)> {
        let mut seen = HashSet::new();
        let mut first = Vec::with_capacity(rows.len());
        for (label, row) in rows {
            if seen.insert(row.id()) {
                first.push((label, row));
            } else {
                self.reject(label, format!("the document has id {} twice", row.id()));
            }
        }
        first
    }

    /// Queues the matches whose results changed, so that the Lambda function `points` settles them. The
    /// caller writes the rows afterwards. A crash in between leaves a queued match without a changed result,
    /// which does no harm. In the other order, a crash could leave a changed result without points.
    async fn queue_points<T: Row>(&self, replacements: &[Replacement<T>]) -> Result<(), StoreError> {
        for Replacement { row, read } in replacements {
            // A new match has no predictions yet, so it needs no points.
            let Some(read) = read else { continue };
            if row.revision() > read.revision() {
                let since = self.app.clock.now();
                let due = Due { event_id: row.id(), revision: row.revision(), since, is_published: false };
                self.app.store.put_due(&due).await?;
            }
        }
        Ok(())
    }
}

fn decide<T: Row>(
    stored: Option<&T>,
    wanted: &T,
    is_dated: bool,
    settle: impl Fn(Option<&T>, T) -> T,
) -> Decision<T> {
    let Some(stored) = stored else {
        return Decision::Write { row: settle(None, wanted.clone()), changed: true };
    };
    if stored.key() != wanted.key() {
        return Decision::Reject(format!("id {} belongs to another source", wanted.id()));
    }
    if wanted.as_of() < stored.as_of() {
        return Decision::Keep(stored.clone());
    }
    let settled = settle(Some(stored), wanted.clone());
    let changed = settled.clone().dated(stored.as_of()) != *stored;
    // A dated document that confirms a row moves the row's `as_of` forward, so that an older document cannot
    // change the row. For an undated document, `as_of` is the time of the import. If undated documents also
    // moved the `as_of` of unchanged rows, every import would rewrite every row.
    if changed || (is_dated && wanted.as_of() > stored.as_of()) {
        Decision::Write { row: settled, changed }
    } else {
        Decision::Keep(stored.clone())
    }
}
