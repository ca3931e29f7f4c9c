//! Writes the entries of all public rooms into the room directory.
//!
//! The stream has only the latest changes of rooms. An operator rebuilds the directory when it is new or lost
//! entries. Writing an entry again changes nothing, so a rebuild can run at any time, and more than once.

use serde_json::{Value, json};
use touchline::App;
use touchline::domain::Room;
use touchline::storage::directory::RoomChange;
use touchline::storage::keys::Key;
use touchline::storage::{Reads, StoreError};

/// An invocation begins no new step after this many seconds. Lambda ends the function after a minute.
const SECONDS: i64 = 30;

/// How many items of the `rooms` table a step reads. Most of them are memberships.
const ITEMS_IN_STEP: usize = if cfg!(test) { 10 } else { 1_000 };

/// Rebuilds the directory, from the start or from `order["resume"]`. The response has the number of rooms that were
/// read. If the time was too short, it also has the `resume` with which the next invocation continues.
pub async fn rebuild(app: &App, order: &Value) -> Result<Value, StoreError> {
    let began = app.clock.now();
    let mut from = position(&order["resume"])?;
    let mut count = 0;
    loop {
        let (rooms, next) = app.store.rooms_page(from, ITEMS_IN_STEP).await?;
        count += rooms.len();
        write_entries(app, rooms).await?;
        let is_over = (app.clock.now() - began).num_seconds() >= SECONDS;
        from = next;
        if from.is_none() || is_over {
            break;
        }
    }
    let resume = from.map(|Key { pk, sk }| json!({ "pk": pk, "sk": sk }));
    tracing::info!(rooms = count, is_complete = resume.is_none(), "rebuilt the room directory");
    Ok(json!({ "rooms": count, "resume": resume }))
}

fn position(resume: &Value) -> Result<Option<Key>, StoreError> {
    if resume.is_null() {
        return Ok(None);
    }
    let part = |name: &str| resume[name].as_str().map(str::to_owned);
    match (part("pk"), part("sk")) {
        (Some(pk), Some(sk)) => Ok(Some(Key { pk, sk })),
        _ => Err(StoreError::Unreadable("the `resume` of a rebuild: use the one of its last response")),
    }
}

/// Writes the entries of rooms. If a room is renamed meanwhile, its stream record can be processed before these
/// writes, which then restore the old name. So the rooms are read again afterwards.
pub async fn write_entries(app: &App, rooms: Vec<Room>) -> Result<(), StoreError> {
    let mut written: Vec<Room> = rooms.into_iter().filter(|room| room.listed_name().is_some()).collect();
    let changes: Vec<RoomChange<'_>> =
        written.iter().map(|room| RoomChange { old: None, new: Some(room) }).collect();
    app.store.update_directories(&changes).await?;
    while !written.is_empty() {
        let ids: Vec<_> = written.iter().map(|room| room.room_id.clone()).collect();
        let current = app.store.rooms(&ids, Reads::Consistent).await?;
        let is_renamed =
            |old: &Room| current.get(&old.room_id).is_none_or(|new| new.listed_name() != old.listed_name());
        written.retain(is_renamed);
        let changes: Vec<RoomChange<'_>> =
            written.iter().map(|old| RoomChange { old: Some(old), new: current.get(&old.room_id) }).collect();
        app.store.update_directories(&changes).await?;
        written = changes.into_iter().filter_map(|change| change.new.cloned()).collect();
    }
    Ok(())
}
