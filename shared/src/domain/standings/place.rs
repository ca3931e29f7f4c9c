use std::cmp::{Ordering, Reverse};

use serde::{Deserialize, Serialize};

use crate::domain::UserId;
use crate::domain::tally::UserStats;

/// The place of a user in the order of a board: more points first, then more exact scores, then who reached the points first.
/// The id decides between users who are equal in all of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub points: u32,
    pub exact: u32,
    /// When the settlement began that last changed the user's points, in seconds since 1970.
    pub reached: u32,
    pub user: UserId,
}

impl Place {
    /// Returns the place before all users with so many points.
    #[must_use]
    pub fn first_with(points: u32) -> Self {
        Self { points, exact: u32::MAX, reached: 0, user: UserId(0) }
    }

    fn order(&self) -> (Reverse<u32>, Reverse<u32>, u32, UserId) {
        (Reverse(self.points), Reverse(self.exact), self.reached, self.user)
    }
}

impl Ord for Place {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The row of a user on a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    pub place: Place,
    pub correct: u32,
    pub settled: u32,
    /// The rank before the last settlement. `None` if the user was not on the board.
    pub previous: Option<u32>,
}

impl Row {
    /// Returns the row of a user with these counts. `None` without settled predictions: such a user is not on the board.
    #[must_use]
    pub fn of(user: UserId, stats: &UserStats, reached: u32) -> Option<Self> {
        Some(Self::of_member(user, stats, reached)).filter(|row| row.settled > 0)
    }

    /// Returns the row of a room's member with these counts. Members are in the table also without settled predictions.
    #[must_use]
    pub fn of_member(user: UserId, stats: &UserStats, reached: u32) -> Self {
        let count = |count: i64| u32::try_from(count).unwrap_or(0);
        let place = Place { points: count(stats.points), exact: count(stats.exact), reached, user };
        Self { place, correct: count(stats.correct), settled: count(stats.settled), previous: None }
    }

    #[must_use]
    pub fn stats(&self) -> UserStats {
        UserStats {
            settled: self.settled.into(),
            correct: self.correct.into(),
            points: self.place.points.into(),
            exact: self.place.exact.into(),
        }
    }
}
