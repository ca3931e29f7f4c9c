//! Clocks of the past.

use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use touchline::ports::clock::{Clock, SystemClock};

/// A clock that stands still.
#[derive(Debug)]
pub(super) struct At(pub(super) DateTime<Utc>);

impl Clock for At {
    fn now(&self) -> DateTime<Utc> {
        self.0
    }
}

/// The clock of `tally`. It shows a time in the past until the past season is stored.
///
/// `tally` removes a user's counters of a matchday some days after the matchday. With the time of today, it would remove those
/// of the past season before the leaderboards are built from them. It uses the time for nothing else that matters.
#[derive(Debug)]
pub(crate) struct TallyClock {
    is_slow: AtomicBool,
}

impl TallyClock {
    /// Longer than the past season.
    const DELAY: TimeDelta = TimeDelta::days(90);

    pub(crate) fn slow() -> Self {
        Self { is_slow: AtomicBool::new(true) }
    }

    pub(crate) fn set(&self) {
        self.is_slow.store(false, Ordering::Relaxed);
    }
}

/// Sets the clock when it is dropped, also after an error or a panic: `tally` must not stay in the past.
#[derive(Debug)]
pub(crate) struct SetInTheEnd<'a>(pub(crate) &'a TallyClock);

impl Drop for SetInTheEnd<'_> {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl Clock for TallyClock {
    fn now(&self) -> DateTime<Utc> {
        let now = SystemClock.now();
        if self.is_slow.load(Ordering::Relaxed) { now - Self::DELAY } else { now }
    }
}
