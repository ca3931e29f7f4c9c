use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{AddAssign, Sub};

use chrono::{DateTime, TimeDelta, Utc};

use super::{Board, Row};
use crate::domain::tally::{Counters, UserStats, difference};
use crate::domain::{Prediction, UserId};

/// Counts of the predictions of one user: for all matches, and for each board that is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserTally {
    pub stats: UserStats,
    /// The counts of the boards other than [`Board::GLOBAL`], which has the counts of all matches.
    pub boards: BTreeMap<Board, UserStats>,
    /// When the settlement began that last changed the user's points, for each board, in seconds since 1970.
    pub reached: BTreeMap<Board, i64>,
}

impl UserTally {
    // The prefixes of the attributes. The name of a board follows.
    const SETTLED: &str = "n:";
    const CORRECT: &str = "c:";
    const POINTS: &str = "p:";
    const EXACT: &str = "x:";
    const REACHED: &str = "r:";

    /// How long a board is built after it has closed, for changes that were made before.
    pub const BUILT_AFTER_CLOSE: TimeDelta = TimeDelta::hours(12);

    /// How long the counters of a board are kept after it has closed. Longer than it is built: a build must find the counters
    /// of all users.
    pub const KEPT_AFTER_CLOSE: TimeDelta = TimeDelta::hours(24);

    /// Returns what one prediction adds to the counters.
    #[must_use]
    pub fn of(row: &Prediction) -> Self {
        Self::change(None, Some(row))
    }

    /// Returns what a change of a prediction adds to the counters. A change after a board has closed adds nothing to it.
    #[must_use]
    pub fn change(old: Option<&Prediction>, new: Option<&Prediction>) -> Self {
        let mut tally = Self { stats: difference(UserStats::of, old, new), ..Self::default() };
        let settled_in = |row: &Prediction| row.settled_in;
        let Some(at) =
            [old, new].into_iter().flatten().filter_map(settled_in).map(|settled| settled.at).max()
        else {
            return tally;
        };
        for (row, sign) in [(old, -1), (new, 1)] {
            let Some((row, settled)) = row.and_then(|row| Some((row, row.settled_in?))) else { continue };
            let boards = Board::of_match(settled.tournament, settled.kick_off);
            for board in boards.filter(|board| *board != Board::GLOBAL && !board.is_closed(at)) {
                let counts = tally.boards.entry(board).or_default();
                *counts += UserStats::of(row).times(sign);
            }
        }
        tally.boards.retain(|_, counts| *counts != UserStats::default());
        let changed = tally.boards.iter().map(|(board, counts)| (*board, counts.points));
        let changed = changed.chain([(Board::GLOBAL, tally.stats.points)]);
        tally.reached =
            changed.filter(|(_, points)| *points != 0).map(|(board, _)| (board, at.timestamp())).collect();
        tally
    }

    /// Returns the row of the user on each board.
    pub fn rows(&self, user: UserId) -> impl Iterator<Item = (Board, Row)> + '_ {
        let boards = self.boards.iter().map(|(board, counts)| (*board, counts));
        boards.chain([(Board::GLOBAL, &self.stats)]).filter_map(move |(board, counts)| {
            let reached = self.reached.get(&board).and_then(|at| u32::try_from(*at).ok());
            Some((board, Row::of(user, counts, reached.unwrap_or(0))?))
        })
    }

    /// Returns the row of the user on a board. `None` if the user is not on it.
    #[must_use]
    pub fn row(&self, user: UserId, board: Board) -> Option<Row> {
        self.rows(user).find(|(of, _)| *of == board).map(|(_, row)| row)
    }

    /// Returns the boards for which there are counters, and that are still built.
    pub fn built_boards(&self, now: DateTime<Utc>) -> impl Iterator<Item = Board> + '_ {
        let global = (*self != Self::default()).then_some(Board::GLOBAL);
        let boards = self.boards.keys().copied().chain(global);
        boards.filter(move |board| !board.is_closed(now - Self::BUILT_AFTER_CLOSE))
    }

    /// Returns the boards on which the user's row differs from `other`.
    #[must_use]
    pub fn changed_boards(&self, other: &Self) -> Vec<Board> {
        // The user's id does not matter for the comparison.
        let rows = |tally: &Self| tally.rows(UserId(0)).collect::<BTreeMap<_, _>>();
        let (own, others) = (rows(self), rows(other));
        let boards: BTreeSet<Board> = own.keys().chain(others.keys()).copied().collect();
        boards.into_iter().filter(|board| own.get(board) != others.get(board)).collect()
    }

    /// Returns whether `name` is the name of a counter of a board that has closed. `kept` is how long counters are kept
    /// after that.
    #[must_use]
    pub fn is_closed(name: &str, now: DateTime<Utc>, kept: TimeDelta) -> bool {
        Self::board_of(name).is_some_and(|(_, board)| board.is_closed(now - kept))
    }

    /// Returns the prefix and the board of an attribute.
    fn board_of(name: &str) -> Option<(&str, Board)> {
        let (prefix, board) = name.split_at_checked(2)?;
        let is_known =
            [Self::SETTLED, Self::CORRECT, Self::POINTS, Self::EXACT, Self::REACHED].contains(&prefix);
        Some((prefix, board.parse().ok()?)).filter(|_| is_known)
    }
}

impl AddAssign for UserTally {
    fn add_assign(&mut self, other: Self) {
        self.stats += other.stats;
        for (board, counts) in other.boards {
            *self.boards.entry(board).or_default() += counts;
        }
        self.boards.retain(|_, counts| *counts != UserStats::default());
        for (board, at) in other.reached {
            let reached = self.reached.entry(board).or_insert(at);
            *reached = at.max(*reached);
        }
    }
}

impl Sub for UserTally {
    type Output = Self;

    fn sub(mut self, other: Self) -> Self {
        self.stats = self.stats - other.stats;
        for (board, counts) in other.boards {
            let own = self.boards.entry(board).or_default();
            *own = *own - counts;
        }
        self.boards.retain(|_, counts| *counts != UserStats::default());
        self
    }
}

impl Counters for UserTally {
    fn fields(&self) -> Vec<(Cow<'static, str>, i64)> {
        let boards = self.boards.iter().flat_map(|(board, counts)| {
            [
                (Self::SETTLED, counts.settled),
                (Self::CORRECT, counts.correct),
                (Self::POINTS, counts.points),
                (Self::EXACT, counts.exact),
            ]
            .map(|(prefix, count)| (format!("{prefix}{board}").into(), count))
        });
        self.stats.fields().into_iter().chain(boards).collect()
    }

    fn set(&mut self, name: &str, count: i64) {
        let Some((prefix, board)) = Self::board_of(name) else {
            self.stats.set(name, count);
            return;
        };
        if prefix == Self::REACHED {
            self.reached.insert(board, count);
            return;
        }
        let counts = self.boards.entry(board).or_default();
        match prefix {
            Self::SETTLED => counts.settled = count,
            Self::CORRECT => counts.correct = count,
            Self::POINTS => counts.points = count,
            _ => counts.exact = count,
        }
    }

    fn assigned(&self) -> Vec<(Cow<'static, str>, i64)> {
        self.reached.iter().map(|(board, at)| (format!("{}{board}", Self::REACHED).into(), *at)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::Pick;
    use crate::domain::prediction::{Confidence, Forecast, SettledIn, Stamp};

    fn row(points: Option<u32>) -> Prediction {
        Prediction {
            event_id: 9,
            user_id: UserId(7),
            forecast: Forecast::new(Pick::Home, None).unwrap(),
            confidence: Confidence::default(),
            created: Stamp::parse("1763208000000-00000000").unwrap(),
            changed: Stamp::parse("1763208000000-00000000").unwrap(),
            edits: 1,
            points,
            revision: 1,
            settled_in: None,
        }
    }

    fn settled(points: Option<u32>, tournament: u32, kick_off: &str, at: DateTime<Utc>) -> Prediction {
        let settled_in = SettledIn { tournament, kick_off: kick_off.parse().unwrap(), at };
        Prediction { settled_in: Some(settled_in), ..row(points) }
    }

    #[test]
    fn a_settled_prediction_counts_on_eight_boards_and_one_of_an_earlier_version_on_one() {
        let at = "2026-11-15T17:00:00Z".parse().unwrap();
        let tally = UserTally::of(&settled(Some(4), 7, "2026-11-15T15:00:00Z", at));
        let boards: Vec<String> = tally.rows(UserId(1)).map(|(board, _)| board.to_string()).collect();
        let periods = ["s2026", "m2026-11", "d2026-11-15"];
        let mut expected = periods.map(|period| format!("g.{period}")).to_vec();
        expected.push("t7.all".to_owned());
        expected.extend(periods.map(|period| format!("t7.{period}")));
        expected.push("g.all".to_owned());
        assert_eq!(boards, expected);
        assert_eq!(tally.reached.len(), 8);
        let earlier = UserTally::of(&row(Some(4)));
        assert_eq!((earlier.boards.len(), earlier.stats.points), (0, 4));
    }

    #[test]
    fn a_correction_after_a_period_has_closed_does_not_change_it() {
        let day = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let (kick_off, matchday) = ("2026-11-15T15:00:00Z", "g.d2026-11-15".parse().unwrap());
        let first = settled(Some(4), 7, kick_off, day("2026-11-15T17:00:00Z"));
        for (at, change) in [("2026-11-18T23:59:59Z", -4), ("2026-11-19T00:00:00Z", 0)] {
            let tally = UserTally::change(Some(&first), Some(&settled(Some(0), 7, kick_off, day(at))));
            assert_eq!(tally.boards.get(&matchday).map_or(0, |counts| counts.points), change, "{at}");
            assert_eq!(tally.stats.points, -4);
        }
    }

    #[test]
    fn the_names_of_counters_tell_whether_their_board_has_closed() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().unwrap();
        let closed = |name, now| UserTally::is_closed(name, at(now), UserTally::KEPT_AFTER_CLOSE);
        assert!(!closed("p:g.d2026-11-15", "2026-11-19T23:59:59Z"));
        for name in ["p:g.d2026-11-15", "n:t7.d2026-11-15", "r:g.d2026-11-15"] {
            assert!(closed(name, "2026-11-20T00:00:00Z"), "{name}");
        }
        for name in ["p:g.all", "points", "version", "seen:1-a", "é:g.d2026-11-15", "q:g.d2026-11-15"] {
            assert!(!closed(name, "2036-11-19T12:00:00Z"), "{name}");
        }
    }

    proptest! {
        /// However often a match is settled, corrected, moved and voided: all changes together give the counts of the last
        /// row, and the counters are the same after they were stored.
        #[test]
        fn all_changes_of_a_prediction_add_up_to_its_last_row(
            rows in prop::collection::vec((prop::option::of(0..=4_u32), 1..3_u32, 0..4_usize), 1..8)
        ) {
            const KICK_OFFS: [&str; 4] =
                ["2026-12-30T20:00:00Z", "2026-12-31T23:59:59Z", "2027-01-01T00:00:00Z", "2027-01-02T03:00:00Z"];
            let first = "2026-12-31T00:00:00Z".parse::<DateTime<Utc>>().unwrap();
            let (mut sum, mut old) = (UserTally::default(), None);
            for (hours, (points, tournament, kick_off)) in (0..).zip(&rows) {
                let at = first + TimeDelta::hours(hours);
                let new = settled(*points, *tournament, KICK_OFFS[*kick_off], at);
                sum += UserTally::change(old.as_ref(), Some(&new));
                old = Some(new);
            }
            let last = UserTally::of(&old.unwrap());
            prop_assert_eq!((&sum.stats, &sum.boards), (&last.stats, &last.boards));
            let mut stored = UserTally::default();
            for (name, count) in sum.fields().into_iter().chain(sum.assigned()) {
                stored.set(&name, count);
            }
            prop_assert_eq!(stored, sum);
        }
    }
}
