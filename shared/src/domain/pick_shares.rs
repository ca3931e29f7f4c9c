//! How the predictions for a match divide into outcomes, in percent.

use serde::Serialize;

use super::tally::EventCounts;

/// The share of each outcome in the predictions for a match, in whole percent. The three add up to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PickShares {
    /// Predictions of a home win, in percent.
    pub home: u8,
    /// Predictions of a draw, in percent.
    pub draw: u8,
    /// Predictions of an away win, in percent.
    pub away: u8,
}

impl PickShares {
    /// Rounds the shares by the largest remainder: every share is rounded down, and the percents that are left go to the
    /// shares that lost most. Of equal shares, the first one gets the percent. Returns `None` if there are no picks.
    #[must_use]
    pub fn of(counts: &EventCounts) -> Option<Self> {
        let picks = [counts.home, counts.draw, counts.away].map(|count| u128::try_from(count).unwrap_or(0));
        let total = picks.iter().sum::<u128>();
        if total == 0 {
            return None;
        }
        let mut shares = picks.map(|count| count * 100 / total);
        let mut by_remainder = [0, 1, 2];
        // The sort is stable, so equal remainders stay in order.
        by_remainder.sort_by_key(|outcome: &usize| std::cmp::Reverse(picks[*outcome] * 100 % total));
        let left = 100 - shares.iter().sum::<u128>();
        for outcome in by_remainder.into_iter().take(usize::try_from(left).unwrap_or(0)) {
            shares[outcome] += 1;
        }
        let [home, draw, away] = shares.map(|share| u8::try_from(share).unwrap_or(100));
        Some(Self { home, draw, away })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shares(home: i64, draw: i64, away: i64) -> Option<[u8; 3]> {
        let counts = EventCounts { predictions: home + draw + away, home, draw, away, confidence: 0 };
        PickShares::of(&counts).map(|shares| [shares.home, shares.draw, shares.away])
    }

    #[test]
    fn the_percents_that_rounding_down_leaves_go_to_the_largest_remainders() {
        assert_eq!(shares(1, 1, 1), Some([34, 33, 33]));
        assert_eq!(shares(0, 1, 1), Some([0, 50, 50]));
        assert_eq!(shares(2, 3, 1), Some([33, 50, 17]));
        assert_eq!(shares(1, 0, 999), Some([0, 0, 100]));
        assert_eq!(shares(0, 0, 0), None);
    }

    proptest! {
        #[test]
        fn shares_add_up_to_100_and_are_less_than_a_percent_from_the_truth(
            picks in prop_oneof![[0_i64..4, 0..4, 0..4], [0_i64..1_000, 0..1_000, 0..1_000],
                                 [0_i64..1 << 52, 0..1 << 52, 0..1 << 52]],
        ) {
            let [home, draw, away] = picks;
            let total: i64 = picks.iter().sum();
            let Some(shares) = shares(home, draw, away) else {
                prop_assert_eq!(total, 0);
                return Ok(());
            };
            prop_assert_eq!(shares.iter().map(|share| u32::from(*share)).sum::<u32>(), 100);
            for (count, share) in picks.iter().zip(shares) {
                // Compares the share with `count * 100 / total`, without a division.
                let off = i128::from(share) * i128::from(total) - i128::from(*count) * 100;
                prop_assert!(off.abs() < i128::from(total), "{:?} has the shares {:?}", picks, shares);
                prop_assert!(*count > 0 || share == 0, "an outcome without picks has no share");
            }
            for (a, b) in [(0, 1), (0, 2), (1, 2)] {
                prop_assert!((picks[a] > picks[b]) <= (shares[a] >= shares[b]));
                prop_assert!((picks[a] < picks[b]) <= (shares[a] <= shares[b]));
            }
        }
    }
}
