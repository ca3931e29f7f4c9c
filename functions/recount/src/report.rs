//! What a recount found and did.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use touchline::domain::standings::Board;
use touchline::storage::recounts::Differences;
use touchline::{App, Error, lambda};

use crate::position::Position;

/// The number of entries at which a recount of everything stops and continues in the next invocation, so that the report
/// can list all of them. Lambda limits the size of a response to 6 MB.
const LISTED: usize = 1_000;

#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// How many counter items were compared with their rows.
    pub checked: u64,
    /// The counters that differed from their rows. They are right now.
    pub repaired: Vec<Repair>,
    /// The counters that were not compared with their rows, or that differ and could not be repaired. They are unchanged.
    pub busy: Vec<Busy>,
    /// How many memberships lacked data that is copied into them. They have it now.
    pub copied: u64,
    /// The leaderboards of the users whose statistics were compared.
    #[serde(skip)]
    pub boards: BTreeSet<Board>,
    /// Where the next recount of everything or of the room continues, if this one stopped early.
    pub next: Option<Position>,
}

/// The reason for counters that the time of the invocation was not enough for.
pub const OUT_OF_TIME: &str = "the time of this invocation is over; invoke again";

/// The reason if an item of the counters, or of the rows that they count, cannot be read or written.
pub const UNREADABLE: &str = "an item cannot be read or written; the log has the reason";

/// Counters that were repaired.
#[derive(Debug, Serialize)]
pub struct Repair {
    /// Whose counters these are: `match 9, shard 3`.
    pub counters: String,
    pub differences: BTreeMap<String, Difference>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub stored: i64,
    pub counted: i64,
}

/// Counters that could not be repaired.
#[derive(Debug, Serialize)]
pub struct Busy {
    pub counters: String,
    pub reason: &'static str,
}

impl Report {
    pub fn add_repair(&mut self, counters: String, differences: Differences) {
        let differences = differences
            .into_iter()
            .map(|(name, (stored, counted))| (name, Difference { stored, counted }))
            .collect();
        // Each repair is logged immediately, because a recount whose process is killed returns no report.
        tracing::warn!(counters, ?differences, "repaired counters");
        self.repaired.push(Repair { counters, differences });
    }

    pub fn add_busy(&mut self, counters: String, reason: &'static str) {
        tracing::warn!(counters, reason, "cannot repair counters now");
        self.busy.push(Busy { counters, reason });
    }

    /// Adds the entries of another report.
    pub fn extend(&mut self, other: Self) {
        self.checked += other.checked;
        self.copied += other.copied;
        self.repaired.extend(other.repaired);
        self.busy.extend(other.busy);
        self.boards.extend(other.boards);
    }

    /// Removes the counters that the time was not enough for. Returns whether there were any.
    pub fn remove_out_of_time(&mut self) -> bool {
        let before = self.busy.len();
        self.busy.retain(|busy| busy.reason != OUT_OF_TIME);
        self.busy.len() < before
    }

    pub fn lacks_time(&self) -> bool {
        self.busy.iter().any(|busy| busy.reason == OUT_OF_TIME)
    }

    /// Reports an error that every recount of the same items would meet, so that the others are still counted. Returns
    /// other errors.
    pub fn unless_permanent<T, E: Into<Error>>(
        &mut self,
        result: Result<T, E>,
        counters: impl FnOnce() -> String,
    ) -> Result<Option<T>, Error> {
        match result.map_err(Into::into) {
            Ok(done) => Ok(Some(done)),
            Err(Error::Store(error)) if error.is_permanent() => {
                let counters = counters();
                tracing::error!(%error, counters, "cannot recount");
                self.add_busy(counters, UNREADABLE);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub fn is_full(&self) -> bool {
        self.repaired.len() + self.busy.len() >= LISTED
    }

    /// Logs the numbers of the report, and records the repairs as a metric.
    pub fn publish(&self, app: &App, has_failed: bool) {
        let (repaired, busy) = (self.repaired.len(), self.busy.len());
        let is_done = self.next.is_none() && !has_failed;
        let Self { checked, copied, .. } = self;
        tracing::info!(checked, repaired, busy, copied, is_done, "counted again");
        lambda::count(app, "Repairs", repaired);
    }
}
