use std::collections::HashMap;

use crate::domain::UserId;

/// The number of users in a page. User ids are consecutive, so most pages are full.
const USERS_PER_PAGE: u32 = 4_096;

/// The rank of each user before the last settlement: 4 bytes for a user.
#[derive(Debug)]
pub struct Previous {
    is_new: bool,
    /// The ranks of consecutive users. 0 means that the user was not on the board.
    pages: HashMap<u32, Vec<u32>>,
}

impl Previous {
    /// `latest` is the latest [`reached`](super::Place::reached) of the new build, and `earlier` that of the earlier build.
    ///
    /// If the new build has no settlement that the earlier build did not have, only some points of the last settlement were
    /// missing in the earlier build. Then the users keep the rank that they had before that settlement.
    #[must_use]
    pub fn new(latest: u32, earlier: u32) -> Self {
        Self { is_new: latest > earlier, pages: HashMap::new() }
    }

    /// Returns the rank that a user had. `None` if the user was not on the board.
    #[must_use]
    pub fn rank(&self, user: UserId) -> Option<u32> {
        let page = self.pages.get(&(user.0 / USERS_PER_PAGE))?;
        page.get((user.0 % USERS_PER_PAGE) as usize).copied().filter(|rank| *rank > 0)
    }

    /// Adds a row of the earlier build: its rank, and the rank that it had before.
    pub fn add(&mut self, user: UserId, rank: u32, before: Option<u32>) {
        let Some(rank) = (if self.is_new { Some(rank) } else { before }) else { return };
        let page = self.pages.entry(user.0 / USERS_PER_PAGE);
        let page = page.or_insert_with(|| vec![0; USERS_PER_PAGE as usize]);
        if let Some(known) = page.get_mut((user.0 % USERS_PER_PAGE) as usize) {
            *known = rank;
        }
    }
}
