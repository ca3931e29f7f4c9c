//! The `catalog` table: each row as an item, and the snapshot that readers load.
//!
//! The rows are the source of truth, and the snapshot is built from them. The snapshot consists of chunks of
//! rows, an index that lists the chunks, and a head that points to the index. Stored chunks and indexes are
//! never overwritten; a change stores new ones. A change becomes visible only when the head moves, so readers
//! see the old catalog or the new one, never a mixture.

mod cache;
mod ids;
mod lease;
mod pauses;
mod rows;
mod snapshot;

pub use cache::{Cache, Loaded, load, load_latest};
pub use rows::{Replacement, Row, Written};
pub use snapshot::{ChunkRef, Head, Index};

/// How many DynamoDB calls run concurrently while rows are read or written.
const CONCURRENCY: usize = 16;
