use std::fmt;
use std::ops::AddAssign;

/// A schedule that failed its checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub seed: u64,
    pub what: String,
    /// The calls of the schedule and the outcomes of its orders.
    pub trace: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}: {}", self.seed, self.what)
    }
}

/// Counts over all schedules that were played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Played {
    pub schedules: u64,
    /// The number of calls to the store.
    pub calls: u64,
    pub faults: u64,
    pub crashes: u64,
    /// The number of ledger entries in the wallets.
    pub entries: u64,
    /// The sum of the hashes of the traces. It shows whether two runs of the same seeds were the same.
    pub hash: u64,
}

impl AddAssign for Played {
    fn add_assign(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.calls += other.calls;
        self.faults += other.faults;
        self.crashes += other.crashes;
        self.entries += other.entries;
        self.hash = self.hash.wrapping_add(other.hash);
    }
}
