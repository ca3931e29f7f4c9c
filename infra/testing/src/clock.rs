use std::sync::Mutex;

use chrono::{DateTime, TimeDelta, Utc};
use touchline::ports::clock::Clock;

/// Stands still until it is told to move. Starts at 2026-11-15T12:00:00Z.
#[derive(Debug)]
pub struct TestClock(Mutex<DateTime<Utc>>);

impl Default for TestClock {
    fn default() -> Self {
        Self(Mutex::new(DateTime::from_timestamp(1_794_744_000, 0).expect("a moment that exists")))
    }
}

impl TestClock {
    /// One that stands at another time.
    #[must_use]
    pub fn at(now: DateTime<Utc>) -> Self {
        Self(Mutex::new(now))
    }

    pub fn advance(&self, by: TimeDelta) {
        *self.0.lock().expect("no test panics while it holds the clock") += by;
    }
}

impl Clock for TestClock {
    fn now(&self) -> DateTime<Utc> {
        *self.0.lock().expect("no test panics while it holds the clock")
    }
}
