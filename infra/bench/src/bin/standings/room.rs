//! The table of a room: what it costs to build it and to read a page of it.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::json;
use touchline::App;
use touchline::domain::UserId;
use touchline::domain::prediction;
use touchline::domain::room::{self, League, Room, RoomId};
use touchline::domain::standings::table::Table;
use touchline::domain::standings::{Board, Period, Place, Row, UserTally};
use touchline::domain::tally::{Counters as _, RoomCounts};
use touchline::flows::room_table::{Counted, RoomTable};
use touchline::storage::keys::{self, Key};
use touchline::storage::members::MembershipRequest;
use touchline::storage::meter::{self, Cost};
use touchline::storage::standings::Window;
use touchline::storage::{Reads, Store};

use crate::users::{compare, put_items, put_statistics, row_in_the_middle, settled, store, tally};
use crate::worker::{Used, run_worker};

pub struct RoomFigures {
    /// What the worker that builds the table has used.
    pub building: Used,
    /// The cost of the first page and of a member's own row.
    pub page: Cost,
}

/// Lets `standings` build the table of a room with `members` members, compares all of it with a full sort, and reads a page.
pub async fn measure(members: u32) -> RoomFigures {
    println!("a room of {members} members");
    let (process, store, client, app) = store().await;
    let tables = &app.config.tables;
    let boards = UserTally::of(&settled());
    put_statistics(&client, &tables.predictions, 1..=members, &boards).await;
    let now = app.clock.now();
    let room = Room {
        room_id: RoomId::parse("!league:touchline.example").expect("the room id is valid"),
        name: "League".into(),
        topic: String::new(),
        event_id: None,
        league: Some(League::All),
        creator_id: Some(UserId(1)),
        is_private: false,
        shards: room::member_shards(false),
        created_at: now,
        last_activity: now,
        removed_at: None,
    };
    store.put_room(&room).await.expect("the store responds");
    // One user joins with the code of the product. The others get copies of this membership.
    let joined = store.join(&MembershipRequest::new(&room, UserId(1), None, now, 1)).await;
    joined.expect("the store responds");
    let first = keys::member(&room.room_id, room.shards, UserId(1));
    let read = client.get_item().table_name(&tables.rooms).set_key(Some(first.into())).send().await;
    let membership = read.expect("the store responds").item.expect("the user has joined");
    let copy = |user: u32| {
        let user = UserId(user);
        let changed = item(keys::member(&room.room_id, room.shards, user), [("user_id", i64::from(user.0))]);
        membership.clone().into_iter().chain(changed).collect()
    };
    put_items(&client, &tables.rooms, (1..=members).map(copy)).await;
    let counts = count(&store, &room, members).await;
    let counts = counts.fields().into_iter().chain([("summed".into(), 1)]);
    put_items(&client, &tables.rooms, [item(keys::room_tally(&room.room_id), counts)].into_iter()).await;

    // The second build also compares the rows with those of the first one, as most builds do.
    let task = json!({ "room": room.room_id.as_str() });
    run_worker(&process.url, &task).await;
    let building = run_worker(&process.url, &task).await;
    let rows = |user: u32| tally(user, &boards).row(UserId(user), Board::GLOBAL);
    let rows: Vec<Row> = (1..=members).map(|user| rows(user).expect("the user has points")).collect();
    let own = row_in_the_middle(&Table::new(rows.clone()), members).place;
    let table = RoomTable::read(&app, room.clone(), Counted::of(&room, None), Period::All).await;
    compare(&store, table.expect("the store responds").board(), rows).await;
    let (rows, page) = meter::measure(read_page(&app, &room, own)).await;
    assert_eq!(rows, 50);
    RoomFigures { building, page }
}

/// Counts the members, as `tally` does.
async fn count(store: &Store, room: &Room, members: u32) -> RoomCounts {
    let member = store.member(room, UserId(1), Reads::Consistent).await.expect("the store responds");
    let member = member.expect("the user has joined");
    let mut counts = RoomCounts::default();
    for user in 1..=members {
        counts += RoomCounts::of(&member, prediction::shard(UserId(user), room.shards));
    }
    counts
}

/// Reads the first page of the table and the row of a member. Returns the number of rows. A request also reads the room,
/// the membership and the names.
async fn read_page(app: &App, room: &Room, own: Place) -> usize {
    let table = RoomTable::read(app, room.clone(), Counted::of(room, None), Period::All).await;
    let table = table.expect("the store responds");
    let built = table.refreshed(app).await.expect("the store responds");
    let window = Window::Page { after: None, limit: 50 };
    let page = app.store.board_window(table.board(), built, window, Some(own)).await;
    let (_, page) = page.expect("the store responds").expect("the table is built");
    page.rows.len()
}

fn item<N: Into<String>>(
    key: Key,
    numbers: impl IntoIterator<Item = (N, i64)>,
) -> HashMap<String, AttributeValue> {
    let key = [("pk".to_owned(), AttributeValue::S(key.pk)), ("sk".to_owned(), AttributeValue::S(key.sk))];
    let number = |(name, value): (N, i64)| (name.into(), AttributeValue::N(value.to_string()));
    key.into_iter().chain(numbers.into_iter().map(number)).collect()
}
