use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use touchline::domain::UserId;
use touchline::domain::room::League;
use touchline::domain::standings::Board;
use touchline::domain::standings::table::RankedRow;
use touchline::storage::standings::{OwnRow, Window};
use touchline::storage::{Reads, StoreError};

use super::oracle::{Counts, History, Line, Period, Selection, sorted};
use super::report::Played;
use super::world::World;
use crate::process::Process;

/// After this time, every claim of a build has ended, and the slots of builds that crashed are free.
const CLAIMS_END: Duration = Duration::from_mins(11);

#[expect(clippy::needless_pass_by_value, reason = "the argument of `map_err`")]
fn failed(error: StoreError) -> String {
    format!("the store failed: {error}")
}

fn lines(rows: &[RankedRow]) -> Vec<Line> {
    let line = |ranked: &RankedRow| Line {
        rank: ranked.rank,
        user: ranked.row.place.user.0,
        counts: Counts {
            points: ranked.row.place.points,
            exact: ranked.row.place.exact,
            correct: ranked.row.correct,
            settled: ranked.row.settled,
            reached: ranked.row.place.reached.into(),
        },
    };
    rows.iter().map(line).collect()
}

fn board_of(selection: &Selection) -> Board {
    let scope = selection.tournament.map_or_else(|| "g".to_owned(), |id| format!("t{id}"));
    format!("{scope}.{}", selection.period.name()).parse().expect("the name of the board is valid")
}

impl World {
    fn history(&self) -> History {
        History::read(&self.streams.records(&self.config.tables.predictions))
    }

    /// Returns the boards on which a match has ever counted.
    pub fn selections(&self) -> BTreeSet<Selection> {
        self.history().selections(&self.truth().states)
    }

    /// Stores the expected rows of each board that has closed since the last call. A closed board must not change.
    pub fn close_boards(&self) {
        let (now, history) = (self.clock.time(), self.history());
        let mut truth = self.truth();
        for selection in history.selections(&truth.states) {
            if selection.period.is_closed(now) && !truth.closed.contains_key(&selection) {
                let mut counts = history.counts(&truth.states, &selection);
                counts.retain(|user, _| !truth.unranked.contains(user));
                truth.closed.insert(selection, sorted(counts));
            }
        }
    }

    /// Returns the rows that a board must have.
    fn expected(&self, history: &History, selection: &Selection) -> Vec<Line> {
        let truth = self.truth();
        if let Some(closed) = truth.closed.get(selection) {
            return closed.clone();
        }
        let mut counts = history.counts(&truth.states, selection);
        counts.retain(|user, _| !truth.unranked.contains(user));
        sorted(counts)
    }

    /// Compares every board and the table of the room with the oracle.
    pub async fn check(&self) -> Result<Played, String> {
        self.close_boards();
        let history = self.history();
        {
            let truth = self.truth();
            let last = truth.matches.iter().map(|(id, row)| (*id, row.revision)).collect();
            history.check_points(&truth.states, &last, &truth.predictions)?;
        }
        let settled = history.settlements();
        let before = std::mem::replace(&mut self.truth().settled, settled);
        let mut played = Played { settlements: settled - before, ..Played::default() };
        let selections: Vec<Selection> = history.selections(&self.truth().states).into_iter().collect();
        for selection in &selections {
            let expected = self.expected(&history, selection);
            self.check_board(selection, &expected).await?;
            played.boards += 1;
            played.rows += expected.len() as u64;
        }
        if !selections.is_empty() {
            let selection = self.dice.choose(&selections);
            self.check_reads(selection, &self.expected(&history, selection)).await?;
        }
        if self.room.is_some() {
            tokio::time::sleep(CLAIMS_END).await;
            let mut periods = vec![Period::All];
            if !selections.is_empty() && self.league() != Some(League::Match) {
                periods.push(self.dice.choose(&selections).period);
            }
            for period in periods {
                played.rows += self.check_table(&history, period).await?;
                played.boards += 1;
            }
        }
        Ok(played)
    }

    async fn check_board(&self, selection: &Selection, expected: &[Line]) -> Result<(), String> {
        let board = board_of(selection);
        let built = self.store.built_board(board, Reads::Consistent).await.map_err(failed)?;
        let rows = match &built {
            Some(built) => self.store.board_rows(built).await.map_err(failed)?,
            None => Vec::new(),
        };
        let found = lines(&rows);
        if found != expected {
            return Err(format!("{board}: {found:?}, the oracle has {expected:?}"));
        }
        Ok(())
    }

    /// Reads a board as users do: the rank of their points, the rows around their own, and their row on a closed board.
    async fn check_reads(&self, selection: &Selection, expected: &[Line]) -> Result<(), String> {
        let board = board_of(selection);
        let Some(built) = self.store.built_board(board, Reads::Consistent).await.map_err(failed)? else {
            return Ok(());
        };
        let rows = self.store.board_rows(&built).await.map_err(failed)?;
        for (at, (line, ranked)) in expected.iter().zip(&rows).enumerate() {
            let rank = self.store.rank(board, line.counts.points).await.map_err(failed)?;
            if rank != Some(line.rank) {
                return Err(format!(
                    "{board}: user {} has rank {rank:?} instead of {}",
                    line.user, line.rank
                ));
            }
            let around = Window::AroundOwn { each_side: 1 };
            let window =
                self.store.board_window(board, Some(built.clone()), around, Some(ranked.row.place)).await;
            let Some((_, window)) = window.map_err(failed)? else {
                return Err(format!("{board} has no rows"));
            };
            let near = &rows[at.saturating_sub(1)..(at + 2).min(rows.len())];
            if window.rows != near || window.own != Some(OwnRow::Built(*ranked)) {
                return Err(format!("{board}: {window:?} is around user {}, expected {near:?}", line.user));
            }
            if built.has_users {
                let row = self.store.closed_row(&built, UserId(line.user)).await.map_err(failed)?;
                if row != Some(ranked.row) {
                    return Err(format!("{board}: the closed row of user {} is {row:?}", line.user));
                }
            }
        }
        Ok(())
    }

    /// Compares the table of the room with the oracle. Returns the number of its rows.
    async fn check_table(&self, history: &History, period: Period) -> Result<u64, String> {
        let name = period.name().parse().expect("the name of the period is valid");
        // The first reader may crash while building the table. A later one builds it.
        let first = Process::new("leaderboards".to_owned()).run(self.read_table(name)).await;
        self.trace.line(format_args!("table {} -> {:?}", period.name(), first.map(|read| read.is_ok())));
        tokio::time::sleep(CLAIMS_END).await;
        let built = self.read_table(name).await.map_err(failed)?;
        let rows = match &built {
            Some(built) => self.store.board_rows(built).await.map_err(failed)?,
            None => Vec::new(),
        };
        let found = lines(&rows);
        let league = self.room.as_ref().map(|room| (room.league(), room.event_id));
        let selection = match league {
            Some((League::Match, event)) => Selection { tournament: None, event, period },
            Some((League::Tournament, Some(event))) => {
                let tournament = self.truth().matches[&event].tournament_id;
                Selection { tournament: Some(tournament), event: None, period }
            }
            _ => Selection { tournament: None, event: None, period },
        };
        let is_closed = period.is_closed(self.clock.time());
        let counts: BTreeMap<u32, Counts> = if is_closed {
            self.expected(history, &selection).iter().map(|line| (line.user, line.counts)).collect()
        } else {
            history.counts(&self.truth().states, &selection)
        };
        // After the period has closed, the members at its last build are unknown: users have joined and left since. So
        // the check takes the users who are in the table, and compares their rows. It does not detect a missing row.
        let members: Vec<u32> = if is_closed {
            found.iter().map(|line| line.user).collect()
        } else {
            let truth = self.truth();
            truth.members.difference(&truth.unranked).copied().collect()
        };
        let row = |user: &u32| (*user, counts.get(user).copied().unwrap_or_default());
        let expected = sorted(members.iter().map(row));
        // Periods without results have no tables.
        let is_without_results = built.is_none() && expected.iter().all(|line| line.counts.settled == 0);
        if found != expected && !is_without_results {
            return Err(format!(
                "the table of the room, {}: {found:?}, the oracle has {expected:?}",
                period.name()
            ));
        }
        Ok(found.len() as u64)
    }
}
