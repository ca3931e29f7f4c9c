//! The fans of the demo league: their predictions in a past season and for the next matches, their points and their
//! rooms.
//!
//! The API accepts no predictions for past matches. So this module calls the functions' code with a clock that is set
//! back. Two things are written directly, because writing them one by one would take minutes: the predictions, in batches and
//! with their points, and the leaderboards before the last match. `tally` counts from the streams, and `standings`
//! builds the leaderboards of the last match.
//!
//! Everything is derived from the hour of the first start, and each step checks whether it is already done. So a stack
//! that was killed half-way resumes, and a later start only adds predictions for new matches.

mod clock;
mod fans;
mod forecasts;
mod rooms;
mod season;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::DisplayErrorContext;
use aws_sdk_dynamodb::types::{BatchStatementErrorCodeEnum, BatchStatementRequest};
use chrono::{DateTime, SubsecRound as _, TimeDelta, Utc};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::json;
use touchline::App;
use touchline::config::Config;
use touchline::domain::catalog::{Catalog, Match, Status};
use touchline::domain::standings::{Board, Row};
use touchline::domain::{Token, UserId};
use touchline::ports::clock::{Clock, SystemClock};
use touchline::storage::keys::STATS_SHARDS;
use touchline::storage::users::{Changes, NewUser, RegisterError, Session};
use touchline::storage::{Reads, catalog};

use crate::{calls, demo};
use clock::At;
pub(crate) use clock::{CatchUpOnDrop, TallyClock};
use fans::Fan;
use forecasts::{AHEAD, Guess, guess};
use season::Season;

/// How many writes run at the same time. Low, so that the stack can still serve requests.
const CONCURRENT: usize = 8;

/// After this many predictions, wait until the streams have delivered them. A delivery takes all records of a stream,
/// so a request that writes to the same table waits for all of them.
const WRITES_PER_DELIVERY: usize = 1_000;

/// The maximum number of statements in a batch.
const BATCH: usize = 25;

/// The timeout of an invocation. The clock of `standings` is fixed, so there it never expires.
const TIMEOUT: TimeDelta = TimeDelta::minutes(10);

/// A user registered with the phone of a fan. The fan's predictions would become the user's.
const NOT_A_FAN: &str = "a user has a phone from +44 1632 960000 to 960199, which the fans of the demo league have; start \
                         with --no-crowd, or with another data folder";

/// The pause between two reads of the queue of leaderboards.
const QUEUE_PAUSE: Duration = Duration::from_millis(10);

/// Fans skip matches that kick off within this time: the kick-off could come before all predictions are stored.
const TOO_LATE: TimeDelta = TimeDelta::minutes(5);

/// The fans of the demo league.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crowd {
    pub fans: usize,
    pub rooms: usize,
}

/// The apps of all functions, by name, each with its own permissions.
#[derive(Debug)]
pub(crate) struct Apps(pub(crate) BTreeMap<String, App>);

impl Apps {
    fn get(&self, function: &str) -> Result<&App, String> {
        self.0.get(function).ok_or_else(|| format!("the template has no function {function}"))
    }

    /// Returns the app of a function at another time.
    fn at(&self, function: &str, now: DateTime<Utc>) -> Result<App, String> {
        Ok(App { clock: Arc::new(At(now)), ..self.get(function)?.clone() })
    }
}

/// Brings the crowd up to date.
pub(crate) async fn gather(apps: &Apps, client: &Client, tally_clock: &TallyClock) -> Result<Crowd, String> {
    Gathering { apps, client }.run(tally_clock).await
}

/// A fan with the id of their user.
type Registered = (Fan, UserId);

struct Gathering<'a> {
    apps: &'a Apps,
    /// Writes batches of predictions.
    client: &'a Client,
}

impl Gathering<'_> {
    async fn run(&self, tally_clock: &TallyClock) -> Result<Crowd, String> {
        let login = self.apps.get("login")?;
        let first = login.store.phone_owner(&Fan(0).phone()).await.map_err(text)?;
        let season = match &first {
            Some(first) if first.created_at > SystemClock.now() - season::REGISTERED => {
                return Err(NOT_A_FAN.into());
            }
            Some(first) => Season::registered_at(first.created_at),
            None => Season::starting(SystemClock.now()),
        };
        let fans = self.register(season, first.is_none()).await?;
        let matches = async {
            self.play_season(season, &fans).await?;
            tally_clock.catch_up();
            self.predict_next_matches(&fans).await
        };
        let ((), rooms) = tokio::try_join!(matches, self.open_rooms(&fans))?;
        Ok(Crowd { fans: fans.len(), rooms })
    }

    /// Registers the fans who are not registered yet. The first one is registered first, because the season depends
    /// on them. The fans of a new stack need no look-up.
    async fn register(&self, season: Season, is_new: bool) -> Result<Vec<Registered>, String> {
        let first = self.register_fan(Fan(0), season, is_new).await?;
        let others: Vec<_> = fans::all().skip(1).map(|fan| self.register_fan(fan, season, is_new)).collect();
        let others: Vec<Registered> =
            delivered(stream::iter(others).buffered(CONCURRENT).try_collect()).await?;
        Ok([first].into_iter().chain(others).collect())
    }

    async fn register_fan(&self, fan: Fan, season: Season, is_new: bool) -> Result<Registered, String> {
        let at = season.registration() + TimeDelta::minutes(fan.0.into());
        let (login, teams) = (self.apps.at("login", at)?, &self.apps.get("teams")?.store);
        let known = if is_new { None } else { login.store.phone_owner(&fan.phone()).await.map_err(text)? };
        let user = match known {
            Some(owner) if owner.created_at.trunc_subsecs(0) != at => return Err(NOT_A_FAN.into()),
            Some(owner) => owner.user_id,
            None => new_user(&login, fan).await?,
        };
        // The team is stored last. A fan with a team has everything.
        if is_new || teams.chosen_team(user).await.map_err(text)?.is_none() {
            let changes = Changes { name: Some(fan.name()), ..Changes::default() };
            self.apps.get("profile")?.store.update_user(user, &changes, at).await.map_err(text)?;
            teams.save_primary_team(user, demo::team_id(fan.team()), at).await.map_err(text)?;
        }
        Ok((fan, user))
    }

    /// Plays the past season. Builds the leaderboards of all other matches before it settles the last one, so that the
    /// last build changes ranks.
    async fn play_season(&self, season: Season, fans: &[Registered]) -> Result<(), String> {
        let numbers = season.matches();
        let catalog = self.import(&numbers).await?;
        let events: Vec<&Match> =
            numbers.iter().filter_map(|number| catalog.event(demo::id(*number))).collect();
        let Some((last, others)) = events.split_last() else { return Ok(()) };
        if self.is_predicted(last, &catalog, fans).await? && self.is_built(last).await? {
            return Ok(());
        }
        let Some(second_last) = others.last() else { return Ok(()) };
        self.predict(others, &catalog, fans).await?;
        if !self.is_built(second_last).await? {
            self.publish_history(&season::boards(others)).await?;
        }
        self.predict(&[last], &catalog, fans).await?;
        self.build(last, &Board::of_match(last.tournament_id, last.start).collect()).await
    }

    /// Imports the matches that are not in the catalog.
    async fn import(&self, numbers: &[i64]) -> Result<Catalog, String> {
        let catalog = self.catalog().await?;
        let missing: Vec<i64> =
            numbers.iter().copied().filter(|number| catalog.event(demo::id(*number)).is_none()).collect();
        if missing.is_empty() {
            return Ok(catalog);
        }
        let feed = for_few_fans(self.apps.get("feed")?);
        let now = SystemClock.now();
        delivered(async {
            Box::pin(feed::handle(feed, demo::matches(&missing, now), now + TIMEOUT)).await.map_err(text)
        })
        .await?;
        self.catalog().await
    }

    async fn catalog(&self) -> Result<Catalog, String> {
        let loaded = catalog::load_latest(&self.apps.get("feed")?.store, None).await.map_err(text)?;
        loaded.map(|loaded| Catalog::clone(&loaded.catalog)).ok_or_else(|| "there is no catalog".into())
    }

    /// Stores the predictions for matches, unless they are stored. Those for finished matches have their points.
    async fn predict(&self, events: &[&Match], catalog: &Catalog, fans: &[Registered]) -> Result<(), String> {
        let mut open = Vec::new();
        for event in events {
            if !self.is_predicted(event, catalog, fans).await? {
                open.push(guesses(event, catalog, fans));
            }
        }
        // The last prediction of each match shows that all others are stored.
        let last: Vec<_> = open.iter_mut().filter_map(Vec::pop).collect();
        let mut others: Vec<_> = open.into_iter().flatten().collect();
        // `tally` adds the predictions of a user in one write if they are in one batch.
        others.sort_by_key(|(_, user, _)| *user);
        for wave in others.chunks(WRITES_PER_DELIVERY).chain([last.as_slice()]) {
            delivered(self.insert(wave)).await?;
        }
        Ok(())
    }

    /// Returns whether the predictions for a match are stored.
    async fn is_predicted(
        &self,
        event: &Match,
        catalog: &Catalog,
        fans: &[Registered],
    ) -> Result<bool, String> {
        let store = &self.apps.get("predictions")?.store;
        let guesses = guesses(event, catalog, fans);
        let Some((_, last, _)) = guesses.last() else { return Ok(true) };
        let last = store.prediction(event.id, event.shards, *last, Reads::Consistent).await;
        Ok(last.map_err(text)?.is_some())
    }

    /// Inserts predictions that are not stored yet, in batches. One by one, they would take minutes.
    async fn insert(&self, guesses: &[(&Match, UserId, Guess)]) -> Result<(), String> {
        let table = &self.apps.get("predictions")?.config.tables.predictions;
        let batches = guesses.chunks(BATCH).map(|batch| async move {
            let statement = |(event, user, guess): &(&Match, UserId, Guess)| {
                let statement = forecasts::insert_statement(table, event, *user, guess);
                BatchStatementRequest::builder().statement(statement).build().map_err(text)
            };
            let statements: Vec<_> = batch.iter().map(statement).collect::<Result<_, _>>()?;
            let done = self.client.batch_execute_statement().set_statements(Some(statements)).send().await;
            let done = done.map_err(|error| DisplayErrorContext(error).to_string())?;
            for error in done.responses.unwrap_or_default().into_iter().filter_map(|response| response.error)
            {
                if error.code != Some(BatchStatementErrorCodeEnum::DuplicateItem) {
                    return Err(format!("a prediction cannot be stored: {:?}", error.code));
                }
            }
            Ok(())
        });
        let batches: Vec<_> = batches.collect();
        stream::iter(batches).buffer_unordered(CONCURRENT).try_collect::<Vec<()>>().await.map(drop)
    }

    /// Returns whether the leaderboards that include a match are built.
    async fn is_built(&self, event: &Match) -> Result<bool, String> {
        let store = &self.apps.get("standings")?.store;
        for board in Board::of_match(event.tournament_id, event.start) {
            let built = store.built_board(board, Reads::Consistent).await.map_err(text)?;
            if built.is_none_or(|built| built.built_at < event.start) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Publishes leaderboards as they were after the matches. `standings` builds only those of its own time, and
    /// reads all statistics for each build.
    async fn publish_history(&self, boards: &BTreeMap<Board, DateTime<Utc>>) -> Result<(), String> {
        let store = &self.apps.get("standings")?.store;
        let mut rows: BTreeMap<Board, Vec<Row>> = boards.keys().map(|board| (*board, Vec::new())).collect();
        for shard in 0..STATS_SHARDS {
            let mut from = None;
            loop {
                let (users, next) = store.ranked_page(shard, from).await.map_err(text)?;
                for (board, row) in users.iter().flat_map(|(user, tally)| tally.rows(*user)) {
                    rows.entry(board).and_modify(|rows| rows.push(row));
                }
                from = next;
                if from.is_none() {
                    break;
                }
            }
        }
        for (board, mut rows) in rows {
            let at = boards[&board];
            rows.sort_unstable_by_key(|row| row.place);
            let latest = rows.iter().map(|row| row.place.reached).max().unwrap_or(0);
            let build = store.begin_build(board, at).await.map_err(text)?;
            let rows = rows.into_iter().map(Ok);
            store.publish_rows(board, build, rows, (latest, None), at).await.map_err(text)?;
        }
        Ok(())
    }

    /// Builds leaderboards as they were after a match.
    async fn build(&self, event: &Match, boards: &BTreeSet<Board>) -> Result<(), String> {
        let standings = self.apps.at("standings", event.start + demo::LENGTH)?;
        let store = standings.store.clone();
        store.queue_boards(boards, "crowd", standings.clock.now()).await.map_err(text)?;
        let deadline = standings.clock.now() + TIMEOUT;
        // After a build, the function waits for further points. There are none, so it is cancelled when it has built
        // all boards. It can stop at any point.
        let is_built = async {
            while !store.queued_boards().await.map_err(text)?.is_empty() {
                tokio::time::sleep(QUEUE_PAUSE).await;
            }
            Ok(())
        };
        delivered(async {
            tokio::select! {
                result = Box::pin(standings::handle(standings, json!({}), deadline)) => result.map(drop).map_err(text),
                result = is_built => result,
            }
        })
        .await
    }

    /// Stores the predictions for the live match and those of the next days.
    async fn predict_next_matches(&self, fans: &[Registered]) -> Result<(), String> {
        let (catalog, now) = (self.catalog().await?, SystemClock.now());
        let is_next = |event: &&Match| match event.status {
            Status::Live => true,
            Status::Scheduled => (now + TOO_LATE..now + AHEAD).contains(&event.start),
            _ => false,
        };
        let events: Vec<&Match> = catalog.events().filter(|event| demo::has(event)).filter(is_next).collect();
        self.predict(&events, &catalog, fans).await
    }
}

/// Returns an app for `feed` that gives featured matches one shard. Few fans predict the matches of the demo
/// league, and each shard has counters of its own, which take time.
pub(crate) fn for_few_fans(feed: &App) -> App {
    let config = Config { featured_shards: 1, ..(*feed.config).clone() };
    App { config: Arc::new(config), ..feed.clone() }
}

/// Returns the predictions of the fans for a match, in the order of the fans.
fn guesses<'a>(event: &'a Match, catalog: &Catalog, fans: &[Registered]) -> Vec<(&'a Match, UserId, Guess)> {
    let is_featured = catalog.tournament(event.tournament_id).is_some_and(|tournament| tournament.featured);
    let guessed = |(fan, user): &Registered| Some((event, *user, guess(*fan, event, is_featured)?));
    fans.iter().filter_map(guessed).collect()
}

/// Creates the user of a fan, as a first login does.
async fn new_user(login: &App, fan: Fan) -> Result<UserId, String> {
    let (now, phone) = (login.clock.now(), fan.phone());
    let id = login.store.draw_user_id().await.map_err(text)?;
    let token = Token::new(id, login.random.bytes());
    let lifetime = login.config.sessions.end(now, now) - now;
    let session = Session::starting(login.random.word(10), lifetime, now);
    for username in fan.usernames() {
        let new = NewUser {
            id,
            phone: &phone,
            username: &username,
            token: &token,
            session: &session,
            network: None,
            date_of_birth: None,
        };
        match login.store.register(&new, now).await {
            Ok(user) => return Ok(user.id),
            Err(RegisterError::PhoneOwned(owner)) => return Ok(owner.user_id),
            Err(RegisterError::NameTaken) => {}
            Err(RegisterError::Store(error)) => return Err(text(error)),
        }
    }
    Err(format!("every username of fan {} is taken", fan.0))
}

/// Runs `work`, and waits until its writes are delivered to the functions that read the streams.
async fn delivered<T>(work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    // In a debug build, the futures of the functions are too large for the stack of a thread.
    let (output, observed) = calls::observe(false, Box::pin(work)).await;
    observed.tickets.delivered().await;
    output
}

fn text(error: impl Display) -> String {
    error.to_string()
}
