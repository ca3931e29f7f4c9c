use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline::App;
use touchline::domain::UserId;
use touchline::domain::catalog::Score;
use touchline::domain::points::RULES;
use touchline::domain::prediction::{Confidence, Forecast, Pick, Stamp};
use touchline::domain::standings::table::{RankedRow, Table};
use touchline::domain::standings::{Board, Period, Row, Scope, UserTally};
use touchline::domain::tally::UserStats;
use touchline::ports::random::Random;
use touchline::storage::exactly_once::Addition;
use touchline::storage::predictions::NewPrediction;
use touchline::storage::sequence::Sequence;
use touchline::storage::settlements::Due;
use touchline::storage::standings::{OwnRow, Window};
use touchline::storage::tallies::Aggregate;
use touchline::storage::{Reads, StoreError};
use touchline_testing::{Fault, SeededRandom, TestApp};

use crate::StandingsError;
use crate::build::Limits;
use crate::workers::{InProcess, Task, Workers, work};

const SHARDS: u8 = 4;

/// A match of the test: its tournament, its kick-off and its result.
#[derive(Debug, Clone)]
struct Game {
    tournament: u32,
    start: DateTime<Utc>,
    result: Option<(u16, u16)>,
}

/// A league whose boards are compared with a full sort.
struct League {
    app: TestApp,
    games: BTreeMap<u32, Game>,
    /// The score that each user predicts for each match.
    guesses: BTreeMap<(u32, u32), (u16, u16)>,
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().unwrap()
}

impl League {
    async fn new() -> Self {
        let app = TestApp::serving(&[]).start().await;
        let league = Self { app, games: BTreeMap::new(), guesses: BTreeMap::new() };
        league
            .import(json!({
                "format": "touchline",
                "sports": [{ "id": 1, "name": "Football" }],
                "tournaments": [{ "id": 1, "name": "Harbour League" }, { "id": 2, "name": "Harbour Cup" }],
                "teams": [
                    { "id": 1, "name": "Northgate Rovers", "sport_id": 1 },
                    { "id": 2, "name": "Westport Albion", "sport_id": 1 },
                ],
            }))
            .await;
        league
    }

    async fn import(&self, document: Value) {
        let report = self.app.invoke(feed::handle, document).await;
        assert_eq!(report["rejected"], 0, "{report}");
        self.app.clock.advance(TimeDelta::seconds(1));
    }

    /// Imports a match without a result.
    async fn schedule(&mut self, id: u32, tournament: u32, start: &str) {
        self.games.insert(id, Game { tournament, start: at(start), result: None });
        self.import_game(id, "scheduled").await;
    }

    async fn import_game(&self, id: u32, status: &str) {
        let Game { tournament, start, result } = &self.games[&id];
        let event = json!({
            "id": id, "tournament_id": tournament, "home_team_id": 1, "away_team_id": 2,
            "start_time": start.to_rfc3339(), "status": status,
            "home_score": result.map(|score| score.0), "away_score": result.map(|score| score.1),
        });
        self.import(json!({ "format": "touchline", "events": [event] })).await;
    }

    async fn predict(&mut self, user: u32, event: u32, (home, away): (u16, u16)) {
        self.guesses.insert((user, event), (home, away));
        let score = Score { home, away };
        let new = NewPrediction {
            event_id: event,
            shards: SHARDS,
            user_id: UserId(user),
            forecast: Forecast::new(Pick::of(score), Some(score)).unwrap(),
            confidence: Confidence::default(),
            stamp: Stamp::new(self.app.clock.now(), user),
        };
        self.app.store.predict(&new).await.unwrap();
    }

    /// Gives a match a result, or takes it back, and awards the points.
    async fn settle(&mut self, event: u32, result: Option<(u16, u16)>) {
        self.games.get_mut(&event).unwrap().result = result;
        self.import_game(event, if result.is_some() { "finished" } else { "abandoned" }).await;
        self.app.clock.advance(TimeDelta::minutes(1));
        self.app.invoke(points::handle, json!({})).await;
        self.count().await;
    }

    /// Lets `tally` process all changes: first the points, then the statistics.
    async fn count(&self) {
        for _ in 0..2 {
            let changes = self.app.changes(&self.app.config.tables.predictions).await;
            let counted = self.app.invoke(tally::handle, changes).await;
            assert_eq!(counted["batchItemFailures"], json!([]));
        }
    }

    async fn build(&self) -> Vec<String> {
        let built = self.app.invoke(crate::handle, json!({})).await;
        serde_json::from_value(built["boards"].clone()).unwrap()
    }

    /// Returns all rows of a board, in order.
    async fn rows(&self, board: Board) -> Vec<RankedRow> {
        match self.app.store.built_board(board, Reads::Consistent).await.unwrap() {
            Some(built) => self.app.store.board_rows(&built).await.unwrap(),
            None => Vec::new(),
        }
    }

    /// Calculates all boards from the predictions and the results.
    fn expected(&self) -> BTreeMap<Board, BTreeMap<u32, UserStats>> {
        let mut boards: BTreeMap<Board, BTreeMap<u32, UserStats>> = BTreeMap::new();
        for ((user, event), (home, away)) in &self.guesses {
            let game = &self.games[event];
            let Some((home_result, away_result)) = game.result else { continue };
            let guess = Score { home: *home, away: *away };
            let forecast = Forecast::new(Pick::of(guess), Some(guess)).unwrap();
            let points = RULES.points(&forecast, Score { home: home_result, away: away_result });
            for board in Board::of_match(game.tournament, game.start) {
                *boards.entry(board).or_default().entry(*user).or_default() += UserStats {
                    settled: 1,
                    correct: i64::from(points > 0),
                    points: i64::from(points),
                    exact: i64::from((*home, *away) == (home_result, away_result)),
                };
            }
        }
        boards
    }

    /// Compares each open board with a full sort, and each rank with the rank that two reads give.
    async fn check(&self) {
        let now = self.app.clock.now();
        for (board, users) in self.expected().into_iter().filter(|(board, _)| !board.is_closed(now)) {
            let rows = self.rows(board).await;
            let counts: BTreeMap<u32, UserStats> =
                rows.iter().map(|ranked| (ranked.row.place.user.0, ranked.row.stats())).collect();
            assert_eq!(counts, users, "{board}");
            let order = |ranked: &RankedRow| ranked.row.place;
            assert!(rows.is_sorted_by_key(order), "{board}: {rows:?}");
            for ranked in &rows {
                let points = ranked.row.place.points;
                let better = users.values().filter(|other| other.points > i64::from(points)).count();
                assert_eq!(ranked.rank as usize, better + 1, "{board}: {ranked:?}");
                let found = self.app.store.rank(board, points).await.unwrap();
                assert_eq!(found, Some(ranked.rank), "{board}: {ranked:?}");
            }
        }
    }
}

fn board(name: &str) -> Board {
    name.parse().unwrap()
}

/// Returns the rank, the user and the movement of each row.
fn places(rows: &[RankedRow]) -> Vec<(u32, u32, Option<i64>)> {
    rows.iter().map(|ranked| (ranked.rank, ranked.row.place.user.0, ranked.moved())).collect()
}

#[tokio::test(start_paused = true)]
async fn a_settlement_moves_users_and_a_correction_takes_its_points_back() {
    let mut league = League::new().await;
    league.schedule(1, 1, "2026-11-15T15:00:00Z").await;
    league.schedule(2, 2, "2026-12-31T23:30:00Z").await;
    for (user, first, second) in [(1, (2, 1), (0, 1)), (2, (1, 0), (2, 2)), (3, (0, 0), (2, 2))] {
        league.predict(user, 1, first).await;
        league.predict(user, 2, second).await;
    }
    league.settle(1, Some((2, 1))).await;
    assert_eq!(
        league.build().await,
        [
            "g.all",
            "g.s2026",
            "g.m2026-11",
            "g.d2026-11-15",
            "t1.all",
            "t1.s2026",
            "t1.m2026-11",
            "t1.d2026-11-15"
        ]
    );
    league.check().await;
    assert_eq!(places(&league.rows(Board::GLOBAL).await), [(1, 1, None), (2, 2, None), (3, 3, None)]);
    assert_eq!(league.build().await, Vec::<String>::new(), "nothing has changed");

    league.settle(2, Some((2, 2))).await;
    league.build().await;
    league.check().await;
    // User 2 has 3 + 4 points, users 1 and 3 have 4 each. User 1 reached them first.
    assert_eq!(
        places(&league.rows(Board::GLOBAL).await),
        [(1, 2, Some(1)), (2, 1, Some(-1)), (2, 3, Some(1))]
    );
    assert_eq!(places(&league.rows(board("t2.m2026-12")).await), [(1, 2, None), (1, 3, None), (3, 1, None)]);
    assert_eq!(
        league.app.store.latest_matchday(Scope::Global).await.unwrap(),
        Some(at("2026-11-15T00:00:00Z").date_naive()),
        "a day in the future is no matchday with results"
    );

    // The correction: a home win in match 2.
    league.settle(2, Some((0, 1))).await;
    league.build().await;
    league.check().await;
    assert_eq!(
        places(&league.rows(Board::GLOBAL).await),
        [(1, 1, Some(1)), (2, 2, Some(-1)), (3, 3, Some(-1))]
    );

    // Match 1 is abandoned after all. Only the points of match 2 stay.
    league.settle(1, None).await;
    league.build().await;
    league.check().await;
    assert!(league.rows(board("t1.all")).await.is_empty());
    assert_eq!(places(&league.rows(Board::GLOBAL).await).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_match_that_moves_to_another_month_takes_its_points_with_it() {
    let mut league = League::new().await;
    league.schedule(1, 1, "2026-11-30T20:00:00Z").await;
    league.predict(1, 1, (2, 1)).await;
    league.settle(1, Some((2, 1))).await;
    league.build().await;
    league.games.get_mut(&1).unwrap().start = at("2026-12-01T00:00:00Z");
    league.settle(1, Some((3, 1))).await;
    league.build().await;
    league.check().await;
    assert!(league.rows(board("g.m2026-11")).await.is_empty());
    assert_eq!(league.rows(board("g.m2026-12")).await[0].row.place.points, 2);
}

#[tokio::test(start_paused = true)]
async fn a_closed_period_stays_as_it_was() {
    let mut league = League::new().await;
    league.schedule(1, 1, "2026-11-15T15:00:00Z").await;
    league.predict(1, 1, (2, 1)).await;
    league.predict(2, 1, (1, 2)).await;
    league.settle(1, Some((2, 1))).await;
    league.build().await;
    let matchday = board("g.d2026-11-15");
    let closed = league.rows(matchday).await;
    assert_eq!(places(&closed), [(1, 1, None), (2, 2, None)]);
    league.app.clock.advance(TimeDelta::days(4));
    league.settle(1, Some((1, 2))).await;
    assert!(!league.build().await.contains(&matchday.to_string()));
    assert_eq!(league.rows(matchday).await, closed);
    assert_eq!(places(&league.rows(board("g.m2026-11")).await), [(1, 2, Some(1)), (2, 1, Some(-1))]);
    // The next change of the statistics removes the counters of the closed period, and the board still stays.
    league.app.clock.advance(TimeDelta::days(1));
    league.schedule(2, 1, "2026-11-21T15:00:00Z").await;
    league.predict(1, 2, (0, 0)).await;
    league.settle(2, Some((0, 0))).await;
    league.build().await;
    league.check().await;
    assert_eq!(league.rows(matchday).await, closed);
    let tally = league.app.store.ranked_tally(UserId(1)).await.unwrap();
    assert!(!tally.boards.contains_key(&matchday), "{tally:?}");
    assert!(tally.boards.contains_key(&board("g.d2026-11-21")));
}

/// Random predictions, results, corrections and voids. After every settlement, all boards equal a full sort.
#[tokio::test(start_paused = true)]
async fn every_rank_equals_a_full_sort_after_every_settlement() {
    const STARTS: [&str; 5] = [
        "2026-11-15T15:00:00Z",
        "2026-11-15T23:59:59Z",
        "2026-12-31T23:59:59Z",
        "2027-01-01T00:00:00Z",
        "2027-07-01T00:00:00Z",
    ];
    for seed in 0..2 {
        let random: &dyn Random = &SeededRandom::new(seed);
        let below = |limit: u32| random.number() % limit;
        let score = || (u16::try_from(below(3)).unwrap(), u16::try_from(below(3)).unwrap());
        let mut league = League::new().await;
        for (id, start) in (1..).zip(STARTS) {
            league.schedule(id, 1 + below(2), start).await;
            for user in 1..=9 {
                if below(4) > 0 {
                    league.predict(user, id, score()).await;
                }
            }
        }
        for _ in 0..6 {
            let event = 1 + below(5);
            let result = (below(5) > 0).then(score);
            league.settle(event, result).await;
            league.build().await;
            league.check().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_rows_around_a_user_and_the_pages_are_consecutive_parts_of_the_board() {
    let app = TestApp::serving(&[]).start().await;
    let stats = |user: u32| UserStats {
        settled: 9,
        correct: 3,
        points: i64::from(user % 7),
        exact: i64::from(user % 2),
    };
    let rows: Vec<Row> =
        (1..=1_000).map(|user| Row::of(UserId(user), &stats(user), user / 3).unwrap()).collect();
    let table = Table::new(rows);
    let all: Vec<RankedRow> = table.ranked().collect();
    let number = app.store.begin_build(Board::GLOBAL, app.clock.now()).await.unwrap();
    assert!(app.store.publish_board(Board::GLOBAL, number, &table, app.clock.now()).await.unwrap());
    let read = async |window, own| {
        app.store.board_window(Board::GLOBAL, None, window, own).await.unwrap().unwrap().1
    };
    for position in [0, 3, 139, 140, 141, 500, 994, 999] {
        let own = all[position].row.place;
        let around = read(Window::AroundOwn { each_side: 5 }, Some(own)).await;
        let expected = &all[position.saturating_sub(5)..(position + 6).min(1_000)];
        assert_eq!((around.rows.as_slice(), around.own), (expected, Some(OwnRow::Built(all[position]))));
    }
    let (mut after, mut paged) = (None, Vec::new());
    loop {
        let page = read(Window::Page { after, limit: 70 }, None).await;
        after = page.rows.last().map(|last| last.row.place);
        paged.extend(page.rows);
        if !page.has_more {
            break;
        }
    }
    assert_eq!(paged, all);
    // Points that the build does not have yet.
    let newer = Row::of(UserId(1), &UserStats { points: 5, ..stats(1) }, 9_999).unwrap();
    let own = read(Window::Page { after: None, limit: 1 }, Some(newer.place)).await.own;
    assert_eq!(own, Some(OwnRow::Changed { rank: app.store.rank(Board::GLOBAL, 5).await.unwrap().unwrap() }));
}

#[tokio::test(start_paused = true)]
async fn a_slow_build_does_not_replace_a_later_one() {
    let app = TestApp::serving(&[]).start().await;
    let table = |points| {
        let stats = UserStats { settled: 1, points, ..UserStats::default() };
        Table::new(vec![Row::of(UserId(1), &stats, 0).unwrap()])
    };
    let store = &app.store;
    let (slow, fast) = (
        store.begin_build(Board::GLOBAL, app.clock.now()).await.unwrap(),
        store.begin_build(Board::GLOBAL, app.clock.now()).await.unwrap(),
    );
    assert!(store.publish_board(Board::GLOBAL, fast, &table(7), app.clock.now()).await.unwrap());
    assert!(!store.publish_board(Board::GLOBAL, slow, &table(3), app.clock.now()).await.unwrap());
    let built = store.built_board(Board::GLOBAL, Reads::Consistent).await.unwrap().unwrap();
    assert_eq!(store.board_rows(&built).await.unwrap()[0].row.place.points, 7);
}

/// Stops a run at every store call, and checks after each stop that readers see a whole board. `skipped` are calls that only
/// read further shards of the statistics. Returns the number of calls of a run.
async fn stop_at_every_call(limits: Limits, skipped: std::ops::Range<u32>) -> u32 {
    let mut league = League::new().await;
    league.schedule(1, 1, "2026-11-15T15:00:00Z").await;
    for user in 1..=3 {
        league.predict(user, 1, (u16::try_from(user).unwrap(), 0)).await;
    }
    league.settle(1, Some((1, 0))).await;
    league.build().await;
    let before = league.rows(Board::GLOBAL).await;
    league.settle(1, Some((3, 0))).await;
    let mut stopped = 0;
    loop {
        let mut calls = 0;
        league.app.faults.set(move |_| {
            calls += 1;
            if calls > stopped { Fault::FailBefore } else { Fault::None }
        });
        let run = run_with(&league.app, json!({}), InProcess(App::clone(&league.app)), limits).await;
        league.app.faults.clear();
        let rows = league.rows(Board::GLOBAL).await;
        let is_new = places(&rows) == [(1, 3, Some(1)), (2, 2, Some(0)), (2, 1, Some(-1))];
        assert!(rows == before || is_new, "after {stopped} calls: {rows:?}");
        if run.is_ok() {
            break;
        }
        stopped += if skipped.contains(&stopped) { 10 } else { 1 };
        // The slots of the builds that have stopped are free again after eleven minutes.
        league.app.clock.advance(TimeDelta::minutes(11));
    }
    league.build().await;
    league.check().await;
    stopped
}

#[tokio::test(start_paused = true)]
async fn a_build_that_stops_at_any_store_call_is_repeated_and_readers_see_whole_boards() {
    let calls = stop_at_every_call(Limits::DEFAULT, 25..140).await;
    assert!(calls > 180, "the run made only {calls} calls");
}

#[tokio::test(start_paused = true)]
async fn a_build_by_workers_that_stops_at_any_store_call_is_repeated_and_readers_see_whole_boards() {
    let limits = Limits { users_in_one_process: 2, users_per_worker: 1, one_in: 1 };
    let calls = stop_at_every_call(limits, 25..130).await;
    assert!(calls > 210, "the run made only {calls} calls");
}

/// Divides the users of a test over workers.
const FAN_OUT: Limits = Limits { users_in_one_process: 2, users_per_worker: 20, one_in: 1 };

async fn run_with(
    app: &TestApp,
    event: Value,
    workers: impl Workers,
    limits: Limits,
) -> Result<Value, StandingsError> {
    crate::handle_with(app, event, app.clock.now() + TimeDelta::minutes(5), workers, limits).await
}

/// The boards of the users of [`put_users`].
fn all_boards() -> BTreeSet<Board> {
    Board::of_match(7, at("2026-11-15T15:00:00Z")).collect()
}

/// Adds points to the statistics of users. Many of them have the same points. A third of them is only on the board of all
/// matches.
async fn put_users(app: &TestApp, users: u32, settlement: u32) {
    let boards = all_boards();
    for user in (1..=users).filter(|user| settlement == 1 || user % 3 == 2) {
        let points = i64::from(user.wrapping_mul(0x9e37_79b1 ^ settlement) % 11);
        let stats = UserStats { settled: 1, correct: 1, points, exact: points % 2 };
        let others = boards.iter().filter(|board| **board != Board::GLOBAL && user % 3 != 1);
        let reached = 1_794_000_000 + i64::from(settlement * 7_200 + user % 4);
        let counts = UserTally {
            stats,
            boards: others.map(|board| (*board, stats)).collect(),
            reached: boards.iter().map(|board| (*board, reached)).collect(),
        };
        let sequence = Sequence::parse(&settlement.to_string()).unwrap();
        let addition = Addition { sequence, counts, sighting: None };
        let aggregate = Aggregate::User(UserId(user));
        app.store.fold(&aggregate, "1794744000000-a1b2c3d4", &[addition], app.clock.now()).await.unwrap();
    }
}

/// The records of two matches can be counted in any order, because they come from different shards of the stream.
#[tokio::test(start_paused = true)]
async fn records_counted_out_of_order_keep_the_latest_time_at_which_points_were_reached() {
    let app = TestApp::serving(&[]).start().await;
    let board = board("t1.all");
    let fold = async |shard: &str, points, reached| {
        let stats = UserStats { settled: 1, correct: 1, points, exact: 0 };
        let counts = UserTally {
            stats,
            boards: [(board, stats)].into(),
            reached: [(board, reached), (Board::GLOBAL, reached - 50)].into(),
        };
        let addition = Addition { sequence: Sequence::parse("7").unwrap(), counts, sighting: None };
        app.store.fold(&Aggregate::User(UserId(1)), shard, &[addition], app.clock.now()).await.unwrap();
    };
    for (shard, points, reached, expected) in [
        ("1794744000000-a1b2c3d4", 2, 1_794_000_200, (2, 1_794_000_200)),
        ("1794744000000-b1b2c3d4", 3, 1_794_000_100, (5, 1_794_000_200)),
        // A redelivery adds nothing.
        ("1794744000000-b1b2c3d4", 3, 1_794_000_100, (5, 1_794_000_200)),
        ("1794744000000-c1b2c3d4", 4, 1_794_000_300, (9, 1_794_000_300)),
    ] {
        fold(shard, points, reached).await;
        let tally = app.store.ranked_tally(UserId(1)).await.unwrap();
        assert_eq!((tally.boards[&board].points, tally.reached[&board]), expected);
        assert_eq!((tally.stats.points, tally.reached[&Board::GLOBAL]), (expected.0, expected.1 - 50));
    }
}

async fn queue_all(app: &TestApp) {
    app.store.queue_boards(&all_boards(), "test", app.clock.now()).await.unwrap();
}

async fn rows_of(app: &TestApp) -> BTreeMap<Board, Vec<RankedRow>> {
    let mut boards = BTreeMap::new();
    for board in all_boards() {
        let built = app.store.built_board(board, Reads::Consistent).await.unwrap();
        let rows = match built {
            Some(built) => app.store.board_rows(&built).await.unwrap(),
            None => Vec::new(),
        };
        boards.insert(board, rows);
    }
    boards
}

#[tokio::test(start_paused = true)]
async fn workers_build_the_same_boards_as_one_process() {
    let mut found = Vec::new();
    for limits in [Limits::DEFAULT, Limits { users_in_one_process: 500, users_per_worker: 200, one_in: 1 }] {
        let app = TestApp::serving(&[]).start().await;
        for settlement in 1..=3 {
            put_users(&app, 1_200, settlement).await;
            queue_all(&app).await;
            let calls = Arc::default();
            let workers = Recorded { app: App::clone(&app), tasks: Arc::clone(&calls) };
            let built = run_with(&app, json!({}), workers, limits).await.unwrap();
            assert_eq!(built["boards"].as_array().unwrap().len(), 8);
            let calls = calls.lock().unwrap().len();
            // The first build finds more users than it expected, and divides them into 64 groups. The others know the number.
            let expected = match settlement {
                _ if limits.users_in_one_process > 1_200 => 0,
                1 => 64 + 8,
                _ => 8 + 8,
            };
            assert_eq!(calls, expected, "settlement {settlement}");
            found.push((settlement, rows_of(&app).await));
        }
    }
    let (alone, divided) = found.split_at(3);
    assert!(alone == divided, "the boards differ");
    let global = &alone[2].1[&Board::GLOBAL];
    assert_eq!(global.len(), 1_200);
    assert!(global.iter().any(|ranked| ranked.moved().is_some_and(|moved| moved > 0)));
    assert!(alone[2].1[&board("t7.all")].len() < 1_200);
}

/// Carries tasks out in this process, and keeps them.
struct Recorded {
    app: App,
    tasks: Arc<Mutex<Vec<Task>>>,
}

impl Workers for Recorded {
    async fn call(&self, task: Task) -> Result<Value, StandingsError> {
        self.tasks.lock().unwrap().push(task.clone());
        // A worker gets its task as JSON.
        let payload = serde_json::to_value(&task).unwrap();
        crate::handle(self.app.clone(), payload, self.app.clock.now() + TimeDelta::minutes(5)).await
    }
}

/// Carries each task out twice, and returns the first or the second result.
struct Duplicated {
    app: App,
    returns_first: bool,
}

impl Workers for Duplicated {
    async fn call(&self, task: Task) -> Result<Value, StandingsError> {
        let first = work(&self.app, task.clone()).await;
        let second = work(&self.app, task).await;
        if self.returns_first { first } else { second }
    }
}

#[tokio::test(start_paused = true)]
async fn duplicates_of_workers_never_change_a_board_halfway() {
    let app = TestApp::serving(&[]).start().await;
    put_users(&app, 60, 1).await;
    queue_all(&app).await;
    app.invoke(crate::handle, json!({})).await;
    let before = rows_of(&app).await;
    put_users(&app, 60, 2).await;
    queue_all(&app).await;
    // The second collection has replaced the rows of the first one.
    let workers = Duplicated { app: App::clone(&app), returns_first: true };
    let run = run_with(&app, json!({}), workers, FAN_OUT).await;
    assert!(matches!(run, Err(StandingsError::Store(StoreError::Contended { .. }))), "{run:?}");
    assert_eq!(rows_of(&app).await, before);
    assert_eq!(app.store.queued_boards().await.unwrap().len(), 1, "the boards stay queued");
    // The second publication of a board fails, and the first one was whole.
    let workers = Duplicated { app: App::clone(&app), returns_first: false };
    let run = run_with(&app, json!({}), workers, FAN_OUT).await;
    assert!(matches!(run, Err(StandingsError::Worker(_))), "{run:?}");
    let after = rows_of(&app).await;
    assert!(after.iter().all(|(board, rows)| *rows != before[board]), "a board was not published");
    // The next run builds all of them again.
    run_with(&app, json!({}), InProcess(App::clone(&app)), FAN_OUT).await.unwrap();
    assert_eq!(rows_of(&app).await, after);
    assert_eq!(app.store.queued_boards().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn late_workers_of_an_older_build_change_nothing() {
    let app = TestApp::serving(&[]).start().await;
    let mut late = Vec::new();
    for settlement in 1..=4 {
        put_users(&app, 40, settlement).await;
        queue_all(&app).await;
        let tasks = Arc::default();
        let workers = Recorded { app: App::clone(&app), tasks: Arc::clone(&tasks) };
        let limits = if settlement == 1 { Limits::DEFAULT } else { FAN_OUT };
        run_with(&app, json!({}), workers, limits).await.unwrap();
        late.extend(tasks.lock().unwrap().iter().cloned());
        let built = rows_of(&app).await;
        // The workers of all builds so far run again. Later builds have used the slots of the first ones.
        for task in &late {
            let result = work(&app, task.clone()).await;
            if let Task::Publish(_) = task {
                assert!(!matches!(&result, Ok(published) if *published == true), "{task:?}: {result:?}");
            }
        }
        assert_eq!(rows_of(&app).await, built, "settlement {settlement}");
    }
    // Later than the process that began the build, a worker does not even begin.
    app.clock.advance(TimeDelta::minutes(5));
    for task in late {
        let result = work(&app, task).await;
        assert!(
            matches!(&result, Err(StandingsError::Worker(reason)) if reason == "the build has ended"),
            "{result:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_worker_does_not_replace_the_rows_of_a_later_build() {
    let app = TestApp::serving(&[]).start().await;
    let begin = async || app.store.begin_build(Board::GLOBAL, app.clock.now()).await.unwrap();
    let stats =
        |user: u32| UserStats { settled: 1, points: i64::from(90_000 - user), ..UserStats::default() };
    let rows: Vec<Row> =
        (1..=90_000).map(|user| Row::of(UserId(user), &stats(user), user).unwrap()).collect();
    let put =
        async |build, attempt, rows: &[Row]| app.store.put_run(Board::GLOBAL, build, 3, attempt, rows).await;
    let old = begin().await;
    // The reservation of the slot has ended.
    app.clock.advance(TimeDelta::minutes(11));
    let new = begin().await;
    let run = put(new, 1, &rows).await.unwrap();
    assert!(put(old, 2, &rows[..9]).await.is_err());
    let read = async || app.store.run(Board::GLOBAL, new, &run).await;
    let decoded: Result<Vec<Row>, _> = read().await.unwrap().collect();
    assert_eq!(decoded.as_ref().map(Vec::len), Ok(90_000));
    assert_eq!(decoded, Ok(rows.clone()));
    // A duplicate of the worker that has replaced only the first chunk.
    put(new, 2, &rows[..9]).await.unwrap();
    assert!(matches!(read().await, Err(StoreError::Contended { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_cached_head_is_used_for_two_seconds_and_read_again_when_its_parts_are_gone() {
    let app = TestApp::serving(&[]).start().await;
    let clock = app.clock.clone();
    let cached = app.store.clone().caching_recent_items(move || clock.now());
    let publish = async |points: i64| {
        let stats = UserStats { settled: 1, points, ..UserStats::default() };
        let rows = (1..=9).map(|user| Row::of(UserId(user), &stats, 0).unwrap()).collect();
        let build = app.store.begin_build(Board::GLOBAL, app.clock.now()).await.unwrap();
        assert!(
            app.store.publish_board(Board::GLOBAL, build, &Table::new(rows), app.clock.now()).await.unwrap()
        );
    };
    // Nine users have more points, or none.
    let rank = async || cached.rank(Board::GLOBAL, 5).await.unwrap();
    assert_eq!(rank().await, None);
    publish(8).await;
    assert_eq!(rank().await, Some(10));
    publish(3).await;
    assert_eq!(rank().await, Some(10), "the build before");
    // The next build uses the slot of the one before.
    publish(3).await;
    assert_eq!(rank().await, Some(1));
    publish(8).await;
    app.clock.advance(TimeDelta::milliseconds(1_999));
    assert_eq!(rank().await, Some(1), "the build before");
    app.clock.advance(TimeDelta::milliseconds(1));
    assert_eq!(rank().await, Some(10));
}

#[tokio::test(start_paused = true)]
async fn boards_wait_for_the_end_of_a_settlement_but_not_for_ever() {
    let mut league = League::new().await;
    league.schedule(1, 1, "2026-11-15T15:00:00Z").await;
    league.predict(1, 1, (1, 0)).await;
    league.settle(1, Some((1, 0))).await;
    let store = &league.app.store;
    let due = Due { event_id: 9, revision: 1, since: league.app.clock.now(), is_published: true };
    store.put_due(&due).await.unwrap();
    store.begin_settlement(9, 1, 1, false, league.app.clock.now()).await.unwrap();
    league.app.clock.advance(TimeDelta::minutes(1));
    assert_eq!(league.build().await, Vec::<String>::new());
    league.app.clock.advance(TimeDelta::minutes(16));
    assert_eq!(league.build().await.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn boards_that_are_queued_during_a_build_stay_queued() {
    let app = TestApp::serving(&[]).start().await;
    let (store, now) = (&app.store, app.clock.now());
    let boards = BTreeSet::from([Board::GLOBAL]);
    let queue = async || store.queue_boards(&boards, "test", now).await.unwrap();
    queue().await;
    let slow = store.queued_boards().await.unwrap();
    let fast = store.queued_boards().await.unwrap();
    // The fast run ends, and the boards change again. The slow run has not seen this change.
    store.unqueue_boards(&fast[0]).await.unwrap();
    assert_eq!(store.queued_boards().await.unwrap(), []);
    queue().await;
    store.unqueue_boards(&slow[0]).await.unwrap();
    assert_eq!(store.queued_boards().await.unwrap()[0].boards, boards);
}

#[tokio::test(start_paused = true)]
async fn builds_under_way_never_share_a_slot_with_each_other_or_with_the_published_one() {
    let app = TestApp::serving(&[]).start().await;
    let store = &app.store;
    let table = |points| {
        let stats = UserStats { settled: 1, points, ..UserStats::default() };
        Table::new(vec![Row::of(UserId(1), &stats, 0).unwrap()])
    };
    let begin = async || store.begin_build(Board::GLOBAL, app.clock.now()).await;
    let publish = async |build, points| {
        store.publish_board(Board::GLOBAL, build, &table(points), app.clock.now()).await.unwrap()
    };
    let published = begin().await.unwrap();
    assert!(publish(published, 7).await);
    let mut under_way = Vec::new();
    for _ in 0..5 {
        under_way.push(begin().await.unwrap());
    }
    assert!(matches!(begin().await, Err(StoreError::Contended { .. })), "all slots are in use");
    // Their parts do not replace those of the published build, or of each other.
    let last = under_way.pop().unwrap();
    assert!(publish(last, 9).await);
    for build in under_way {
        assert!(!publish(build, 3).await);
    }
    let built = store.built_board(Board::GLOBAL, Reads::Consistent).await.unwrap().unwrap();
    assert_eq!(store.board_rows(&built).await.unwrap()[0].row.place.points, 9);
    app.clock.advance(TimeDelta::minutes(10));
    begin().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_operator_rebuilds_all_open_boards() {
    let mut league = League::new().await;
    league.schedule(1, 1, "2026-11-15T15:00:00Z").await;
    league.predict(1, 1, (1, 0)).await;
    league.settle(1, Some((1, 0))).await;
    league.build().await;
    let rebuilt = league.app.invoke(crate::handle, json!({ "rebuild": true })).await;
    assert_eq!(rebuilt["boards"].as_array().unwrap().len(), 8);
    let wrong = league.app.try_invoke(crate::handle, json!({ "rebuld": true })).await;
    assert!(matches!(wrong, Err(StandingsError::InvalidPayload(_))), "{wrong:?}");
}

#[tokio::test(start_paused = true)]
async fn a_user_who_is_taken_off_the_boards_comes_back_with_the_same_points() -> Result<(), StoreError> {
    let mut league = League::new().await;
    league.schedule(1, 1, "2026-11-15T15:00:00Z").await;
    for user in 1..=3 {
        league.predict(user, 1, (u16::try_from(user).unwrap(), 0)).await;
    }
    league.settle(1, Some((2, 0))).await;
    league.build().await;
    let before: Vec<_> = league.rows(Board::GLOBAL).await.iter().map(|ranked| ranked.row.place).collect();
    league.app.store.set_ranked(UserId(2), false).await?;
    league.count().await;
    assert_eq!(league.build().await.len(), 8, "all boards of the user");
    let others: Vec<u32> =
        league.rows(Board::GLOBAL).await.iter().map(|ranked| ranked.row.place.user.0).collect();
    assert_eq!(others, [1, 3]);
    assert_eq!(league.app.store.ranked_tally(UserId(2)).await?.row(UserId(2), Board::GLOBAL), None);
    league.app.store.set_ranked(UserId(2), true).await?;
    league.count().await;
    league.build().await;
    let after: Vec<_> = league.rows(Board::GLOBAL).await.iter().map(|ranked| ranked.row.place).collect();
    assert_eq!(after, before);
    assert_eq!(Board { scope: Scope::Global, period: Period::All }, Board::GLOBAL);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn only_one_build_by_workers_runs_at_a_time_and_the_boards_stay_queued() {
    let mut league = League::new().await;
    league.schedule(1, 1, "2026-11-15T15:00:00Z").await;
    league.predict(1, 1, (1, 0)).await;
    league.settle(1, Some((1, 0))).await;
    let (store, now) = (&league.app.store, league.app.clock.now());
    let until = now + TimeDelta::minutes(3);
    assert!(store.lease_workers(now, until).await.unwrap());
    let limits = Limits { users_in_one_process: 0, users_per_worker: 1, one_in: 1 };
    let deadline = now + TimeDelta::minutes(5);
    let run = async || {
        let workers = InProcess((*league.app).clone());
        crate::handle_with(&league.app, json!({}), deadline, workers, limits).await.unwrap()
    };
    assert_eq!(run().await["boards"], json!([]));
    store.end_lease(until).await.unwrap();
    assert_eq!(run().await["boards"].as_array().unwrap().len(), 8);
    assert!(store.lease_workers(now, until).await.unwrap(), "the run has ended its lease");
}
