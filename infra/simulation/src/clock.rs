use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use tokio::time::Instant;
use touchline::ports::clock::Clock;

/// The clock of one environment. It follows the virtual time of the runtime. `skew` is the difference between [`BEGIN`] and the
/// time at which the world begins, plus the error of this clock.
#[derive(Debug, Clone, Copy)]
pub struct VirtualClock {
    started: Instant,
    skew: TimeDelta,
}

/// The virtual time at which a world begins, unless it uses [`VirtualClock::starting_at`]: a Friday evening.
const BEGIN: i64 = 1_794_592_800;

impl VirtualClock {
    /// Returns the true clock of a world that begins now.
    #[must_use]
    pub fn starting_now() -> Self {
        Self { started: Instant::now(), skew: TimeDelta::zero() }
    }

    /// Returns the true clock of a world whose virtual time is `begin` now.
    #[must_use]
    pub fn starting_at(begin: DateTime<Utc>) -> Self {
        let clock = Self::starting_now();
        clock.skewed(begin - clock.time())
    }

    /// Returns the same clock, but wrong by `skew`.
    #[must_use]
    pub fn skewed(self, skew: TimeDelta) -> Self {
        Self { skew: self.skew + skew, ..self }
    }

    /// Returns the time that this clock shows.
    #[must_use]
    pub fn time(&self) -> DateTime<Utc> {
        let begin = DateTime::from_timestamp(BEGIN, 0).expect("the timestamp is valid");
        let elapsed = TimeDelta::from_std(self.started.elapsed()).expect("a world lasts days");
        (begin + elapsed + self.skew).trunc_subsecs(3)
    }
}

impl Clock for VirtualClock {
    fn now(&self) -> DateTime<Utc> {
        self.time()
    }
}
