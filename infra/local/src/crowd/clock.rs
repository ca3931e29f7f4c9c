//! Clocks that show a past time.

use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, TimeDelta, Utc};
use touchline::ports::clock::{Clock, SystemClock};

/// A clock that always shows the same time.
#[derive(Debug)]
pub(super) struct At(pub(super) DateTime<Utc>);

impl Clock for At {
    fn now(&self) -> DateTime<Utc> {
        self.0
    }
}

/// The clock of `tally`. It is 90 days behind until the past season is stored.
///
/// `tally` removes a user's counters of a matchday some days after the matchday. With the time of today, it would remove those
/// of the past season before the leaderboards are built from them. It uses the time for nothing else that matters.
#[derive(Debug)]
pub(crate) struct TallyClock {
    is_behind: AtomicBool,
}

impl TallyClock {
    /// Longer than the past season.
    const DELAY: TimeDelta = TimeDelta::days(90);

    pub(crate) fn behind() -> Self {
        Self { is_behind: AtomicBool::new(true) }
    }

    pub(crate) fn catch_up(&self) {
        self.is_behind.store(false, Ordering::Relaxed);
    }
}

/// Sets the clock of `tally` to the current time when dropped, also after an error or a panic.
#[derive(Debug)]
pub(crate) struct CatchUpOnDrop<'a>(pub(crate) &'a TallyClock);

impl Drop for CatchUpOnDrop<'_> {
    fn drop(&mut self) {
        self.0.catch_up();
    }
}

impl Clock for TallyClock {
    fn now(&self) -> DateTime<Utc> {
        let now = SystemClock.now();
        if self.is_behind.load(Ordering::Relaxed) { now - Self::DELAY } else { now }
    }
}
