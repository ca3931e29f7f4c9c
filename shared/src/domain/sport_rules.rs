//! What users can predict in a sport.

use super::Pick;
use super::catalog::Score;

/// What the results of a sport can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SportRules {
    /// The maximum that a user can predict for one team.
    pub max_score: u16,
    pub has_draws: bool,
}

/// A prediction that no match of the sport can fulfil.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Impossible {
    #[error("the sport has no draws")]
    DrawnPick,
    #[error("the sport has no draws, but both teams have the same score")]
    DrawnScore,
    #[error("the score is above {0}")]
    TooHigh(u16),
}

impl SportRules {
    /// Returns the rules of the sport with this slug.
    #[must_use]
    pub fn of(sport: &str) -> Self {
        match sport {
            "basketball" => Self { max_score: Score::MAX_PREDICTED, has_draws: false },
            _ => Self { max_score: Score::MAX_GOALS, has_draws: true },
        }
    }

    /// Checks that a match can end as predicted.
    pub fn check(self, pick: Pick, score: Option<Score>) -> Result<(), Impossible> {
        if pick == Pick::Draw && !self.has_draws {
            return Err(Impossible::DrawnPick);
        }
        match score {
            Some(score) if score.home.max(score.away) > self.max_score => {
                Err(Impossible::TooHigh(self.max_score))
            }
            Some(score) if Pick::of(score) == Pick::Draw && !self.has_draws => Err(Impossible::DrawnScore),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_draws_follow_the_sport() {
        let check = |sport, pick, (home, away)| SportRules::of(sport).check(pick, Some(Score { home, away }));
        for sport in ["football", "handball", ""] {
            assert_eq!(check(sport, Pick::Home, (99, 0)), Ok(()));
            assert_eq!(check(sport, Pick::Draw, (99, 99)), Ok(()));
            assert_eq!(check(sport, Pick::Home, (100, 0)), Err(Impossible::TooHigh(99)));
            assert_eq!(check(sport, Pick::Away, (0, 100)), Err(Impossible::TooHigh(99)));
            assert_eq!(SportRules::of(sport).check(Pick::Draw, None), Ok(()));
        }
        assert_eq!(check("basketball", Pick::Home, (299, 298)), Ok(()));
        assert_eq!(check("basketball", Pick::Home, (300, 0)), Err(Impossible::TooHigh(299)));
        assert_eq!(check("basketball", Pick::Home, (80, 80)), Err(Impossible::DrawnScore));
        assert_eq!(SportRules::of("basketball").check(Pick::Draw, None), Err(Impossible::DrawnPick));
    }
}
