//! A built board: the sorted rows of all users in blocks, an index of the blocks, and the number of users by points.
//!
//! The size of each part is limited, so a rank, a page and the neighbours of a user cost the same on a board of a thousand
//! and of ten million users:
//!
//! - A rank needs the [`Head`] and one part of [`Ranks`]: users with the same points share a rank, so the number of users
//!   with more points gives it.
//! - A place in the order needs the head, one [`Index`] and one [`Block`]: a tree of three levels. All blocks but the last
//!   have the same number of rows, so the number of a block gives the position of its rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::previous::Previous;
use super::{Place, Row};
use crate::domain::UserId;

/// The number of rows in a block. A block of the largest rows has less than 4 KB, which one read unit covers.
pub const ROWS_PER_BLOCK: usize = 140;

/// The number of blocks in an index. The index of blocks with up to 16,000 points has less than 4 KB, and so has the head of a
/// board of ten million users.
pub const BLOCKS_PER_INDEX: usize = 260;

/// The number of different points in a part of the ranks.
pub const POINTS_PER_PART: u32 = 1_000;

/// A part of a board that is not encoded as this version expects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a part of a board cannot be read")]
pub struct CorruptPart;

/// Encodes a part of a board.
pub fn encode<T: Serialize>(part: &T) -> Result<Vec<u8>, CorruptPart> {
    postcard::to_allocvec(part).map_err(|_| CorruptPart)
}

/// Decodes a part of a board.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, CorruptPart> {
    postcard::from_bytes(bytes).map_err(|_| CorruptPart)
}

/// What readers need to know about a built board.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The number of users on the board.
    pub total: u32,
    /// The most points of a user.
    pub most_points: u32,
    /// The latest [`Place::reached`] of this build and all before it.
    pub latest: u32,
    /// The first place of each index.
    pub indexes: Vec<Place>,
    /// What the table of a room was built from. `None` for other boards.
    pub made_of: Option<MadeOf>,
}

/// What the table of a room was built from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeOf {
    /// The tournament whose matches count, and the match and its number of shards if only one counts.
    pub tournament: Option<u32>,
    pub event: Option<(u32, u8)>,
    /// The build of the leaderboard over the same matches. 0 if only one match counts.
    pub build: u64,
    /// The revision of the match's result that is settled.
    pub revision: u32,
    /// The number of members that the table shows: all but the suspended ones.
    pub members: i64,
    /// The version of the room's counters. It also grows when a member predicts, is active or chooses a team.
    pub version: i64,
}

/// How much of what a table was built from has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Nothing,
    /// Perhaps nothing that the table shows.
    Perhaps,
    Rows,
}

impl MadeOf {
    /// Compares with what a table that is built now would be made of. A lower number comes from a stale read.
    #[must_use]
    pub fn changed(&self, now: &Self) -> Changed {
        let is_same = (self.tournament, self.event) == (now.tournament, now.event);
        let is_newer = now.version > self.version;
        if !is_same
            || now.revision > self.revision
            || now.build > self.build
            || (is_newer && now.members != self.members)
        {
            Changed::Rows
        } else if is_newer {
            Changed::Perhaps
        } else {
            Changed::Nothing
        }
    }
}

/// The first place of each block, of some consecutive blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index(pub Vec<Place>);

/// Consecutive rows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The rank of the first row.
    rank: u32,
    rows: Vec<Row>,
}

/// A row with its rank and its position from 0. Users with the same points have the same rank, but not the same position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankedRow {
    pub position: usize,
    pub rank: u32,
    pub row: Row,
}

impl RankedRow {
    /// Returns how many places the user has moved up since the last settlement. Negative if the user moved down.
    #[must_use]
    pub fn moved(&self) -> Option<i64> {
        self.row.previous.map(|previous| i64::from(previous) - i64::from(self.rank))
    }
}

/// How many users have how many points, for [`POINTS_PER_PART`] consecutive points.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranks {
    /// The number of users with more points than any of this part.
    above: u32,
    /// The number of users for each number of points, fewest points first.
    users: Vec<u32>,
}

impl Ranks {
    /// Returns the number of the part that has so many points.
    #[must_use]
    pub fn part_of(points: u32) -> u32 {
        points / POINTS_PER_PART
    }

    /// Returns the rank of a user with so many points.
    #[must_use]
    pub fn rank(&self, points: u32) -> u32 {
        let more = (points % POINTS_PER_PART + 1) as usize;
        1 + self.above + self.users.iter().skip(more).sum::<u32>()
    }
}

/// The number of user ids in a part of [`Users`].
const IDS_PER_PART: u32 = 128;

/// The rows of users with consecutive ids, on a board that has closed. The counters of a closed board are removed from the
/// statistics of the users, so this is the only way from a user to the row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Users(Vec<Row>);

impl Users {
    /// Returns the number of the part that has a user.
    #[must_use]
    pub fn part_of(user: UserId) -> u32 {
        user.0 / IDS_PER_PART
    }

    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.0.iter().copied()
    }

    #[must_use]
    pub fn row(&self, user: UserId) -> Option<Row> {
        self.rows().find(|row| row.place.user == user)
    }
}

/// The rows of a board by user: 32 bytes for each.
#[derive(Debug, Clone, Default)]
pub struct UserParts(BTreeMap<u32, Users>);

impl UserParts {
    pub fn add(&mut self, row: Row) {
        self.0.entry(Users::part_of(row.place.user)).or_default().0.push(row);
    }

    /// Returns all parts that have rows, with their numbers.
    pub fn into_parts(self) -> impl Iterator<Item = (u32, Users)> {
        self.0.into_iter()
    }
}

impl Block {
    /// Returns the rows with their ranks. `number` is the number of the block.
    pub fn ranked(&self, number: usize) -> impl Iterator<Item = RankedRow> + '_ {
        let first = number * ROWS_PER_BLOCK;
        let (mut rank, mut points) = (self.rank, self.rows.first().map_or(0, |row| row.place.points));
        self.rows.iter().enumerate().map(move |(at, row)| {
            if row.place.points != points {
                (rank, points) = (count(first + at) + 1, row.place.points);
            }
            RankedRow { position: first + at, rank, row: *row }
        })
    }
}

/// Returns which of some consecutive parts has a place or would have it: the last that begins at or before it. `firsts` are
/// the first places of the parts.
#[must_use]
pub fn part_with(firsts: &[Place], place: &Place) -> usize {
    firsts.partition_point(|first| first <= place).saturating_sub(1)
}

/// The rows of a board in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    rows: Vec<Row>,
    latest: u32,
    made_of: Option<MadeOf>,
}

impl Table {
    /// Sorts rows.
    #[must_use]
    pub fn new(mut rows: Vec<Row>) -> Self {
        rows.sort_unstable_by_key(|row| row.place);
        let latest = rows.iter().map(|row| row.place.reached).max().unwrap_or(0);
        Self { rows, latest, made_of: None }
    }

    /// Sets what the table of a room was built from.
    #[must_use]
    pub fn with_made_of(self, made_of: MadeOf) -> Self {
        Self { made_of: Some(made_of), ..self }
    }

    #[must_use]
    pub fn made_of(&self) -> Option<MadeOf> {
        self.made_of
    }

    pub fn ranked(&self) -> impl Iterator<Item = RankedRow> + '_ {
        let (mut rank, mut points) = (1, None);
        self.rows.iter().enumerate().map(move |(position, row)| {
            if points != Some(row.place.points) {
                (rank, points) = (count(position) + 1, Some(row.place.points));
            }
            RankedRow { position, rank, row: *row }
        })
    }

    /// Sets the rank that each user had before the last settlement. `before` are the rows of the earlier build of the board,
    /// and `latest` is its [`Head::latest`].
    pub fn compare_with(&mut self, before: impl Iterator<Item = RankedRow>, latest: u32) {
        let mut previous = Previous::new(self.latest, latest);
        self.latest = self.latest.max(latest);
        for earlier in before {
            previous.add(earlier.row.place.user, earlier.rank, earlier.row.previous);
        }
        for row in &mut self.rows {
            row.previous = previous.rank(row.place.user);
        }
    }

    /// Returns the rows in order.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.rows.iter().copied()
    }

    /// Returns the latest [`Place::reached`] of this build and all before it.
    #[must_use]
    pub fn latest(&self) -> u32 {
        self.latest
    }
}

/// Packs the rows of a board into its parts, one row after the other, without holding all of them in memory.
#[derive(Debug, Default)]
pub struct Packer {
    /// The rows of the block that is not full yet, and the rank of the first of them.
    rows: Vec<Row>,
    first_rank: u32,
    /// The number of rows so far, and the rank of the last one.
    total: usize,
    rank: u32,
    /// The number of users for each number of points.
    users: Vec<u32>,
    /// The first place of each block.
    firsts: Vec<Place>,
}

/// The parts of a board that are known after its last row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// The last block, unless the board has no rows.
    pub block: Option<Block>,
    pub indexes: Vec<Index>,
    /// The parts of the ranks, from 0 points on.
    pub ranks: Vec<Ranks>,
    pub head: Head,
}

impl Packer {
    /// Adds the next row in the order of the board. Returns a block that became full before it.
    pub fn add(&mut self, row: Row) -> Option<Block> {
        let points = row.place.points as usize;
        if self.total == 0 {
            // The first row has the most points.
            self.users = vec![0; points + 1];
        }
        if let Some(users) = self.users.get_mut(points) {
            // The first row with these points: all rows so far have more.
            if *users == 0 {
                self.rank = count(self.total) + 1;
            }
            *users += 1;
        }
        let full = if self.rows.len() == ROWS_PER_BLOCK { self.block() } else { None };
        if self.rows.is_empty() {
            self.first_rank = self.rank;
            self.firsts.push(row.place);
        }
        self.rows.push(row);
        self.total += 1;
        full
    }

    fn block(&mut self) -> Option<Block> {
        let rows = std::mem::replace(&mut self.rows, Vec::with_capacity(ROWS_PER_BLOCK));
        (!rows.is_empty()).then_some(Block { rank: self.first_rank, rows })
    }

    /// Returns the parts that remain. `latest` is the latest [`Place::reached`] of this build and all before it.
    #[must_use]
    pub fn finish(mut self, latest: u32) -> Packed {
        let head = Head {
            total: count(self.total),
            most_points: count(self.users.len().saturating_sub(1)),
            latest,
            indexes: self.firsts.iter().step_by(BLOCKS_PER_INDEX).copied().collect(),
            made_of: None,
        };
        Packed {
            block: self.block(),
            indexes: self.firsts.chunks(BLOCKS_PER_INDEX).map(|firsts| Index(firsts.to_vec())).collect(),
            ranks: self.ranks(),
            head,
        }
    }

    fn ranks(&self) -> Vec<Ranks> {
        let parts = self.users.chunks(POINTS_PER_PART as usize).map(<[u32]>::to_vec);
        let mut parts: Vec<Ranks> = parts.map(|users| Ranks { above: 0, users }).collect();
        let mut above = 0;
        for part in parts.iter_mut().rev() {
            part.above = above;
            above += part.users.iter().sum::<u32>();
            while part.users.last() == Some(&0) {
                part.users.pop();
            }
        }
        parts
    }
}

/// Converts a number of users. User ids have 32 bits, so there are no more users than that.
fn count(users: usize) -> u32 {
    u32::try_from(users).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::UserId;

    fn row(user: u32, points: u32, exact: u32, reached: u32) -> Row {
        let place = Place { points, exact, reached, user: UserId(user) };
        Row { place, correct: exact, settled: 9, previous: None }
    }

    fn users(table: &Table) -> Vec<(u32, u32)> {
        table.ranked().map(|ranked| (ranked.rank, ranked.row.place.user.0)).collect()
    }

    #[test]
    fn users_with_the_same_points_share_a_rank_and_exact_scores_then_time_order_them() {
        let rows =
            vec![row(1, 5, 0, 70), row(2, 7, 1, 90), row(3, 7, 2, 95), row(4, 7, 1, 80), row(5, 9, 0, 99)];
        assert_eq!(users(&Table::new(rows)), [(1, 5), (2, 3), (2, 4), (2, 2), (5, 1)]);
    }

    #[test]
    fn the_movement_is_that_since_the_last_settlement_even_if_a_build_was_incomplete() {
        let first = Table::new(vec![row(1, 4, 0, 10), row(2, 2, 0, 10)]);
        // The settlement at 20 gives user 2 and user 3 points. The first build misses those of user 3.
        let mut partial = Table::new(vec![row(1, 4, 0, 10), row(2, 5, 0, 20)]);
        partial.compare_with(first.ranked(), first.latest());
        let mut whole = Table::new(vec![row(1, 4, 0, 10), row(2, 5, 0, 20), row(3, 9, 0, 20)]);
        whole.compare_with(partial.ranked(), partial.latest());
        let moved: Vec<_> = whole.ranked().map(|ranked| (ranked.row.place.user.0, ranked.moved())).collect();
        assert_eq!(moved, [(3, None), (2, Some(0)), (1, Some(-2))]);
    }

    #[test]
    fn the_largest_rows_fit_into_one_read_unit() {
        let place = Place { points: 400_000, exact: 100_000, reached: u32::MAX, user: UserId(u32::MAX) };
        let row = Row { place, correct: 100_000, settled: 100_000, previous: Some(u32::MAX) };
        let rows = vec![row; ROWS_PER_BLOCK];
        assert!(encode(&Block { rank: u32::MAX, rows }).unwrap().len() < 4_000);
        let usual = Place { points: 16_000, exact: 5_000, ..place };
        assert!(encode(&Index(vec![usual; BLOCKS_PER_INDEX])).unwrap().len() < 4_000);
        let indexes = vec![usual; 10_000_000 / ROWS_PER_BLOCK / BLOCKS_PER_INDEX + 1];
        let head = Head { total: 10_000_000, most_points: 16_000, latest: u32::MAX, indexes, made_of: None };
        assert!(encode(&head).unwrap().len() < 3_950);
    }

    /// Rows with many ties, on up to 70,000 different points.
    fn tables() -> impl Strategy<Value = Vec<Row>> {
        let few = (0..6_u32, 0..3_u32, 0..3_u32);
        let many = (0..70_000_u32, 0..3_u32, 0..3_u32);
        let rows = prop_oneof![prop::collection::vec(few, 0..900), prop::collection::vec(many, 0..900)];
        rows.prop_map(|rows| {
            let row =
                |(user, (points, exact, reached)): (u32, (u32, u32, u32))| row(user, points, exact, reached);
            (1..).zip(rows).map(row).collect()
        })
    }

    /// Packs a table. Returns all blocks, and the other parts.
    fn packed(table: &Table) -> (Vec<Block>, Packed) {
        let mut packer = Packer::default();
        let mut blocks: Vec<Block> = table.rows().filter_map(|row| packer.add(row)).collect();
        let rest = packer.finish(table.latest());
        blocks.extend(rest.block.clone());
        (blocks, rest)
    }

    proptest! {
        #[test]
        fn ranks_blocks_and_indexes_agree_with_a_full_sort(rows in tables()) {
            let table = Table::new(rows.clone());
            let (blocks, Packed { indexes, ranks, head, .. }) = packed(&table);
            prop_assert_eq!(head.total as usize, rows.len());
            prop_assert_eq!(head.most_points, rows.iter().map(|row| row.place.points).max().unwrap_or(0));
            prop_assert!(blocks.iter().rev().skip(1).all(|block| block.rows.len() == ROWS_PER_BLOCK));
            // All blocks together are the whole table, with the same ranks.
            let unpacked: Vec<RankedRow> =
                blocks.iter().enumerate().flat_map(|(number, block)| block.ranked(number)).collect();
            prop_assert_eq!(&unpacked, &table.ranked().collect::<Vec<_>>());
            for ranked in &unpacked {
                let Place { points, user, .. } = ranked.row.place;
                let better = rows.iter().filter(|other| other.place.points > points).count();
                prop_assert_eq!(ranked.rank as usize, better + 1);
                prop_assert_eq!(ranks[Ranks::part_of(points) as usize].rank(points), ranked.rank);
                // The tree leads to the block with the user.
                let at = part_with(&head.indexes, &ranked.row.place);
                let number = at * BLOCKS_PER_INDEX + part_with(&indexes[at].0, &ranked.row.place);
                prop_assert!(blocks[number].rows.iter().any(|row| row.place.user == user));
                prop_assert_eq!(number, ranked.position / ROWS_PER_BLOCK);
            }
        }

        #[test]
        fn parts_are_the_same_after_they_were_encoded(rows in tables()) {
            let (blocks, Packed { ranks, head, .. }) = packed(&Table::new(rows));
            for block in blocks {
                prop_assert_eq!(decode(&encode(&block).unwrap()), Ok(block));
            }
            for part in ranks {
                prop_assert_eq!(decode(&encode(&part).unwrap()), Ok(part));
            }
            prop_assert_eq!(decode(&encode(&head).unwrap()), Ok(head));
        }
    }
}
