//! Reads the statistics of users.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use touchline::App;
use touchline::domain::UserId;
use touchline::domain::standings::UserTally;
use touchline::storage::StoreError;
use touchline::storage::keys::STATS_SHARDS;

/// The number of shards of the statistics that are read concurrently.
const CONCURRENT_SHARDS: usize = 8;

/// The users in some consecutive shards of the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    pub number: u8,
    /// The number of groups of this size that all shards make. It divides the number of shards.
    pub of: u8,
}

impl Group {
    fn shards(self) -> std::ops::Range<u8> {
        let size = STATS_SHARDS / self.of.clamp(1, STATS_SHARDS);
        let first = self.number.saturating_mul(size);
        first..first.saturating_add(size).min(STATS_SHARDS)
    }
}

/// Divides the first `1/one_in` of the shards into `count` groups. Both numbers are powers of two.
pub fn groups_of(count: u8, one_in: u8) -> impl Iterator<Item = Group> {
    (0..count).map(move |number| Group { number, of: count * one_in })
}

/// Passes the counters of the users of a group to `add`, until it returns false. Returns whether all users were passed.
pub async fn each_user(
    app: &App,
    group: Group,
    mut add: impl FnMut(UserId, &UserTally) -> bool,
) -> Result<bool, StoreError> {
    let shards = stream::iter(group.shards()).map(|shard| {
        stream::try_unfold(Some(None), move |from| async move {
            let Some(from) = from else { return Ok::<_, StoreError>(None) };
            let (users, next) = app.store.ranked_page(shard, from).await?;
            Ok(Some((users, next.map(Some))))
        })
        .boxed()
    });
    let mut pages = shards.flatten_unordered(CONCURRENT_SHARDS);
    while let Some(users) = pages.try_next().await? {
        for (user, tally) in &users {
            if !add(*user, tally) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_is_in_exactly_one_group() {
        for count in [1, 2, 4, 8, 16, 32, 64, 128] {
            let shards: Vec<u8> = groups_of(count, 1).flat_map(Group::shards).collect();
            assert_eq!(shards, (0..STATS_SHARDS).collect::<Vec<_>>(), "{count} groups");
        }
    }
}
