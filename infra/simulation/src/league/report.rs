use std::fmt;
use std::ops::AddAssign;

/// Counts over all worlds that were played.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Played {
    pub worlds: u64,
    /// The results that were settled: first results, corrections and void matches.
    pub settlements: u64,
    /// The boards and tables of rooms that were compared with the oracle, and their rows.
    pub boards: u64,
    pub rows: u64,
    /// The number of calls to the store.
    pub calls: u64,
    pub faults: u64,
    pub crashes: u64,
    /// The sum of the hashes of the traces. It shows whether two runs of the same seeds were the same.
    pub hash: u64,
}

impl AddAssign for Played {
    fn add_assign(&mut self, other: Self) {
        self.worlds += other.worlds;
        self.settlements += other.settlements;
        self.boards += other.boards;
        self.rows += other.rows;
        self.calls += other.calls;
        self.faults += other.faults;
        self.crashes += other.crashes;
        self.hash = self.hash.wrapping_add(other.hash);
    }
}

impl fmt::Display for Played {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worlds, settlements, boards, rows, calls, faults, crashes, .. } = self;
        write!(
            f,
            "{worlds} worlds, {settlements} settlements, {boards} boards with {rows} rows compared, {calls} calls, \
             {faults} faults, {crashes} crashes"
        )
    }
}
