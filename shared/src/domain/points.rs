//! The points of a prediction. The rules have a version number: increase it whenever the rules change.

use super::catalog::Score;
use super::prediction::{Forecast, Pick};

/// How many points each kind of correct prediction earns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// The version of the rules, stored with each settlement, so that its points can be explained later.
    pub version: u32,
    /// Points for the exact score.
    pub exact: u32,
    /// Points for the right winner and goal difference. Not for draws: every draw has the same difference.
    pub difference: u32,
    /// Points for the right winner, or for a correctly predicted draw.
    pub outcome: u32,
}

/// The rules in force.
pub const RULES: Rules = Rules { version: 1, exact: 4, difference: 3, outcome: 2 };

/// What a prediction got right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Exact,
    Difference,
    Outcome,
    Miss,
}

impl Verdict {
    /// Compares a forecast with the result after 90 minutes.
    #[must_use]
    pub fn of(forecast: &Forecast, result: Score) -> Self {
        if forecast.pick() != Pick::of(result) {
            return Self::Miss;
        }
        match forecast.score() {
            Some(score) if score == result => Self::Exact,
            Some(score) if forecast.pick() != Pick::Draw && difference(score) == difference(result) => {
                Self::Difference
            }
            _ => Self::Outcome,
        }
    }
}

impl Rules {
    /// Returns the points of `forecast` for a match with this `result` after 90 minutes.
    #[must_use]
    pub fn points(&self, forecast: &Forecast, result: Score) -> u32 {
        match Verdict::of(forecast, result) {
            Verdict::Exact => self.exact,
            Verdict::Difference => self.difference,
            Verdict::Outcome => self.outcome,
            Verdict::Miss => 0,
        }
    }
}

fn difference(score: Score) -> i32 {
    i32::from(score.home) - i32::from(score.away)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn score(home: u16, away: u16) -> Score {
        Score { home, away }
    }

    fn forecast(pick: Pick, score: Option<Score>) -> Forecast {
        Forecast::new(pick, score).unwrap()
    }

    /// The examples include every row of the table in `docs/points.md`.
    #[test]
    fn documented_examples_earn_the_documented_points() {
        use Pick::{Away, Draw, Home};
        for (pick, predicted, result, points) in [
            (Home, Some((2, 1)), (2, 1), 4),
            (Home, Some((2, 1)), (3, 2), 3),
            (Home, Some((2, 1)), (3, 1), 2),
            (Home, None, (2, 1), 2),
            (Home, Some((2, 1)), (1, 1), 0),
            (Home, Some((2, 1)), (1, 2), 0),
            (Draw, Some((1, 1)), (1, 1), 4),
            (Draw, Some((1, 1)), (2, 2), 2),
            (Draw, Some((0, 0)), (0, 0), 4),
            (Draw, None, (0, 0), 2),
            (Draw, None, (1, 0), 0),
            (Away, Some((0, 3)), (0, 3), 4),
            (Away, Some((0, 3)), (1, 4), 3),
            (Away, Some((0, 3)), (0, 1), 2),
            (Away, None, (0, 1), 2),
            (Away, Some((0, 3)), (3, 0), 0),
        ] {
            let predicted = predicted.map(|(home, away)| score(home, away));
            let earned = RULES.points(&forecast(pick, predicted), score(result.0, result.1));
            assert_eq!(earned, points, "{pick:?} {predicted:?}, {result:?}");
        }
    }

    fn scores() -> impl Strategy<Value = Score> {
        (0..=99u16, 0..=99u16).prop_map(|(home, away)| score(home, away))
    }

    fn mirrored(of: Score) -> Score {
        score(of.away, of.home)
    }

    proptest! {
        #[test]
        fn only_the_right_outcome_earns_points(predicted in scores(), result in scores()) {
            let earned = RULES.points(&forecast(Pick::of(predicted), Some(predicted)), result);
            prop_assert_eq!(earned > 0, Pick::of(predicted) == Pick::of(result));
            prop_assert_eq!(earned == 4, predicted == result);
            prop_assert!([0, 2, 3, 4].contains(&earned));
        }

        #[test]
        fn the_right_winner_and_goal_difference_earn_three_points(predicted in scores(), result in scores()) {
            let earned = RULES.points(&forecast(Pick::of(predicted), Some(predicted)), result);
            let margin = |s: Score| i32::from(s.home) - i32::from(s.away);
            let same = margin(predicted) == margin(result) && margin(result) != 0 && predicted != result;
            prop_assert_eq!(earned == 3, same);
        }

        #[test]
        fn a_pick_without_a_score_earns_two_points_or_none(predicted in scores(), result in scores()) {
            let pick = Pick::of(predicted);
            let earned = RULES.points(&forecast(pick, None), result);
            prop_assert_eq!(earned, if pick == Pick::of(result) { 2 } else { 0 });
        }

        #[test]
        fn a_score_never_earns_less_than_the_pick_alone(predicted in scores(), result in scores()) {
            let pick = Pick::of(predicted);
            let with = RULES.points(&forecast(pick, Some(predicted)), result);
            prop_assert!(with >= RULES.points(&forecast(pick, None), result));
        }

        #[test]
        fn swapping_home_and_away_does_not_change_the_points(predicted in scores(), result in scores()) {
            let here = RULES.points(&forecast(Pick::of(predicted), Some(predicted)), result);
            let (predicted, result) = (mirrored(predicted), mirrored(result));
            prop_assert_eq!(here, RULES.points(&forecast(Pick::of(predicted), Some(predicted)), result));
        }
    }
}
