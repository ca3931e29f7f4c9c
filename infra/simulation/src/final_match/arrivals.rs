use std::time::Duration;

/// How long before kick-off the first prediction arrives.
pub const LASTS: Duration = Duration::from_mins(5);

/// How long before kick-off the last prediction is sent. A later one could arrive after kick-off, and the product would be
/// right to reject it.
const MARGIN: Duration = Duration::from_secs(1);

/// How predictions arrive before kick-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    Even,
    /// The rate grows linearly until kick-off. The last second has twice the mean rate.
    Growing,
    /// A third arrives in the last 30 seconds.
    Late,
}

impl Arrivals {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Even => "even",
            Self::Growing => "growing until kick-off",
            Self::Late => "a third in the last 30 s",
        }
    }

    /// Returns when the fan `number` of `fans` sends a prediction, from the first arrival on.
    ///
    /// Fans arrive at regular intervals. Millions of fans arrive nearly so, and a few thousand would not if each drew a
    /// time.
    #[must_use]
    pub fn at(self, number: u32, fans: u32) -> Duration {
        let share = f64::from(number) / f64::from(fans.max(1));
        let elapsed = match self {
            Self::Even => share,
            // The share of fans that arrived grows with the square of the time.
            Self::Growing => share.sqrt(),
            Self::Late if share < 2.0 / 3.0 => share * 1.5 * 0.9,
            Self::Late => 0.9 + (share - 2.0 / 3.0) * 3.0 * 0.1,
        };
        LASTS.saturating_sub(MARGIN).mul_f64(elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived_by(arrivals: Arrivals, share: f64) -> usize {
        let by = LASTS.saturating_sub(MARGIN).mul_f64(share);
        (0..3_000).filter(|number| arrivals.at(*number, 3_000) < by).count()
    }

    #[test]
    fn every_pattern_ends_before_kick_off() {
        for arrivals in [Arrivals::Even, Arrivals::Growing, Arrivals::Late] {
            assert_eq!(arrivals.at(0, 3_000), Duration::ZERO, "{arrivals:?}");
            assert_eq!(arrived_by(arrivals, 1.0), 3_000, "{arrivals:?}");
            let in_order = (1..3_000).all(|n| arrivals.at(n - 1, 3_000) <= arrivals.at(n, 3_000));
            assert!(in_order, "{arrivals:?}");
        }
        assert_eq!(arrived_by(Arrivals::Even, 0.5), 1_500);
        assert_eq!(arrived_by(Arrivals::Growing, 0.5), 750);
        assert_eq!(arrived_by(Arrivals::Late, 0.9), 2_000);
    }
}
