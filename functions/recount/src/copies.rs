//! Copies data into memberships that lack it.
//!
//! `tally` copies a member's team, statistics and prediction for the room's match into the membership when they change.
//! If the stream record of such a change is lost, the membership keeps the older data. Each copy has a version, and
//! an older version never overwrites a newer one, so copying again is safe.

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::future::try_join3;
use futures_util::stream::{self, StreamExt as _};
use touchline::App;
use touchline::Error;
use touchline::domain::catalog::Match;
use touchline::domain::{Prediction, Room};
use touchline::storage::recounts::CopiedMember;
use touchline::storage::{Reads, StoreError};

use crate::position::NextMembers;
use crate::report::Report;

/// How many members are compared concurrently.
const CONCURRENT_MEMBERS: usize = 8;

/// Copies missing data into the memberships of a room's joined members. Stops at `until`, when the store is busy, or when
/// the report is full, and then returns the members that are left.
pub async fn copy_into_members(
    app: &App,
    room: &Room,
    mut next: NextMembers,
    report: &mut Report,
    until: DateTime<Utc>,
) -> Result<Option<NextMembers>, Error> {
    let event = match room.event_id {
        Some(event) => app.store.catalog_rows::<Match>(&[event]).await?.remove(&event),
        None => None,
    };
    while next.shard < room.shards {
        if app.clock.now() >= until || report.is_full() {
            return Ok(Some(next));
        }
        match copy_page(app, room, event.as_ref(), &next, report).await {
            Ok(after) => {
                if after.is_none() {
                    next.shard += 1;
                }
                next.after = after;
            }
            Err(Error::Store(error @ (StoreError::Busy { .. } | StoreError::Contended { .. }))) => {
                tracing::warn!(%error, ?next, "copying into memberships stops early");
                return Ok(Some(next));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// Copies missing data into one page of memberships. Returns the sort key after which the next page of the shard begins.
async fn copy_page(
    app: &App,
    room: &Room,
    event: Option<&Match>,
    next: &NextMembers,
    report: &mut Report,
) -> Result<Option<String>, Error> {
    let (members, after) = app.store.copied_members(&room.room_id, next.shard, next.after.clone()).await?;
    // Boxed and collected: otherwise the compiler cannot prove that the future is `Send`.
    let comparisons: Vec<_> = members
        .iter()
        .filter(|member| member.member.has_joined())
        .map(|member| async move { (member.member.user_id, copy(app, event, member).await) }.boxed())
        .collect();
    let compared: Vec<_> = stream::iter(comparisons).buffered(CONCURRENT_MEMBERS).collect().await;
    for (user, lacked) in compared {
        let name = || format!("membership of user {user} in room {}", room.room_id.as_str());
        report.copied += u64::from(report.unless_permanent(lacked, name)?.unwrap_or(false));
    }
    Ok(after)
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
