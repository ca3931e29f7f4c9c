use std::sync::Mutex;

use chrono::{DateTime, TimeDelta, Utc};
use touchline::ports::clock::Clock;

/// A clock that stands still until a test advances it. By default it starts at 2026-11-15T12:00:00Z.
#[derive(Debug)]
pub struct TestClock(Mutex<DateTime<Utc>>);

impl Default for TestClock {
    fn default() -> Self {
        Self(Mutex::new(DateTime::from_timestamp(1_794_744_000, 0).expect("the timestamp is valid")))
    }
}

impl TestClock {
    /// Returns a clock that starts at `now`.
    #[must_use]
    pub fn at(now: DateTime<Utc>) -> Self {
        Self(Mutex::new(now))
    }

    pub fn advance(&self, by: TimeDelta) {
        *self.0.lock().expect("the lock is not poisoned") += by;
    }

    /// Returns the current time of the test.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        *self.0.lock().expect("the lock is not poisoned")
    }
}

impl Clock for TestClock {
    fn now(&self) -> DateTime<Utc> {
        self.now()
    }
}
