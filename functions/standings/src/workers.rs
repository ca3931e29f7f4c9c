//! The tasks of workers: executions of this function that a build calls.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::OnceLock;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::standings::Board;
use touchline::domain::standings::run::Merged;
use touchline::ports::aws_http::{self, SharedHttpClient};
use touchline::ports::lambda_invoke::{self, InvokeError, Target};
use touchline::storage::standings::{Build, Claim, RunRef};

use crate::error::StandingsError;
use crate::statistics::{Group, each_user};
use crate::steps;

/// The number of runs that are read concurrently. A run of 160,000 rows has about five chunks.
const CONCURRENT_RUNS: usize = 4;

/// The pause after a call that was above the limit of concurrent executions.
const PAUSE: Duration = Duration::from_secs(1);

/// What a worker does. This is the payload of its invocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Task {
    /// Returns the boards that are open and have users of a group.
    OpenBoards(OpenBoards),
    /// Stores the rows of a group of users, for each board. Returns where they are stored.
    Collect(Collect),
    /// Merges the rows of all groups and publishes a board. Returns whether it was published.
    Publish(Publish),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenBoards {
    pub group: Group,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collect {
    pub group: Group,
    pub builds: BTreeMap<Board, Build>,
    pub until: DateTime<Utc>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Publish {
    pub board: Board,
    pub build: Build,
    pub runs: Vec<RunRef>,
    pub until: DateTime<Utc>,
}

/// Carries out tasks, each in a process of its own if there are several machines.
pub trait Workers {
    fn call(&self, task: Task) -> impl Future<Output = Result<Value, StandingsError>> + Send;
}

/// Carries out tasks in this process.
#[derive(Debug, Clone)]
pub struct InProcess(pub App);

impl Workers for InProcess {
    async fn call(&self, task: Task) -> Result<Value, StandingsError> {
        work(&self.0, task).await
    }
}

/// Invokes this Lambda function for each task.
#[derive(Debug, Clone)]
pub struct Invocations {
    app: App,
    /// `None` outside Lambda.
    target: Option<Target>,
    deadline: DateTime<Utc>,
    http: OnceLock<SharedHttpClient>,
}

impl Invocations {
    pub fn new(app: App, deadline: DateTime<Utc>) -> Self {
        let target = Target::itself(|name| std::env::var(name).ok());
        Self { app, target, deadline, http: OnceLock::new() }
    }
}

impl Workers for Invocations {
    async fn call(&self, task: Task) -> Result<Value, StandingsError> {
        let Some(target) = &self.target else { return work(&self.app, task).await };
        let payload =
            serde_json::to_value(&task).map_err(|error| StandingsError::Worker(error.to_string()))?;
        let http = self.http.get_or_init(aws_http::client);
        loop {
            let timeout = (self.deadline - self.app.clock.now()).to_std().unwrap_or_default();
            let result =
                lambda_invoke::invoke(&self.app.config.aws, http.clone(), target, &payload, timeout).await;
            match result {
                // Other executions use up the concurrency. All calls of a process share a small budget of retries in the SDK, so
                // this waits outside of it.
                Err(InvokeError::Throttled) if timeout > PAUSE => tokio::time::sleep(PAUSE).await,
                result => return result.map_err(|error| StandingsError::Worker(error.to_string())),
            }
        }
    }
}

/// Carries out a task.
pub async fn work(app: &App, task: Task) -> Result<Value, StandingsError> {
    match task {
        Task::OpenBoards(OpenBoards { group }) => open_boards(app, group).await,
        Task::Collect(task) => before(app, task.until, collect(app, &task)).await,
        Task::Publish(task) => before(app, task.until, publish(app, task)).await,
    }
}

/// Stops a task when the process that began the build is stopped. Until then, no other build uses the same slot.
async fn before(
    app: &App,
    until: DateTime<Utc>,
    task: impl Future<Output = Result<Value, StandingsError>>,
) -> Result<Value, StandingsError> {
    let left = (until - app.clock.now()).to_std().unwrap_or_default();
    let late = || StandingsError::Worker("the build has ended".to_owned());
    if left.is_zero() {
        return Err(late());
    }
    tokio::time::timeout(left, task).await.map_err(|_| late())?
}

async fn open_boards(app: &App, group: Group) -> Result<Value, StandingsError> {
    let now = app.clock.now();
    let mut boards = BTreeSet::new();
    each_user(app, group, |user, tally| {
        boards.extend(tally.rows(user).map(|(board, _)| board).filter(|board| !board.is_closed(now)));
        true
    })
    .await?;
    Ok(json!(boards))
}

async fn collect(app: &App, task: &Collect) -> Result<Value, StandingsError> {
    let attempt = app.random.number();
    let rows = steps::collect(app, task.group, task.builds.keys(), u32::MAX).await?.unwrap_or_default();
    let mut runs = BTreeMap::new();
    for (board, rows) in rows {
        let run = app.store.put_run(board, task.builds[&board], task.group.number, attempt, &rows).await?;
        runs.insert(board, run);
    }
    Ok(json!(runs))
}

async fn publish(app: &App, task: Publish) -> Result<Value, StandingsError> {
    let Publish { board, build, runs, .. } = task;
    match app.store.claim_build(board, build, app.random.number()).await? {
        Claim::Granted => {}
        Claim::Outdated => return Ok(json!(false)),
        Claim::Taken => return Err(StandingsError::Worker(format!("another worker publishes {board}"))),
    }
    let latest = runs.iter().map(|run| run.latest).max().unwrap_or(0);
    let reads: Vec<_> = runs.iter().map(|run| app.store.run(board, build, run)).collect();
    let rows: Vec<_> = stream::iter(reads).buffered(CONCURRENT_RUNS).try_collect().await?;
    Ok(json!(steps::publish(app, board, build, Merged::new(rows), latest).await?))
}
