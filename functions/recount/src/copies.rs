//! Copies data into memberships that lack it.
//!
//! `tally` copies a member's team, statistics and prediction for the room's match into the membership when they change.
//! If the stream record of such a change is lost, the membership keeps the older data. Each copy has a version, and
//! an older version never overwrites a newer one, so copying again is safe.

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::try_join3;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::App;
use touchline::domain::catalog::Match;
use touchline::domain::{Prediction, Room};
use touchline::storage::recounts::CopiedMember;
use touchline::storage::{Reads, StoreError};

/// How many members are compared concurrently.
const CONCURRENT_MEMBERS: usize = 8;

/// Copies what the joined members of a room lack, until `until`. Adds to `copied` how many lacked something. Returns
/// whether the time was enough.
pub async fn copy_into_members(
    app: &App,
    room: &Room,
    copied: &mut u64,
    until: DateTime<Utc>,
) -> Result<bool, StoreError> {
    let event = match room.event_id {
        Some(event) => app.store.catalog_rows::<Match>(&[event]).await?.remove(&event),
        None => None,
    };
    for shard in 0..room.shards {
        let mut after = None;
        loop {
            if app.clock.now() >= until {
                return Ok(false);
            }
            let (members, is_last) = app.store.copied_members(&room.room_id, shard, after).await?;
            after = members.last().map(|member| member.key().sk);
            // Boxed and collected: otherwise the compiler cannot prove that the future is `Send`.
            let comparisons: Vec<_> = members
                .iter()
                .filter(|member| member.member.has_joined())
                .map(|member| copy(app, event.as_ref(), member).boxed())
                .collect();
            let lacking: Vec<bool> =
                stream::iter(comparisons).buffer_unordered(CONCURRENT_MEMBERS).try_collect().await?;
            *copied += lacking.into_iter().map(u64::from).sum::<u64>();
            if is_last {
                break;
            }
        }
    }
    Ok(true)
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
