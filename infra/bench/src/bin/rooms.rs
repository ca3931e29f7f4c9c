//! Measures the cost of a room search with few rooms and with many.
//!
//! The same searches run with 100 rooms and with 100,000 rooms. Their read units must be equal, because a search reads
//! only its hits. The rooms that are not hits have similar names.

#![expect(clippy::print_stdout, reason = "prints its results")]

use futures_util::stream::{self, StreamExt as _};
use touchline::domain::UserId;
use touchline::domain::room::{Room, RoomId};
use touchline::storage::directory::{Directory, Needle, RoomChange};
use touchline::storage::{Reads, Store, meter};
use touchline_bench::report::Report;
use touchline_bench::{StoreProcess, config};

/// Search texts, each with the number of rooms whose names contain it.
const SEARCHES: [(&str, u32); 6] =
    [("nowhere", 0), ("golden lantern", 1), ("LANTERN s", 5), ("lantern", 20), ("an", 20), ("g", 1)];

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() == Some("store") {
        return touchline_bench::serve_store().await;
    }
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let sizes = if is_quick { [100, 1_000] } else { [100, 100_000] };
    let mut measured = Vec::new();
    for size in sizes {
        println!("{size} rooms");
        measured.push(measure(size).await);
    }
    let mut report = Report::new("rooms-bench");
    let titles = sizes.map(|size| format!("read units, {size} rooms")).join(" | ");
    report.line(format!("| search | hits | {titles} |\n|---|---|---|---|"));
    for (index, (text, hits)) in SEARCHES.iter().enumerate() {
        let units: Vec<String> = measured.iter().map(|units| units[index].to_string()).collect();
        report.line(format!("| {text} | {hits} | {} |", units.join(" | ")));
    }
    assert_eq!(measured[0], measured[1], "a search must not cost more when there are more rooms");
    report.finish();
}

/// Returns the name of a room. The names of the first twenty rooms contain "lantern". The other names contain
/// most of the letters of "lantern".
fn room_name(number: u32) -> String {
    match number {
        0 => "The Golden Lantern".into(),
        1..=5 => format!("Lantern street {number}"),
        6..=19 => format!("Old lantern {number}"),
        _ => format!("Litter tent {number}"),
    }
}

async fn measure(size: u32) -> Vec<f64> {
    let process = StoreProcess::start().await;
    let (config, _) = config(&process.url);
    let http = touchline::ports::aws_http::client();
    let store = Store::new(touchline::storage::connect(&config.aws, http), config.tables);
    let created = chrono::DateTime::from_timestamp_millis(1_794_744_000_000).expect("a valid time");
    let filling = stream::iter(0..size).map(|number| {
        let room = Room {
            room_id: RoomId::parse(&format!("!room{number}:touchline.local")).expect("the id is valid"),
            name: room_name(number),
            topic: String::new(),
            event_id: None,
            creator_id: Some(UserId(1)),
            is_private: false,
            shards: 4,
            created_at: created + chrono::TimeDelta::milliseconds(number.into()),
            last_activity: created,
            league: None,
            removed_at: None,
        };
        let store = &store;
        async move {
            let change = RoomChange { old: None, new: Some(&room) };
            store.put_room(&room).await.expect("the room is written");
            store.update_directories(&[change]).await.expect("the directory is updated");
        }
    });
    let mut filling = filling.buffer_unordered(16);
    let mut filled = 0;
    while filling.next().await.is_some() {
        filled += 1;
        if filled % 10_000 == 0 {
            println!("  {filled} rooms written");
        }
    }
    drop(filling);

    let mut units = Vec::new();
    for (text, hits) in SEARCHES {
        let needle = Needle::new(text).expect("the search text is valid");
        let search = async {
            let found =
                store.directory_page(&Directory::Named(needle), None, 50).await.expect("the search succeeds");
            let ids: Vec<RoomId> = found.entries.into_iter().map(|entry| entry.room_id).collect();
            let rooms = store.rooms(&ids, Reads::Eventual).await.expect("the rooms are read");
            store.member_counts(&ids).await.expect("the counts are read");
            rooms.len()
        };
        let (found, cost) = meter::measure(search).await;
        assert_eq!(found, hits as usize, "{text}");
        units.push(cost.read_units);
    }
    units
}
