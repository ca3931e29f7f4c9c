//! The recount of one match, one room or one user.

use chrono::{DateTime, Utc};
use futures_util::FutureExt as _;
use futures_util::stream::{self, StreamExt as _};
use touchline::App;
use touchline::Error;
use touchline::domain::catalog::Match;
use touchline::domain::marker::{MarkerId, Written};
use touchline::domain::standings::UserTally;
use touchline::domain::tally::{EventTally, RoomCounts};
use touchline::domain::{Room, RoomId, UserId};
use touchline::storage::StoreError;
use touchline::storage::keys::{self, Key};
use touchline::storage::tallies::{Aggregate, Whole};

use crate::copies::copy_into_members;
use crate::exact::{Counted, Outcome, recount};
use crate::position::NextMembers;
use crate::report::Report;

/// How many shards of a match or a room are counted concurrently.
const CONCURRENT_SHARDS: usize = 8;

/// The predictions in one shard of a match.
struct EventShard {
    event: u32,
    shard: u8,
}

impl Counted for EventShard {
    type Counts = EventTally;

    fn aggregate(&self) -> Aggregate {
        Aggregate::EventPart { event: self.event, shard: self.shard }
    }

    async fn count(&self, app: &App) -> Result<EventTally, StoreError> {
        app.store.count_predictions(self.event, self.shard).await
    }

    async fn mark(&self, app: &App, marker: &MarkerId) -> Result<Written, StoreError> {
        app.store.mark_shard_of_event(self.event, self.shard, marker, app.clock.now()).await
    }
}

/// The members in one shard of a room.
struct RoomShard {
    room: RoomId,
    shard: u8,
}

impl Counted for RoomShard {
    type Counts = RoomCounts;

    fn aggregate(&self) -> Aggregate {
        Aggregate::RoomPart { room: self.room.clone(), shard: self.shard }
    }

    async fn count(&self, app: &App) -> Result<RoomCounts, StoreError> {
        app.store.count_members(&self.room, self.shard).await
    }

    async fn mark(&self, app: &App, marker: &MarkerId) -> Result<Written, StoreError> {
        app.store.mark_shard_of_room(&self.room, self.shard, marker, app.clock.now()).await
    }
}

/// The predictions of a user for these matches.
struct UserPredictions {
    user: UserId,
    /// The keys that the predictions have, if they exist.
    keys: Vec<Key>,
}

impl Counted for UserPredictions {
    type Counts = UserTally;

    fn aggregate(&self) -> Aggregate {
        Aggregate::User(self.user)
    }

    async fn count(&self, app: &App) -> Result<UserTally, StoreError> {
        Ok(app.store.count_settled(&self.keys).await?.0)
    }

    /// Marks each prediction. The other rows of their partitions belong to other users.
    async fn mark(&self, app: &App, marker: &MarkerId) -> Result<Written, StoreError> {
        let (_, existing) = app.store.count_settled(&self.keys).await?;
        app.store.mark_predictions(&existing, marker).await
    }
}

/// Recounts the predictions of a match.
pub async fn recount_match(
    app: &App,
    event: &Match,
    report: &mut Report,
    until: DateTime<Utc>,
) -> Result<(), Error> {
    let id = event.id;
    let shards = (0..event.shards).map(|shard| EventShard { event: id, shard });
    // If a shard failed, the sums still need the repairs of the others.
    let recounted = recount_shards(app, shards, &format!("match {id}"), report, until).await;
    repair_sums(app, &Whole::Event(id), format!("match {id}"), report).await?;
    recounted
}

/// Recounts the members of a room, has the room listed in the directories, and copies missing data into the memberships.
/// `tally` then counts the copied data. If the copying stops early, returns the members that are left.
pub async fn recount_room(
    app: &App,
    room: &Room,
    report: &mut Report,
    until: DateTime<Utc>,
) -> Result<Option<NextMembers>, Error> {
    let (id, now) = (&room.room_id, app.clock.now());
    if room.listed_name().is_some() {
        app.store.mark_room(id, &MarkerId::new(now, app.random.below(u32::MAX))).await?;
    }
    let shards = (0..room.shards).map(|shard| RoomShard { room: id.clone(), shard });
    let recounted = recount_shards(app, shards, &format!("room {}", id.as_str()), report, until).await;
    repair_sums(app, &Whole::Room(id.clone()), format!("room {}", id.as_str()), report).await?;
    recounted?;
    if report.lacks_time() {
        // The operator repeats the recount. It then counts the other shards and copies.
        return Ok(None);
    }
    copy_into_members(app, room, NextMembers::first(id.clone()), report, until).await
}

/// Recounts the statistics of a user. Also adds the user's leaderboards to the report, to be built again: if the stream
/// record of the right statistics is lost, `tally` has not queued them.
pub async fn recount_user(
    app: &App,
    user: UserId,
    report: &mut Report,
    until: DateTime<Utc>,
) -> Result<(), Error> {
    report.checked += 1;
    // Most statistics are right. The index is cheap, but may lack a prediction, so it does not prove a difference.
    let keys = app.store.indexed_predictions(user).await?;
    let (counted, _) = app.store.count_settled(&keys).await?;
    let stored = app.store.stored_counters::<UserTally>(&Aggregate::User(user)).await?;
    let now = app.clock.now();
    report.boards.extend(counted.built_boards(now).chain(stored.counts.built_boards(now)));
    if stored.differences(&counted, now).is_empty() {
        return Ok(());
    }
    let catalog = app.catalog().await?;
    let keys = catalog.events().map(|event| keys::prediction(event.id, event.shards, user)).collect();
    let outcome = recount(app, &UserPredictions { user, keys }, until).await?;
    add(report, format!("user {user}"), outcome);
    Ok(())
}

async fn recount_shards<S: Counted + Send + Sync>(
    app: &App,
    shards: impl Iterator<Item = S>,
    name: &str,
    report: &mut Report,
    until: DateTime<Utc>,
) -> Result<(), Error>
where
    S::Counts: Send + Sync,
{
    // Boxed and collected: otherwise the compiler cannot prove that the future is `Send`.
    let shards: Vec<_> = shards
        .enumerate()
        .map(|(shard, subject)| async move { (shard, recount(app, &subject, until).await) }.boxed())
        .collect();
    let outcomes: Vec<_> = stream::iter(shards).buffer_unordered(CONCURRENT_SHARDS).collect().await;
    let mut failed = Ok(());
    for (shard, outcome) in outcomes {
        report.checked += 1;
        let name = || format!("{name}, shard {shard}");
        match report.unless_permanent(outcome, name) {
            Ok(Some(outcome)) => add(report, name(), outcome),
            Ok(None) => {}
            Err(error) => failed = Err(error),
        }
    }
    failed
}

fn add(report: &mut Report, name: String, outcome: Outcome) {
    match outcome {
        Outcome::Right => {}
        Outcome::Repaired(differences) => report.add_repair(name, differences),
        Outcome::Busy(reason) => report.add_busy(name, reason),
    }
}

async fn repair_sums(app: &App, whole: &Whole, name: String, report: &mut Report) -> Result<(), StoreError> {
    if let Some(differences) = app.store.repair_sums(whole, app.clock.now()).await? {
        report.add_repair(name, differences);
    }
    Ok(())
}
