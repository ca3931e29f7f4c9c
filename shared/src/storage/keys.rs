//! Every key of every table, grouped by table. No other file formats keys.
//!
//! The formats are stored data: they stay as they are, even where a function has a newer name.

#[cfg(test)]
mod tests;

use chrono::NaiveDate;

pub use super::item::Key;
use crate::domain::catalog::{self, ChunkName, Kind};
use crate::domain::coins::EntryKey;
use crate::domain::sms::LogPosition;
use crate::domain::{Address, Phone, Room, RoomId, UserId, Username, prediction};

fn key(pk: impl Into<String>, sk: impl Into<String>) -> Key {
    Key { pk: pk.into(), sk: sk.into() }
}

/// The user whose partition this is, in any table that has partitions per user.
fn partition_owner(pk: &str) -> Option<UserId> {
    pk.strip_prefix("user#")?.parse().ok()
}

// users

/// A user's profile.
#[must_use]
pub fn profile(user: UserId) -> Key {
    key(format!("user#{user}"), "profile")
}

/// The user, if the key is a profile's.
#[must_use]
pub fn profile_owner(pk: &str, sk: &str) -> Option<UserId> {
    partition_owner(pk).filter(|_| sk == "profile")
}

/// A login, by the SHA-256 of its token.
#[must_use]
pub fn session(user: UserId, token_digest: &str) -> Key {
    key(format!("user#{user}"), format!("session#{token_digest}"))
}

/// The owner of a phone.
#[must_use]
pub fn phone_owner(phone: &Phone) -> Key {
    key(format!("phone#{}", phone.as_str()), "owner")
}

/// A phone's pending codes and its rate limit.
#[must_use]
pub fn phone_codes(phone: &Phone) -> Key {
    key(format!("phone#{}", phone.as_str()), "codes")
}

/// The owner of a username.
#[must_use]
pub fn username_owner(name: &Username) -> Key {
    key(format!("name#{}", name.as_str()), "owner")
}

/// The username, if the partition is a username's.
#[must_use]
pub fn owned_name(pk: &str) -> Option<Username> {
    Username::parse(pk.strip_prefix("name#")?).ok()
}

/// The rate limit of an IP address.
#[must_use]
pub fn address_limit(address: &Address) -> Key {
    key(format!("address#{}", address.as_str()), "limit")
}

/// The last user id assigned.
#[must_use]
pub fn user_counter() -> Key {
    key("counter#user", "last")
}

/// A key that is never written. Reading it checks that the table responds.
#[must_use]
pub fn never_written() -> Key {
    key("nothing", "nothing")
}

// sms_logs

/// The number of partitions per day of the log. Fixed: readers query all of them.
pub const SMS_LOG_SHARDS: u32 = 4;

/// The partition of one shard of a day's log.
#[must_use]
pub fn sms_log_day(day: NaiveDate, shard: u32) -> String {
    format!("day#{day}#{shard}")
}

/// The shard that holds a phone's log entries.
#[must_use]
pub fn sms_log_shard(phone: &Phone) -> u32 {
    // FNV-1a is stable across releases and platforms; the standard hasher is not.
    let hash = phone
        .as_str()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193));
    hash % SMS_LOG_SHARDS
}

/// A log entry.
#[must_use]
pub fn sms_log(day: NaiveDate, phone: &Phone, position: &LogPosition) -> Key {
    key(sms_log_day(day, sms_log_shard(phone)), position.as_str())
}

// catalog

/// The sort key of every catalog row.
pub const CATALOG_ROW: &str = "row";

/// A sport, team, tournament or match.
#[must_use]
pub fn catalog_row(kind: Kind, id: u32) -> Key {
    key(format!("{}#{id}", kind.as_str()), CATALOG_ROW)
}

/// The id that was assigned to a row of an external source.
#[must_use]
pub fn catalog_external(kind: Kind, external: catalog::Key) -> Key {
    key(format!("external#{}#{:016x}", kind.as_str(), external.0), "id")
}

/// The last id assigned to a kind of row.
#[must_use]
pub fn catalog_counter(kind: Kind) -> Key {
    key(format!("counter#{}", kind.as_str()), "last")
}

/// The pointer to the current snapshot.
#[must_use]
pub fn snapshot_head() -> Key {
    key("snapshot", "head")
}

/// The list of a snapshot's chunks.
#[must_use]
pub fn snapshot_index(at: &str) -> Key {
    key(format!("snapshot#{at}"), "index")
}

/// A part of a chunk.
#[must_use]
pub fn snapshot_part(at: &str, chunk: ChunkName, part: u32) -> Key {
    key(format!("snapshot#{at}"), format!("{chunk}#{part}"))
}

// predictions

/// The partition of one shard of a match's predictions.
#[must_use]
pub fn event_shard(event: u32, shard: u8) -> String {
    format!("event#{event}#{shard}")
}

/// The sort key of a user's prediction.
#[must_use]
pub fn predictor(user: UserId) -> String {
    format!("user#{user}")
}

/// A user's prediction for a match that has `shards` shards.
#[must_use]
pub fn prediction(event: u32, shards: u8, user: UserId) -> Key {
    key(event_shard(event, prediction::shard(user, shards)), predictor(user))
}

/// Whether the key is a prediction's, and not that of another item in the table.
#[must_use]
pub fn is_prediction(pk: &str, sk: &str) -> bool {
    pk.starts_with("event#") && sk.starts_with("user#")
}

/// The progress of a match's settlement.
#[must_use]
pub fn settlement(event: u32) -> Key {
    key(format!("event#{event}"), "settlement")
}

/// The partition of results that wait for settlement. It holds few items at any time.
pub const DUE: &str = "due";

/// A result that waits for settlement.
#[must_use]
pub fn due(event: u32) -> Key {
    key(DUE, format!("event#{event}"))
}

/// A stream record that could not be read.
#[must_use]
pub fn unreadable(sequence: &str) -> Key {
    key("unreadable", sequence)
}

/// A user's record over all matches.
#[must_use]
pub fn user_stats(user: UserId) -> Key {
    key(format!("user#{user}"), "stats")
}

/// The user, if the key is a user's record.
#[must_use]
pub fn stats_owner(pk: &str, sk: &str) -> Option<UserId> {
    partition_owner(pk).filter(|_| sk == "stats")
}

/// The counters of a match's predictions.
#[must_use]
pub fn event_tally(event: u32) -> Key {
    key(format!("event#{event}"), "tally")
}

// wallets

/// A user's balance.
#[must_use]
pub fn balance(user: UserId) -> Key {
    key(format!("user#{user}"), "balance")
}

/// The user, if the partition is a wallet.
#[must_use]
pub fn wallet_owner(pk: &str) -> Option<UserId> {
    partition_owner(pk)
}

/// The prefix of the sort keys of a wallet's entries.
pub const ENTRY: &str = "entry#";

/// A ledger entry. Its key is its idempotency key.
#[must_use]
pub fn entry(user: UserId, entry: &EntryKey) -> Key {
    let name = match entry {
        EntryKey::Reference(reference) => format!("{ENTRY}reference#{}", reference.as_str()),
        EntryKey::Header(key) => format!("{ENTRY}header#{}", key.as_str()),
        EntryKey::Generated(request_id) => format!("{ENTRY}alone#{request_id}"),
        EntryKey::Day(day) => format!("{ENTRY}day#{day}"),
        EntryKey::Grant(reference) => format!("{ENTRY}grant#{}", reference.as_str()),
    };
    key(format!("user#{user}"), name)
}

// rooms

/// A room.
#[must_use]
pub fn room(room: &RoomId) -> Key {
    key(format!("room#{}", room.as_str()), "room")
}

/// Whether the key is a room's.
#[must_use]
pub fn is_room(pk: &str, sk: &str) -> bool {
    pk.starts_with("room#") && sk == "room"
}

/// The counters of a room.
#[must_use]
pub fn room_tally(room: &RoomId) -> Key {
    key(format!("room#{}", room.as_str()), "tally")
}

/// The partition of one shard of a room's members. Room ids contain no `#`.
#[must_use]
pub fn room_shard(room: &RoomId, shard: u8) -> String {
    format!("room#{}#{shard}", room.as_str())
}

/// The sort key of a user's membership.
#[must_use]
pub fn member_of(user: UserId) -> String {
    format!("member#{user}")
}

/// A user's membership of a room that has `shards` shards.
#[must_use]
pub fn member(room: &RoomId, shards: u8, user: UserId) -> Key {
    key(room_shard(room, prediction::shard(user, shards)), member_of(user))
}

/// Whether the key is a membership's, and not that of another item in the table.
#[must_use]
pub fn is_member(pk: &str, sk: &str) -> bool {
    pk.starts_with("room#") && sk.starts_with("member#")
}

/// The creation of a room, by the digest that identifies the request.
#[must_use]
pub fn room_creation(user: UserId, digest: &str) -> Key {
    key(format!("making#{user}"), digest)
}

/// A processed transaction of the homeserver.
#[must_use]
pub fn push(transaction: &str) -> Key {
    key(format!("push#{transaction}"), "done")
}

/// The partition of all public rooms.
pub const DIRECTORY: &str = "directory";

/// The partition of the public rooms about a match.
#[must_use]
pub fn rooms_about(event: u32) -> String {
    format!("about#{event}")
}

/// The partition of the name suffixes that begin with a character.
#[must_use]
pub fn name_suffixes(first: char) -> String {
    format!("find#{first}")
}

/// A room's sort key in a directory: rooms sort by creation time.
fn directory_position(room: &Room) -> String {
    format!("{:013}#{:016x}", room.created_at.timestamp_millis().max(0), room.room_id.digest())
}

/// Longer suffixes are cut, because a sort key has a maximum length.
const MAX_SUFFIX: usize = 200;

/// The prefix of the sort keys of all suffixes that begin with `text`.
#[must_use]
pub fn suffix_prefix(text: &str) -> &str {
    &text[..text.len().min(MAX_SUFFIX)]
}

/// All directory entries of a room, each with the offset of its suffix in `name`. `name` is folded.
#[must_use]
pub fn directory_entries(room: &Room, name: &str) -> Vec<(Key, usize)> {
    let position = directory_position(room);
    let mut keys = vec![(key(DIRECTORY, &position), 0)];
    keys.extend(room.event_id.map(|event| (key(rooms_about(event), &position), 0)));
    // Searches are trimmed, so no search begins with a space.
    let suffixes = name.char_indices().filter(|(_, first)| !first.is_whitespace());
    keys.extend(suffixes.map(|(at, first)| {
        (key(name_suffixes(first), format!("{}#{position}#{at:03}", suffix_prefix(&name[at..]))), at)
    }));
    keys
}
