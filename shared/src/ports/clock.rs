use std::fmt::Debug;

use chrono::{DateTime, SubsecRound as _, Utc};

/// Where the time comes from. Nothing else may ask for it; `clippy.toml` sees to that.
pub trait Clock: Debug + Send + Sync {
    /// Now, in whole milliseconds: what is stored reads back equal.
    fn now(&self) -> DateTime<Utc>;
}

#[derive(Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place where the clock is read")]
    fn now(&self) -> DateTime<Utc> {
        Utc::now().trunc_subsecs(3)
    }
}
