//! The users of a leaderboard: their counts, the store that has them, and a full sort of them.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use futures_util::stream::{self, StreamExt as _};
use touchline::App;
use touchline::domain::UserId;
use touchline::domain::prediction::{Confidence, Forecast, Pick, Prediction, SettledIn, Stamp};
use touchline::domain::standings::table::{ROWS_PER_BLOCK, Table};
use touchline::domain::standings::{Board, Row, UserTally};
use touchline::domain::tally::{Counters as _, UserStats};
use touchline::ports::clock::{Clock as _, SystemClock};
use touchline::storage::keys::{self, Key};
use touchline::storage::{Reads, Store};
use touchline_bench::{StoreProcess, config};

/// The number of concurrent batches that write items.
const CONCURRENCY: usize = 16;

/// Returns the counts of a user. Most users have about 400 points, few have none or 900.
pub fn stats(user: u32) -> UserStats {
    // SplitMix32 gives each user other numbers.
    let mut hash = user.wrapping_mul(0x9e37_79b9);
    let mut below = |limit: u32| {
        hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
        hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
        hash ^= hash >> 16;
        i64::from(hash % limit)
    };
    let points: i64 = (0..6).map(|_| below(151)).sum();
    let exact = below(60);
    UserStats { settled: 380, correct: (points / 3).max(exact), points, exact }
}

pub fn row(user: u32) -> Row {
    let reached = 1_790_000_000 + user.wrapping_mul(2_654_435_761) % 380 * 3_600;
    Row::of(UserId(user), &stats(user), reached).expect("the user has settled predictions")
}

pub async fn store() -> (StoreProcess, Store, Client, App) {
    let process = StoreProcess::start().await;
    let (config, _) = config(&process.url);
    let client = touchline::storage::connect(&config.aws, touchline::ports::aws_http::client());
    let store = Store::new(client.clone(), config.tables.clone());
    (process, store, client, App::new(config))
}

/// Returns a row in the middle of a board. The 50 rows after it are in the same block. A page that ends in the next block
/// would read half a unit more.
pub fn row_in_the_middle(table: &Table, users: u32) -> Row {
    let block = users as usize / 2 / ROWS_PER_BLOCK;
    table.ranked().nth(block * ROWS_PER_BLOCK + 20).expect("the board has enough rows").row
}

/// Compares all rows and ranks of the stored board with a sort that uses none of its code.
pub async fn compare(store: &Store, board: Board, mut rows: Vec<Row>) {
    rows.sort_by(|a, b| {
        let (a, b) = (a.place, b.place);
        b.points
            .cmp(&a.points)
            .then(b.exact.cmp(&a.exact))
            .then(a.reached.cmp(&b.reached))
            .then(a.user.0.cmp(&b.user.0))
    });
    let built = store.built_board(board, Reads::Consistent).await.expect("the store responds");
    let stored = store.board_rows(&built.expect("the board exists")).await.expect("the store responds");
    assert_eq!(stored.len(), rows.len());
    let mut ranks = HashMap::new();
    for (position, (expected, found)) in rows.iter().zip(&stored).enumerate() {
        let rank = *ranks.entry(expected.place.points).or_insert(position + 1);
        assert_eq!((found.row.place, found.rank as usize), (expected.place, rank));
    }
    for (points, rank) in ranks {
        let found = store.rank(board, points).await.expect("the store responds");
        assert_eq!(found.map(|found| found as usize), Some(rank), "{points} points");
    }
}

pub fn settled() -> Prediction {
    let now = SystemClock.now();
    let stamp = Stamp::new(now, 1);
    Prediction {
        event_id: 1,
        user_id: UserId(1),
        forecast: Forecast::new(Pick::Home, None).expect("the forecast is valid"),
        confidence: Confidence::default(),
        created: stamp.clone(),
        changed: stamp,
        edits: 1,
        points: Some(2),
        revision: 1,
        settled_in: Some(SettledIn { tournament: 12, kick_off: now, at: now }),
    }
}

/// Returns the counters of a user for eight boards.
pub fn tally(user: u32, boards: &UserTally) -> UserTally {
    let stats = stats(user);
    UserTally {
        stats,
        boards: boards.boards.keys().map(|board| (*board, stats)).collect(),
        reached: boards.reached.clone(),
    }
}

/// Writes the statistics of users, each with the counters of eight boards.
pub async fn put_statistics(
    client: &Client,
    table: &str,
    users: impl Iterator<Item = u32>,
    boards: &UserTally,
) {
    let number = |value: i64| AttributeValue::N(value.to_string());
    let item = |user: u32| {
        let tally = tally(user, boards);
        let Key { pk, sk } = keys::user_stats(UserId(user));
        let mut item: HashMap<String, AttributeValue> =
            [("pk".to_owned(), AttributeValue::S(pk)), ("sk".to_owned(), AttributeValue::S(sk))].into();
        item.insert("user_id".to_owned(), number(user.into()));
        item.insert("version".to_owned(), number(380));
        item.insert(
            "seen:1794744000000-a1b2c3d4".to_owned(),
            AttributeValue::N("1234567800000000012345678".to_owned()),
        );
        for (name, value) in tally.fields().into_iter().chain(tally.assigned()) {
            item.insert(name.into_owned(), number(value));
        }
        item
    };
    put_items(client, table, users.map(item)).await;
}

/// Writes items in batches.
pub async fn put_items(
    client: &Client,
    table: &str,
    items: impl Iterator<Item = HashMap<String, AttributeValue>>,
) {
    let batches = stream::iter(items).chunks(25).map(|items| {
        let put = |item| {
            let put = PutRequest::builder().set_item(Some(item)).build();
            WriteRequest::builder().put_request(put.expect("the put is complete")).build()
        };
        let puts: Vec<WriteRequest> = items.into_iter().map(put).collect();
        async move {
            client.batch_write_item().request_items(table, puts).send().await.expect("the write succeeds");
        }
    });
    batches.buffer_unordered(CONCURRENCY).collect::<Vec<()>>().await;
}
