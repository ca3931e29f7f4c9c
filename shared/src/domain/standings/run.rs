//! Sorted rows of some of the users on a board.
//!
//! A run is stored in chunks, and merged with the runs of the other users while its rows are decoded. The rows of a run are
//! stored as differences, because neighbours have about the same points: 10 bytes for a row instead of 32 in memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use super::table::CorruptPart;
use super::{Place, Row};
use crate::domain::UserId;

/// The maximum size of a chunk in bytes. An item of DynamoDB has at most 400 KB.
const CHUNK_SIZE: usize = 350_000;

/// The maximum size of an encoded row: six numbers of up to 5 bytes.
const MAX_ROW_SIZE: usize = 30;

/// A row, compared with the row before it in the same chunk.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Difference {
    fewer_points: u32,
    exact: u32,
    reached_later: i64,
    user: u32,
    correct: u32,
    settled: u32,
}

/// Encodes rows in the order of the board. The first row of each chunk is stored without the row before it, so each chunk can
/// be decoded alone. [`Row::previous`] is not stored.
pub fn encode(rows: &[Row]) -> Result<Vec<Vec<u8>>, CorruptPart> {
    let mut chunks = Vec::new();
    let mut chunk = Vec::new();
    let mut before = START;
    for row in rows {
        if chunk.len() + MAX_ROW_SIZE > CHUNK_SIZE {
            chunks.push(std::mem::take(&mut chunk));
            before = START;
        }
        let place = row.place;
        let difference = Difference {
            fewer_points: before.points.checked_sub(place.points).ok_or(CorruptPart)?,
            exact: place.exact,
            reached_later: i64::from(place.reached) - i64::from(before.reached),
            user: place.user.0,
            correct: row.correct,
            settled: row.settled,
        };
        chunk = postcard::to_extend(&difference, chunk).map_err(|_| CorruptPart)?;
        before = place;
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    Ok(chunks)
}

/// The place before the first row of a chunk.
const START: Place = Place { points: u32::MAX, exact: 0, reached: 0, user: UserId(0) };

/// Decodes the rows of a run, one after the other.
#[derive(Debug)]
pub struct Rows<B> {
    chunks: std::vec::IntoIter<B>,
    chunk: Option<B>,
    /// The position in the current chunk.
    at: usize,
    before: Place,
}

impl<B: AsRef<[u8]>> Rows<B> {
    /// `chunks` are all chunks of a run in order.
    #[must_use]
    pub fn new(chunks: Vec<B>) -> Self {
        Self { chunks: chunks.into_iter(), chunk: None, at: 0, before: START }
    }

    fn decode(&mut self) -> Result<Option<Row>, CorruptPart> {
        while self.chunk.as_ref().is_none_or(|chunk| chunk.as_ref().len() <= self.at) {
            let Some(next) = self.chunks.next() else { return Ok(None) };
            (self.chunk, self.at, self.before) = (Some(next), 0, START);
        }
        let bytes = self.chunk.as_ref().and_then(|chunk| chunk.as_ref().get(self.at..)).unwrap_or_default();
        let (difference, rest) = postcard::take_from_bytes::<Difference>(bytes).map_err(|_| CorruptPart)?;
        self.at += bytes.len() - rest.len();
        let reached = i64::from(self.before.reached).checked_add(difference.reached_later);
        let place = Place {
            points: self.before.points.checked_sub(difference.fewer_points).ok_or(CorruptPart)?,
            exact: difference.exact,
            reached: reached.and_then(|at| u32::try_from(at).ok()).ok_or(CorruptPart)?,
            user: UserId(difference.user),
        };
        self.before = place;
        let Difference { correct, settled, .. } = difference;
        Ok(Some(Row { place, correct, settled, previous: None }))
    }
}

impl<B: AsRef<[u8]>> Iterator for Rows<B> {
    type Item = Result<Row, CorruptPart>;

    fn next(&mut self) -> Option<Self::Item> {
        self.decode().transpose()
    }
}

/// Merges runs into the order of the board.
#[derive(Debug)]
pub struct Merged<I> {
    runs: Vec<I>,
    /// The next row of each run that has one.
    next: BinaryHeap<Reverse<(Place, usize, Rest)>>,
    failed: bool,
}

/// What a row has besides its place.
type Rest = (u32, u32);

impl<I: Iterator<Item = Result<Row, CorruptPart>>> Merged<I> {
    #[must_use]
    pub fn new(runs: Vec<I>) -> Self {
        let mut merged = Self { next: BinaryHeap::with_capacity(runs.len()), runs, failed: false };
        for run in 0..merged.runs.len() {
            merged.advance(run);
        }
        merged
    }

    /// Puts the next row of a run into the heap.
    fn advance(&mut self, run: usize) {
        match self.runs.get_mut(run).and_then(Iterator::next) {
            Some(Ok(row)) => self.next.push(Reverse((row.place, run, (row.correct, row.settled)))),
            Some(Err(CorruptPart)) => self.failed = true,
            None => {}
        }
    }
}

impl<I: Iterator<Item = Result<Row, CorruptPart>>> Iterator for Merged<I> {
    type Item = Result<Row, CorruptPart>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return Some(Err(CorruptPart));
        }
        let Reverse((place, run, (correct, settled))) = self.next.pop()?;
        self.advance(run);
        Some(Ok(Row { place, correct, settled, previous: None }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::table::Table;
    use super::*;

    /// Rows with many ties, in order.
    fn rows() -> impl Strategy<Value = Vec<Row>> {
        let some = (0..9_u32, 0..3_u32, 0..3_u32, any::<u32>());
        prop::collection::vec(some, 0..500).prop_map(|rows| {
            let row = |(user, (points, exact, reached, settled)): (u32, (u32, u32, u32, u32))| {
                let place = Place { points, exact, reached, user: UserId(user) };
                Row { place, correct: exact, settled, previous: None }
            };
            Table::new((1..).zip(rows).map(row).collect()).rows().collect()
        })
    }

    proptest! {
        #[test]
        fn the_runs_of_all_groups_merge_into_the_whole_board(rows in rows(), groups in 1..9_u32) {
            let runs = (0..groups).map(|group| {
                let own = rows.iter().filter(|row| row.place.user.0 % groups == group).copied();
                Rows::new(encode(&own.collect::<Vec<_>>()).unwrap())
            });
            let merged: Result<Vec<Row>, CorruptPart> = Merged::new(runs.collect()).collect();
            prop_assert_eq!(merged, Ok(rows));
        }
    }

    #[test]
    fn a_large_run_has_several_chunks_that_fit_into_items() {
        let row = |user: u32| {
            let place = Place {
                points: u32::MAX - user,
                exact: u32::MAX,
                reached: user % 2 * u32::MAX,
                user: UserId(u32::MAX - user),
            };
            Row { place, correct: u32::MAX, settled: u32::MAX, previous: None }
        };
        let rows: Vec<Row> = (0..40_000).map(row).collect();
        let chunks = encode(&rows).unwrap();
        assert!(chunks.len() > 2 && chunks.iter().all(|chunk| chunk.len() <= CHUNK_SIZE));
        let decoded: Result<Vec<Row>, _> = Rows::new(chunks).collect();
        assert_eq!(decoded, Ok(rows));
    }

    #[test]
    fn a_corrupt_run_is_an_error_and_not_a_shorter_board() {
        let place = Place { points: 3, exact: 1, reached: 9, user: UserId(7) };
        let row = Row { place, correct: 1, settled: 2, previous: None };
        let mut chunk = encode(&[row, row]).unwrap().remove(0);
        chunk.pop();
        let merged: Result<Vec<Row>, _> = Merged::new(vec![Rows::new(vec![chunk])]).collect();
        assert_eq!(merged, Err(CorruptPart));
        assert_eq!(encode(&[row, Row { place: Place { points: 4, ..place }, ..row }]), Err(CorruptPart));
    }
}
