/// Why a request was throttled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The gateway's limit of a route or of the account.
    Gateway,
    /// The account's or the function's concurrency, or the account's invocations a second.
    Concurrency,
    /// The function may not start more environments yet.
    Starts,
    /// The account's quota of a table.
    Table,
    Partition,
    /// A partition or the quota of a global index.
    Index,
    /// An item collection of a table with a local index is full.
    Collection,
}
