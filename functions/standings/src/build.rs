//! Builds boards.
//!
//! With few users, one process does all of it in memory. With more, the process calls workers: first one for each
//! group of users, then one for each board.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::App;
use touchline::domain::standings::{Board, Row, UserTally};
use touchline::storage::keys::STATS_SHARDS;
use touchline::storage::standings::{Build, RunRef};
use touchline::storage::{Reads, StoreError};

use crate::error::StandingsError;
use crate::statistics::{Group, groups_of};
use crate::steps::{collect, publish};
use crate::workers::{self, Collect, OpenBoards, Publish, Task, Workers};

/// The number of workers that run at the same time. The template reserves executions for them.
const CONCURRENT_WORKERS: usize = MAX_GROUPS as usize;

/// The maximum number of groups of users. The statistics have 128 shards, and two of them make the smallest group.
const MAX_GROUPS: u8 = STATS_SHARDS / 2;

/// How much one process does.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// With more users, the work is divided over several processes.
    pub users_in_one_process: u32,
    pub users_per_worker: u32,
    /// Builds read only the first `1/one_in` of the shards of the statistics. A power of two, and 1 in Lambda. The
    /// simulation has all its users in these shards, because to read all 128 would take most of its time.
    pub one_in: u8,
}

/// Stands for an unknown number of users, and gives the maximum number of groups.
const MANY_USERS: u32 = u32::MAX / 2;

impl Limits {
    pub const DEFAULT: Self = Self { users_in_one_process: 300_000, users_per_worker: 160_000, one_in: 1 };

    /// Returns the group of all users that builds read.
    fn all(self) -> Group {
        Group { number: 0, of: self.one_in }
    }

    /// Returns the groups for a number of users. The number of groups is a power of two.
    fn groups(self, users: u32) -> impl Iterator<Item = Group> {
        let groups = users.div_ceil(self.users_per_worker.max(1)).next_power_of_two();
        let most = self.most_groups();
        groups_of(u8::try_from(groups).unwrap_or(most).min(most), self.one_in)
    }

    fn most_groups(self) -> u8 {
        MAX_GROUPS / self.one_in
    }
}

/// Builds boards with the help of workers.
#[derive(Debug)]
pub struct Builder<'a, W> {
    pub app: &'a App,
    pub workers: W,
    pub limits: Limits,
    /// When Lambda stops this process. Its workers stop at the same time.
    pub deadline: DateTime<Utc>,
}

impl<W: Workers> Builder<'_, W> {
    /// Builds and publishes boards. Leaves out those that have closed. Returns the boards that were published. `None`
    /// if another run builds with workers at the moment: then the boards must stay queued.
    pub async fn build(&self, boards: &BTreeSet<Board>) -> Result<Option<BTreeSet<Board>>, StandingsError> {
        let users = self.users().await?;
        if users <= self.limits.users_in_one_process {
            let builds = begin(self.app, boards).await?;
            if builds.is_empty() {
                return Ok(Some(BTreeSet::new()));
            }
            // The number of users is that of the last build. If there are far more by now, workers build the boards.
            let limit = self.limits.users_in_one_process.saturating_mul(2);
            if let Some(rows) = collect(self.app, self.limits.all(), builds.keys(), limit).await? {
                return self.publish_here(&builds, rows).await.map(Some);
            }
        }
        let store = &self.app.store;
        if !store.lease_workers(self.app.clock.now(), self.deadline).await? {
            return Ok(None);
        }
        let published = async {
            let builds = begin(self.app, boards).await?;
            if builds.is_empty() {
                Ok(BTreeSet::new())
            } else {
                self.publish_by_workers(&builds, users).await
            }
        }
        .await;
        store.end_lease(self.deadline).await?;
        published.map(Some)
    }

    /// Returns all boards that are open and have users.
    pub async fn open_boards(&self) -> Result<BTreeSet<Board>, StandingsError> {
        let groups = self.limits.groups(self.users().await?);
        let tasks = groups.map(|group| Task::OpenBoards(OpenBoards { group }));
        let found = self.call_all(tasks.collect()).await?;
        let found: Vec<BTreeSet<Board>> = found.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns the number of users on the board of all matches when it was last built.
    async fn users(&self) -> Result<u32, StoreError> {
        let built = self.app.store.built_board(Board::GLOBAL, Reads::Consistent).await?;
        Ok(built.map_or(0, |built| built.head.total))
    }

    async fn publish_here(
        &self,
        builds: &BTreeMap<Board, Build>,
        rows: BTreeMap<Board, Vec<Row>>,
    ) -> Result<BTreeSet<Board>, StandingsError> {
        let mut published = BTreeSet::new();
        for (board, rows) in rows {
            let latest = rows.iter().map(|row| row.place.reached).max().unwrap_or(0);
            if publish(self.app, board, builds[&board], rows.into_iter().map(Ok), latest).await? {
                published.insert(board);
            }
        }
        Ok(published)
    }

    async fn publish_by_workers(
        &self,
        builds: &BTreeMap<Board, Build>,
        users: u32,
    ) -> Result<BTreeSet<Board>, StandingsError> {
        // A build that was begun with few users has found more than expected. It is unknown how many there are.
        let is_known = users > self.limits.users_in_one_process;
        let groups = self.limits.groups(if is_known { users } else { MANY_USERS });
        let tasks = groups
            .map(|group| Task::Collect(Collect { group, builds: builds.clone(), until: self.deadline }));
        let mut runs: BTreeMap<Board, Vec<RunRef>> = BTreeMap::new();
        for collected in self.call_all(tasks.collect()).await? {
            for (board, run) in read::<BTreeMap<Board, RunRef>>(collected)? {
                runs.entry(board).or_default().push(run);
            }
        }
        let tasks = builds.iter().map(|(board, build)| {
            let runs = runs.remove(board).unwrap_or_default();
            Task::Publish(Publish { board: *board, build: *build, runs, until: self.deadline })
        });
        let published = self.call_all(tasks.collect()).await?;
        let published: Vec<bool> = published.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(builds
            .keys()
            .zip(published)
            .filter(|(_, published)| *published)
            .map(|(board, _)| *board)
            .collect())
    }

    /// Calls workers at the same time. Returns their results in the order of the tasks. A single task needs no worker.
    async fn call_all(&self, mut tasks: Vec<Task>) -> Result<Vec<serde_json::Value>, StandingsError> {
        if tasks.len() == 1
            && let Some(task) = tasks.pop()
        {
            return Ok(vec![workers::work(self.app, task).await?]);
        }
        let calls: Vec<_> = tasks.into_iter().map(|task| self.workers.call(task)).collect();
        stream::iter(calls).buffered(CONCURRENT_WORKERS).try_collect().await
    }
}

fn read<T: serde::de::DeserializeOwned>(result: serde_json::Value) -> Result<T, StandingsError> {
    serde_json::from_value(result).map_err(|error| StandingsError::Worker(error.to_string()))
}

/// Draws the numbers of the next builds of boards. Leaves out those that have closed.
///
/// The numbers are drawn before the statistics are read: of two builds at the same time, the one with the higher
/// number has the later statistics.
async fn begin(app: &App, boards: &BTreeSet<Board>) -> Result<BTreeMap<Board, Build>, StoreError> {
    let now = app.clock.now();
    // After that, the counters are removed, and a build would lack users.
    let is_built = |board: &&Board| !board.is_closed(now - UserTally::BUILT_AFTER_CLOSE);
    let mut builds = BTreeMap::new();
    for board in boards.iter().filter(is_built) {
        builds.insert(*board, app.store.begin_build(*board, now).await?);
    }
    Ok(builds)
}
