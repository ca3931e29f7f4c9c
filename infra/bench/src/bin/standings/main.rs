//! Measures what a leaderboard costs with 1,000, 100,000 and 10,000,000 users, and compares every rank with a full sort. Then
//! measures the tables of two rooms, and the two kinds of workers that build leaderboards of 10,000,000 users, each in a
//! process of its own.
//!
//! `standings-bench [--quick] [--write | --check]`

#![expect(clippy::print_stdout, reason = "prints its results")]
#![expect(clippy::disallowed_methods, reason = "measures time")]

mod room;
mod users;
mod worker;

use std::collections::BTreeMap;
use std::time::Instant;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::json;
use touchline::domain::UserId;
use touchline::domain::standings::table::Table;
use touchline::domain::standings::{Board, Row, UserTally};
use touchline::storage::exactly_once::Addition;
use touchline::storage::keys;
use touchline::storage::meter::{self, Cost};
use touchline::storage::sequence::Sequence;
use touchline::storage::standings::{OwnRow, Window};
use touchline::storage::tallies::Aggregate;
use touchline_bench::report::Report;

use users::{compare, put_statistics, row, row_in_the_middle, settled, stats, store};
use worker::{Used, run_worker};

/// The number of boards on which a settled prediction counts.
const BOARDS: f64 = 8.0;

/// What a million units cost on demand in eu-west-1, in dollars.
const MILLION_WRITES: f64 = 0.7075;
const MILLION_READS: f64 = 0.1415;

/// The number of workers that read the statistics of 10,000,000 users.
const GROUPS: u32 = 64;

/// Seconds between two polls of the queue.
const PAUSE: f64 = 3.0;

/// The fans of a final.
const FANS: f64 = 5_000_000.0;

#[tokio::main]
async fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("store") => return touchline_bench::serve_store().await,
        Some("worker") => return worker::work().await,
        _ => {}
    }
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let sizes: &[u32] = if is_quick { &[1_000, 20_000] } else { &[1_000, 100_000, 10_000_000] };
    let mut report = Report::new("standings-bench");
    report.line("| users | rank | first page | a page in the middle | around me | building one board | every rank equals a full sort |");
    report.line("|---|---|---|---|---|---|---|");
    let mut costs = Vec::new();
    for users in sizes {
        let figures = measure(*users).await;
        let cost = |cost: &Cost| format!("{} units, {} rounds", cost.read_units, cost.rounds);
        let reads: Vec<String> = figures.reads.iter().map(cost).collect();
        report.line(format!(
            "| {users} | {} | {:.2} s, {:.3} write units for a user | yes |",
            reads.join(" | "),
            figures.publishing,
            figures.write_units / f64::from(*users)
        ));
        costs.push(reads);
    }
    assert!(
        costs.iter().all(|cost| *cost == costs[0]),
        "a leaderboard must not cost more when it has more users"
    );
    let size = if is_quick { 5_000 } else { 100_000 };
    let Building { reading, everything, read_units, fold } = build_all(size).await;
    report.line(format!(
        "\nReading the statistics of {size} users one shard at a time took {reading:.2} s and {:.3} read units for a user. \
         `standings` reads several shards at a time: it read, sorted and published eight boards in {everything:.2} s. Adding \
         the points of a settled prediction to the statistics of a user took {fold} write units in total for all boards.",
        read_units / f64::from(size)
    ));
    let rooms = if is_quick { [1_000, 4_000] } else { [1_000, 100_000] };
    let [small, large] = [room::measure(rooms[0]).await, room::measure(rooms[1]).await];
    assert_eq!(small.page, large.page, "a page must not cost more in a larger room");
    let (share, all) = if is_quick { (2_000, 20_000) } else { (10_000_000 / GROUPS, 10_000_000) };
    let collecting = collect(share).await;
    let publishing = publish(all).await;
    report.line(format!(
        "\n| invocation | users | seconds | users a second | seconds of CPU | read units | write units | peak memory, MB |\n\
         |---|---|---|---|---|---|---|---|\n{}\n{}\n{}\n{}",
        small.building.row("builds the table of a room", rooms[0]),
        large.building.row("builds the table of a room", rooms[1]),
        collecting.row("reads statistics, stores sorted rows for eight boards", share),
        publishing.row("merges 64 sorted lists, compares with the earlier build, publishes one board", all),
    ));
    report.line(format!(
        "\nEvery rank in the two rooms equals a full sort. The first page of either table with the row \
         of a member took {} read units in {} rounds; a request also reads the room, the membership and the names.",
        large.page.read_units, large.page.rounds
    ));
    report.line(format!(
        "\nFrom the end of a settlement to exact ranks of {all} users with {GROUPS} workers and one for each board: a pause of \
         {PAUSE:.0} s between two polls, {:.1} s and {:.1} s, together {:.1} s.",
        collecting.seconds,
        publishing.seconds,
        PAUSE + collecting.seconds + publishing.seconds
    ));
    let of_fans = |units: f64, of: u32| units / f64::from(of) * FANS / 1e6;
    let writes = of_fans(collecting.write_units, share) + BOARDS * of_fans(publishing.write_units, all);
    let reads = of_fans(collecting.read_units, share) + BOARDS * of_fans(publishing.read_units, all);
    report.line(format!(
        "\nThe leaderboards after a final with 5,000,000 predictions, calculated from these figures: {writes:.2} million write \
         units and {reads:.2} million read units, ${:.2}.",
        writes * MILLION_WRITES + reads * MILLION_READS
    ));
    report.finish();
}

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("a valid time")
}

struct Figures {
    /// The cost of a rank, of the first page, of another page and of the rows around a user.
    reads: [Cost; 4],
    /// Seconds to publish a board.
    publishing: f64,
    write_units: f64,
}

/// Publishes a board with `users` rows, reads it, and compares all of it with a full sort.
async fn measure(users: u32) -> Figures {
    println!("{users} users");
    let (_process, store, _, _) = store().await;
    let rows: Vec<Row> = (1..=users).map(row).collect();
    let build =
        store.begin_build(Board::GLOBAL, at("2026-11-15T17:00:00Z")).await.expect("the store responds");
    let begun = Instant::now();
    let table = Table::new(rows.clone());
    let (published, cost) =
        meter::measure(store.publish_board(Board::GLOBAL, build, &table, at("2026-11-15T17:00:00Z"))).await;
    assert!(published.expect("the board is published"));
    let publishing = begun.elapsed().as_secs_f64();
    let own = row_in_the_middle(&table, users);
    drop(table);

    let (rank, of_rank) = meter::measure(async {
        store.ranked_tally(own.place.user).await.expect("the store responds");
        store.rank(Board::GLOBAL, own.place.points).await
    })
    .await;
    let read = async |window| {
        let (found, cost) =
            meter::measure(store.board_window(Board::GLOBAL, None, window, Some(own.place))).await;
        let (_, found) = found.expect("the store responds").expect("the board exists");
        match found.own {
            Some(OwnRow::Built(ranked)) => assert_eq!(Some(ranked.rank), *rank.as_ref().expect("a rank")),
            other => panic!("{other:?}"),
        }
        (found, cost)
    };
    let (_, first) = read(Window::Page { after: None, limit: 50 }).await;
    let (page, later) = read(Window::Page { after: Some(own.place), limit: 50 }).await;
    assert_eq!(page.rows.len(), 50);
    let (around, near) = read(Window::AroundOwn { each_side: 5 }).await;
    assert_eq!(around.rows.len(), 11);
    compare(&store, Board::GLOBAL, rows).await;
    Figures { reads: [of_rank, first, later, near], publishing, write_units: cost.write_units }
}

struct Building {
    /// Seconds to read the statistics.
    reading: f64,
    /// Seconds to read the statistics, and to sort and publish all boards.
    everything: f64,
    read_units: f64,
    /// Write units to add a settled prediction to the statistics of a user.
    fold: f64,
}

/// Stores the statistics of `users` users, and builds all boards from them.
async fn build_all(users: u32) -> Building {
    println!("building eight boards of {users} users");
    let (_process, store, client, app) = store().await;
    let prediction = settled();
    let boards = UserTally::of(&prediction);
    put_statistics(&client, &app.config.tables.predictions, 1..=users, &boards).await;
    let begun = Instant::now();
    let (read, cost) = meter::measure(async {
        for shard in 0..keys::STATS_SHARDS {
            let mut from = None;
            loop {
                let (_, next) = store.ranked_page(shard, from).await.expect("the store responds");
                from = next;
                if from.is_none() {
                    break;
                }
            }
        }
    })
    .await;
    let () = read;
    let reading = begun.elapsed().as_secs_f64();
    let boards_of_all = boards.rows(UserId(1)).map(|(board, _)| board).collect();
    let now = app.clock.now();
    app.store.queue_boards(&boards_of_all, "bench", now).await.expect("the store responds");
    let begun = Instant::now();
    let built = standings::handle(app.clone(), json!({}), now + TimeDelta::hours(1)).await;
    let built = built.expect("the boards are built");
    assert_eq!(built["boards"].as_array().map(Vec::len), Some(8), "{built}");
    let everything = begun.elapsed().as_secs_f64();
    let sequence = Sequence::parse("1").expect("a valid sequence number");
    let addition = Addition { sequence, counts: boards, sighting: None };
    let user = Aggregate::User(UserId(1));
    let (folded, fold) = meter::measure(store.fold(&user, "1794744000000-a1b2c3d4", &[addition], now)).await;
    folded.expect("the points are added");
    Building { reading, everything, read_units: cost.read_units, fold: fold.write_units }
}

/// Measures a worker that collects the rows of one of 64 groups, which has `users` users.
async fn collect(users: u32) -> Used {
    println!("collecting the rows of {users} users");
    let (process, store, client, app) = store().await;
    let boards = UserTally::of(&settled());
    let partitions = [keys::stats_shard(0), keys::stats_shard(1)];
    let group = (1..).filter(|user| partitions.contains(&keys::user_stats(UserId(*user)).pk));
    put_statistics(&client, &app.config.tables.predictions, group.take(users as usize), &boards).await;
    let mut builds = BTreeMap::new();
    for (board, _) in boards.rows(UserId(1)) {
        let build = store.begin_build(board, app.clock.now()).await.expect("the store responds");
        builds.insert(board, build);
    }
    let until = app.clock.now() + TimeDelta::hours(1);
    let group = json!({ "number": 0, "of": GROUPS });
    let task = json!({ "collect": { "group": group, "builds": builds, "until": until } });
    let used = run_worker(&process.url, &task).await;
    assert_eq!(used.result["g.all"]["rows"], users, "{}", used.result);
    used
}

/// Measures a worker that publishes a board with `users` rows. An earlier build is published, in which all users have other
/// points.
async fn publish(users: u32) -> Used {
    println!("publishing a board of {users} users");
    let (process, store, _, app) = store().await;
    let now = app.clock.now();
    let begin = async || store.begin_build(Board::GLOBAL, now).await.expect("the store responds");
    let earlier = |user: u32| {
        let reached = row(user).place.reached - 7_200;
        Row::of(UserId(user), &stats(user ^ 1), reached).expect("the user has settled predictions")
    };
    let before = Table::new((1..=users).map(earlier).collect());
    let published = store.publish_board(Board::GLOBAL, begin().await, &before, now).await;
    assert!(published.expect("the earlier build is published"));
    drop(before);
    let build = begin().await;
    let mut runs = Vec::new();
    for group in 0..GROUPS {
        let rows = Table::new((1..=users).filter(|user| user % GROUPS == group).map(row).collect());
        let rows: Vec<Row> = rows.rows().collect();
        let number = u8::try_from(group).expect("a small number");
        runs.push(
            store.put_run(Board::GLOBAL, build, number, group, &rows).await.expect("the run is stored"),
        );
    }
    let until = app.clock.now() + TimeDelta::hours(1);
    let task = json!({ "publish": { "board": Board::GLOBAL, "build": build, "runs": runs, "until": until } });
    let used = run_worker(&process.url, &task).await;
    assert_eq!(used.result, true);
    compare(&store, Board::GLOBAL, (1..=users).map(row).collect()).await;
    used
}
