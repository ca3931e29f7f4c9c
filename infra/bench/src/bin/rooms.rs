//! What a search for rooms costs, with few rooms and with many.
//!
//! The same names to find among 100 rooms and among 100,000: the read units must be the same, because a search
//! reads what it finds. The rooms that are not found share the first letters with those that are.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use futures_util::stream::{self, StreamExt as _};
use touchline::domain::room::{Room, RoomId};
use touchline::storage::directory::{Directory, Needle};
use touchline::storage::{Reads, Store, meter};
use touchline_bench::{StoreProcess, config};

const SIZES: [u32; 2] = [100, 100_000];

/// What is looked for, and how many rooms have it in their names.
const SEARCHES: [(&str, u32); 5] =
    [("nowhere", 0), ("golden lantern", 1), ("LANTERN s", 5), ("lantern", 20), ("an", 20)];

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() == Some("store") {
        return touchline_bench::serve_store().await;
    }
    let mut measured = Vec::new();
    for size in SIZES {
        println!("{size} rooms");
        measured.push(measure(size).await);
    }
    println!("\n| search | hits | {} |", SIZES.map(|size| format!("read units, {size} rooms")).join(" | "));
    println!("|---|---|---|---|");
    for (at, (text, hits)) in SEARCHES.iter().enumerate() {
        let units: Vec<String> = measured.iter().map(|units| units[at].to_string()).collect();
        println!("| {text} | {hits} | {} |", units.join(" | "));
    }
    let same = measured.windows(2).all(|pair| pair[0] == pair[1]);
    println!("\nThe cost {} with the number of rooms.", if same { "does not grow" } else { "GROWS" });
    assert!(same, "a search must not cost more where there are more rooms");
}

/// Names: twenty with a lantern, the others without, all with an `l` and most letters of it.
fn title(number: u32) -> String {
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
    let http = aws_smithy_http_client::Builder::new().build_http();
    let store = Store::new(touchline::storage::connect(&config.aws, http), config.tables);
    let created = chrono::DateTime::from_timestamp_millis(1_794_744_000_000).expect("a moment");
    let filling = stream::iter(0..size).map(|number| {
        let room = Room {
            room_id: RoomId::parse(&format!("!room{number}:touchline.local")).expect("an id"),
            name: title(number),
            topic: String::new(),
            event_id: None,
            creator_id: None,
            is_private: false,
            shards: 4,
            created_at: created + chrono::TimeDelta::milliseconds(number.into()),
            last_activity: created,
        };
        let store = &store;
        async move {
            store.put_room(&room).await.expect("a room");
            store.update_directory(None, Some(&room)).await.expect("its places");
        }
    });
    let mut filling = filling.buffer_unordered(16);
    let mut filled = 0;
    while filling.next().await.is_some() {
        filled += 1;
        if filled % 10_000 == 0 {
            println!("  {filled} rooms are there");
        }
    }
    drop(filling);

    let mut units = Vec::new();
    for (text, hits) in SEARCHES {
        let needle = Needle::new(text).expect("something to look for");
        let looked = async {
            let found = store.directory_page(&Directory::Named(needle), None, 50).await.expect("a search");
            let ids: Vec<RoomId> = found.entries.into_iter().map(|entry| entry.room_id).collect();
            let rooms = store.rooms(&ids, Reads::Eventual).await.expect("rooms");
            store.member_counts(&ids).await.expect("counts");
            rooms.len()
        };
        let (found, cost) = meter::measure(looked).await;
        assert_eq!(found, hits as usize, "{text}");
        units.push(cost.read_units);
    }
    units
}
