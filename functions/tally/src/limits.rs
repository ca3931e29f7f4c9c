//! The limits of a batch: its time, and how many writes it makes concurrently.

use chrono::{DateTime, TimeDelta, Utc};
use touchline::App;

/// The maximum number of counters that are written, and of changes that are copied, concurrently.
pub const CONCURRENT_WRITES: usize = 16;

/// The time before the deadline of an invocation in which no further record is started. It is enough for the records under
/// way, even if DynamoDB is slow.
const TIME_TO_FINISH: TimeDelta = TimeDelta::seconds(30);

/// Limits the time of a batch.
#[derive(Debug, Clone, Copy)]
pub struct TimeLimit<'a> {
    pub app: &'a App,
    last_start: DateTime<Utc>,
}

impl<'a> TimeLimit<'a> {
    pub fn before(deadline: DateTime<Utc>, app: &'a App) -> Self {
        Self { app, last_start: deadline - TIME_TO_FINISH }
    }

    /// Returns whether the work of the record at `index` may start. The first record is always processed, so every
    /// delivery makes progress.
    pub fn admits(&self, index: usize) -> bool {
        index == 0 || self.app.clock.now() < self.last_start
    }
}
