//! Copies data into memberships that lack it.
//!
//! `tally` copies a member's team, statistics and prediction for the room's match into the membership when they change.
//! If the stream record of such a change is lost, the membership keeps the older data. Each copy has a version, and
//! an older version never overwrites a newer one, so copying again is safe.

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::try_join3;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use touchline::App;
use touchline::domain::catalog::Match;
use touchline::domain::{Prediction, Room, RoomId};
use touchline::storage::recounts::CopiedMember;
use touchline::storage::{Reads, StoreError};

/// How many members are compared concurrently.
const CONCURRENT_MEMBERS: usize = 8;

/// The members of a room whose memberships are next: those after a sort key in one shard, and those in higher shards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextMembers {
    pub room: RoomId,
    shard: u8,
    after: Option<String>,
}

impl NextMembers {
    pub fn first(room: RoomId) -> Self {
        Self { room, shard: 0, after: None }
    }
}

/// Copies what the joined members of a room lack, until `until`. Adds to `copied` how many lacked something. Returns
/// the members that the time was not enough for.
pub async fn copy_into_members(
    app: &App,
    room: &Room,
    mut next: NextMembers,
    copied: &mut u64,
    until: DateTime<Utc>,
) -> Result<Option<NextMembers>, StoreError> {
    let event = match room.event_id {
        Some(event) => app.store.catalog_rows::<Match>(&[event]).await?.remove(&event),
        None => None,
    };
    while next.shard < room.shards {
        if app.clock.now() >= until {
            return Ok(Some(next));
        }
        let (members, after) =
            app.store.copied_members(&room.room_id, next.shard, next.after.clone()).await?;
        // Boxed and collected: otherwise the compiler cannot prove that the future is `Send`.
        let comparisons: Vec<_> = members
            .iter()
            .filter(|member| member.member.has_joined())
            .map(|member| copy(app, event.as_ref(), member).boxed())
            .collect();
        let lacking: Vec<bool> =
            stream::iter(comparisons).buffer_unordered(CONCURRENT_MEMBERS).try_collect().await?;
        *copied += lacking.into_iter().map(u64::from).sum::<u64>();
        if after.is_none() {
            next.shard += 1;
        }
        next.after = after;
    }
    Ok(None)
}

/// Copies what a member lacks. Returns whether the member lacked something.
async fn copy(app: &App, event: Option<&Match>, copied: &CopiedMember) -> Result<bool, StoreError> {
    let CopiedMember { member, team_chosen, ranked, .. } = copied;
    let user = member.user_id;
    let (row, chosen, stats) = try_join3(
        prediction(app, event, copied),
        app.store.chosen_team(user),
        app.store.versioned_stats(user),
    )
    .await?;
    let mut lacks = false;
    if let Some(row) = row.filter(|row| Some(row.edits) > member.edits) {
        app.store.copy_pick(copied.key(), &row).await?;
        lacks = true;
    }
    if let Some(chosen) = chosen.filter(|chosen| Some(chosen.at.timestamp_millis()) > *team_chosen) {
        app.store.copy_team(copied.key(), chosen.team, chosen.at).await?;
        lacks = true;
    }
    if let Some(stats) = stats.filter(|stats| Some(stats.version) > *ranked) {
        app.store.copy_stats(copied.key(), &stats).await?;
        lacks = true;
    }
    Ok(lacks)
}

/// Reads the member's prediction for the room's match.
async fn prediction(
    app: &App,
    event: Option<&Match>,
    copied: &CopiedMember,
) -> Result<Option<Prediction>, StoreError> {
    let Some(event) = event else { return Ok(None) };
    app.store.prediction(event.id, event.shards, copied.member.user_id, Reads::Consistent).await
}
