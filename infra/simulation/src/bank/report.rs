use std::ops::AddAssign;

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
