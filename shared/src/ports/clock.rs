//! The current time.

use std::fmt::Debug;

use chrono::{DateTime, SubsecRound as _, Utc};

/// The source of the current time. `clippy.toml` disallows all other sources.
pub trait Clock: Debug + Send + Sync {
    /// Returns the current time in whole milliseconds, which is the precision of stored times.
    fn now(&self) -> DateTime<Utc>;
}

/// The operating system's clock.
#[derive(Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only reader of the system clock")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(3)
    }
}
