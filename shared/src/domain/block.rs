//! Blocks: the users whom a user does not want to see.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::UserId;

/// How many users one user can block. All blocks of a user are one item, which lists read. The limit keeps the item
/// small: a block takes about 20 bytes.
pub const MAX_BLOCKS: usize = 1_000;

/// The users whom a user has blocked, each with the time of the block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocks(BTreeMap<UserId, DateTime<Utc>>);

/// A block in the list of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    pub at: DateTime<Utc>,
    pub user: UserId,
}

impl Blocks {
    /// Returns whether the user is blocked.
    #[must_use]
    pub fn contains(&self, user: UserId) -> bool {
        self.0.contains_key(&user)
    }

    /// Returns when the user was blocked, or `None` if the user is not blocked.
    #[must_use]
    pub fn since(&self, user: UserId) -> Option<DateTime<Utc>> {
        self.0.get(&user).copied()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the blocked users.
    pub fn users(&self) -> impl Iterator<Item = UserId> {
        self.0.keys().copied()
    }

    /// Returns up to `limit` blocks that follow `before` in the list, newest first. Also returns whether more follow.
    #[must_use]
    pub fn page(&self, before: Option<Block>, limit: usize) -> (Vec<Block>, bool) {
        let all = self.0.iter().map(|(&user, &at)| Block { at, user });
        let mut rest: Vec<Block> = all.filter(|block| before.is_none_or(|before| *block < before)).collect();
        rest.sort_unstable_by(|one, other| other.cmp(one));
        let has_more = rest.len() > limit;
        rest.truncate(limit);
        (rest, has_more)
    }
}

impl FromIterator<Block> for Blocks {
    fn from_iter<I: IntoIterator<Item = Block>>(blocks: I) -> Self {
        Self(blocks.into_iter().map(|Block { at, user }| (user, at)).collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn block(user: u32, seconds: i64) -> Block {
        Block { at: DateTime::from_timestamp(seconds, 0).unwrap(), user: UserId(user) }
    }

    #[test]
    fn blocks_are_listed_newest_first() {
        let blocks: Blocks = [block(1, 50), block(2, 70), block(3, 60)].into_iter().collect();
        assert_eq!(blocks.page(None, 2), (vec![block(2, 70), block(3, 60)], true));
        assert_eq!(blocks.page(Some(block(3, 60)), 2), (vec![block(1, 50)], false));
        assert!(blocks.contains(UserId(2)) && !blocks.contains(UserId(4)));
    }

    proptest! {
        /// Blocks can have the same time.
        #[test]
        fn pages_list_each_block_once(
            times in prop::collection::btree_map(0_u32..50, 0_i64..3, 0..40), limit in 1_usize..10,
        ) {
            let blocks: Blocks = times.iter().map(|(user, at)| block(*user, *at)).collect();
            let (mut seen, mut before) = (Vec::new(), None);
            loop {
                let (page, has_more) = blocks.page(before, limit);
                seen.extend(page);
                before = seen.last().copied();
                if !has_more {
                    break;
                }
            }
            prop_assert_eq!(seen.len(), times.len());
            prop_assert!(seen.is_sorted_by(|one, next| one > next));
        }
    }
}
