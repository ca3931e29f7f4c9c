//! The `catalog` table: each row as an item, and the snapshot that readers load.
//!
//! Rows are the source of truth. The snapshot is built from them: chunks under keys that are written once, an
//! index that lists the chunks, and a head that points to the index. Only moving the head makes a change
//! visible, so readers see the old catalog or the new one, never a mixture.

mod cache;
mod ids;
mod rows;
mod snapshot;

pub use cache::{Cache, Loaded, load, load_latest};
pub use rows::{Replacement, Row, Written};
pub use snapshot::{ChunkRef, Head, Index};

/// How many DynamoDB calls run concurrently while rows are read or written.
const CONCURRENCY: usize = 16;
