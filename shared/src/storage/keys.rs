//! Every key of every table. No key is formatted anywhere else.

use aws_sdk_dynamodb::types::AttributeValue;
use chrono::NaiveDate;

use super::Item;
use crate::domain::catalog::{self, ChunkName, Kind};
use crate::domain::coins::EntryKey;
use crate::domain::sms::LogPosition;
use crate::domain::{Address, Phone, Room, RoomId, UserId, Username, prediction};

/// A primary key: partition and sort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    pub pk: String,
    pub sk: String,
}

impl From<Key> for Item {
    fn from(key: Key) -> Self {
        [("pk".to_owned(), AttributeValue::S(key.pk)), ("sk".to_owned(), AttributeValue::S(key.sk))].into()
    }
}

fn key(pk: impl Into<String>, sk: impl Into<String>) -> Key {
    Key { pk: pk.into(), sk: sk.into() }
}

/// `users`: a user's record.
#[must_use]
pub fn profile(user: UserId) -> Key {
    key(format!("user#{user}"), "profile")
}

/// `users`: one login, under the SHA-256 of its token.
#[must_use]
pub fn session(user: UserId, token_digest: &str) -> Key {
    key(format!("user#{user}"), format!("session#{token_digest}"))
}

/// `users`: who owns a phone.
#[must_use]
pub fn phone_owner(phone: &Phone) -> Key {
    key(format!("phone#{}", phone.as_str()), "owner")
}

/// `users`: a phone's pending codes and the times of the latest sendings.
#[must_use]
pub fn phone_codes(phone: &Phone) -> Key {
    key(format!("phone#{}", phone.as_str()), "codes")
}

/// `users`: who owns a username.
#[must_use]
pub fn username_owner(name: &Username) -> Key {
    key(format!("name#{}", name.as_str()), "owner")
}

/// `users`: the times of the latest sendings that an address asked for.
#[must_use]
pub fn address_limit(address: &Address) -> Key {
    key(format!("address#{}", address.as_str()), "limit")
}

/// `users`: the last user id given out.
#[must_use]
pub fn user_counter() -> Key {
    key("counter#user", "last")
}

/// `users`: never written; reading it shows that the table answers.
#[must_use]
pub fn nothing() -> Key {
    key("nothing", "nothing")
}

/// A day's log is spread over this many partitions. Fixed: the reader asks all of them.
pub const SMS_LOG_SHARDS: u32 = 4;

/// `sms_logs`: the partition of a day's entries for one shard.
#[must_use]
pub fn sms_log_day(day: NaiveDate, shard: u32) -> String {
    format!("day#{day}#{shard}")
}

/// The shard that holds a phone's entries.
#[must_use]
pub fn sms_log_shard(phone: &Phone) -> u32 {
    // FNV-1a: stable over releases and platforms, which the standard hasher does not promise.
    let hash = phone
        .as_str()
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193));
    hash % SMS_LOG_SHARDS
}

/// `sms_logs`: one attempt.
#[must_use]
pub fn sms_log(day: NaiveDate, phone: &Phone, position: &LogPosition) -> Key {
    key(sms_log_day(day, sms_log_shard(phone)), position.as_str())
}

/// The sort key of every row of the catalog.
pub const CATALOG_ROW: &str = "row";

/// `catalog`: a sport, team, tournament or match.
#[must_use]
pub fn catalog_row(kind: Kind, id: u32) -> Key {
    key(format!("{}#{id}", kind.as_str()), CATALOG_ROW)
}

/// `catalog`: which id a row of a foreign source was given.
#[must_use]
pub fn catalog_external(kind: Kind, external: catalog::Key) -> Key {
    key(format!("external#{}#{:016x}", kind.as_str(), external.0), "id")
}

/// `catalog`: the last id given out.
#[must_use]
pub fn catalog_counter(kind: Kind) -> Key {
    key(format!("counter#{}", kind.as_str()), "last")
}

/// `catalog`: which snapshot is the current one.
#[must_use]
pub fn snapshot_head() -> Key {
    key("snapshot", "head")
}

/// `catalog`: what a snapshot consists of.
#[must_use]
pub fn snapshot_index(at: &str) -> Key {
    key(format!("snapshot#{at}"), "index")
}

/// `catalog`: a part of a chunk.
#[must_use]
pub fn snapshot_part(at: &str, chunk: ChunkName, part: u32) -> Key {
    key(format!("snapshot#{at}"), format!("{chunk}#{part}"))
}

/// `predictions`: the partition of one shard of a match's predictions.
#[must_use]
pub fn event_shard(event: u32, shard: u8) -> String {
    format!("event#{event}#{shard}")
}

/// The sort key of a user's row among a match's predictions.
#[must_use]
pub fn predictor(user: UserId) -> String {
    format!("user#{user}")
}

/// `predictions`: what a user predicts for a match whose predictions are spread over `shards`.
#[must_use]
pub fn prediction(event: u32, shards: u8, user: UserId) -> Key {
    key(event_shard(event, prediction::shard(user, shards)), predictor(user))
}

/// Whether a key of `predictions` is a user's prediction, and not something that is kept beside them.
#[must_use]
pub fn is_prediction(pk: &str, sk: &str) -> bool {
    pk.starts_with("event#") && sk.starts_with("user#")
}

/// `predictions`: how far the calculation of a match's points has got.
#[must_use]
pub fn settlement(event: u32) -> Key {
    key(format!("event#{event}"), "settlement")
}

/// The partition of results that wait for their points. Few at any time.
pub const DUE: &str = "due";

/// `predictions`: a result that waits for its points.
#[must_use]
pub fn due(event: u32) -> Key {
    key(DUE, format!("event#{event}"))
}

/// `predictions`: a change that could not be read, for somebody to look at.
#[must_use]
pub fn unreadable(number: &str) -> Key {
    key("unreadable", number)
}

/// `predictions`: a user's record over all matches.
#[must_use]
pub fn user_stats(user: UserId) -> Key {
    key(format!("user#{user}"), "stats")
}

/// `predictions`: what is counted of a match's predictions.
#[must_use]
pub fn event_tally(event: u32) -> Key {
    key(format!("event#{event}"), "tally")
}

/// `wallets`: what a user holds.
#[must_use]
pub fn balance(user: UserId) -> Key {
    key(format!("user#{user}"), "balance")
}

/// Whose wallet a partition is.
#[must_use]
pub fn wallet_owner(pk: &str) -> Option<UserId> {
    owner(pk)
}

/// What the sort keys of a wallet's entries begin with.
pub const ENTRY: &str = "entry#";

/// `wallets`: a movement. Its key says which one it is: there cannot be another under it.
#[must_use]
pub fn entry(user: UserId, entry: &EntryKey) -> Key {
    let name = match entry {
        EntryKey::Reference(reference) => format!("{ENTRY}reference#{}", reference.as_str()),
        EntryKey::Header(key) => format!("{ENTRY}header#{}", key.as_str()),
        EntryKey::Generated(mark) => format!("{ENTRY}alone#{mark}"),
        EntryKey::Day(day) => format!("{ENTRY}day#{day}"),
        EntryKey::Grant(reference) => format!("{ENTRY}grant#{}", reference.as_str()),
    };
    key(format!("user#{user}"), name)
}

/// `rooms`: a room.
#[must_use]
pub fn room(room: &RoomId) -> Key {
    key(format!("room#{}", room.as_str()), "room")
}

/// `rooms`: what is counted of a room.
#[must_use]
pub fn room_tally(room: &RoomId) -> Key {
    key(format!("room#{}", room.as_str()), "tally")
}

/// `rooms`: the partition of one shard of a room's members. No room's id has a `#` in it.
#[must_use]
pub fn room_shard(room: &RoomId, shard: u8) -> String {
    format!("room#{}#{shard}", room.as_str())
}

/// The sort key of a user's row among a room's members.
#[must_use]
pub fn member_of(user: UserId) -> String {
    format!("member#{user}")
}

/// `rooms`: somebody in a room whose members are spread over `shards`.
#[must_use]
pub fn member(room: &RoomId, shards: u8, user: UserId) -> Key {
    key(room_shard(room, prediction::shard(user, shards)), member_of(user))
}

/// `rooms`: a room that somebody is about to make, by what tells this one from others of theirs.
#[must_use]
pub fn making(user: UserId, digest: &str) -> Key {
    key(format!("making#{user}"), digest)
}

/// `rooms`: a transaction of the homeserver's that is done with.
#[must_use]
pub fn push(transaction: &str) -> Key {
    key(format!("push#{transaction}"), "done")
}

/// The partition of all rooms that anybody may find.
pub const DIRECTORY: &str = "directory";

/// `rooms`: the partition of the rooms about a match that anybody may find.
#[must_use]
pub fn rooms_about(event: u32) -> String {
    format!("about#{event}")
}

/// `rooms`: the partition of the names' endings that begin with a character.
#[must_use]
pub fn endings(first: char) -> String {
    format!("find#{first}")
}

/// The place of a room in a directory: by when it was made.
#[must_use]
pub fn place(room: &Room) -> String {
    format!("{:013}#{:016x}", room.created_at.timestamp_millis().max(0), room.room_id.digest())
}

/// A longer ending is cut, to stay within what a sort key may be long.
const ENDING: usize = 200;

/// What the sort keys of names that contain a text begin with, in its partition of endings.
#[must_use]
pub fn ending(text: &str) -> &str {
    &text[..text.len().min(ENDING)]
}

/// `rooms`: a room in its directories. `name` is folded.
#[must_use]
pub fn directory_places(room: &Room, name: &str) -> Vec<(Key, usize)> {
    let place = place(room);
    let mut keys = vec![(key(DIRECTORY, &place), 0)];
    keys.extend(room.event_id.map(|event| (key(rooms_about(event), &place), 0)));
    // Nobody searches for something that begins with a space.
    let endings = name.char_indices().filter(|(_, first)| !first.is_whitespace());
    keys.extend(endings.map(|(at, first)| {
        (key(self::endings(first), format!("{}#{place}#{at:03}", ending(&name[at..]))), at)
    }));
    keys
}

/// Whether a key of `rooms` is a room itself.
#[must_use]
pub fn is_room(pk: &str, sk: &str) -> bool {
    pk.starts_with("room#") && sk == "room"
}

/// Whose record a key of `predictions` is, if it is one.
#[must_use]
pub fn stats_owner(pk: &str, sk: &str) -> Option<UserId> {
    owner(pk).filter(|_| sk == "stats")
}

/// Whose profile a key of `users` is, if it is one.
#[must_use]
pub fn profile_owner(pk: &str, sk: &str) -> Option<UserId> {
    owner(pk).filter(|_| sk == "profile")
}

fn owner(pk: &str) -> Option<UserId> {
    pk.strip_prefix("user#")?.parse().ok()
}

/// The username that a partition of `users` is about.
#[must_use]
pub fn owned_name(pk: &str) -> Option<Username> {
    Username::parse(pk.strip_prefix("name#")?).ok()
}

/// Whether a key of `rooms` is a member, and not something that is kept beside them.
#[must_use]
pub fn is_member(pk: &str, sk: &str) -> bool {
    pk.starts_with("room#") && sk.starts_with("member#")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flat(key: &Key) -> String {
        format!("{}/{}", key.pk, key.sk)
    }

    #[test]
    fn keys_stay_as_they_are_stored() {
        let phone = Phone::parse("+447700900123").unwrap();
        let name = Username::parse("alice").unwrap();
        assert_eq!(flat(&profile(UserId(7))), "user#7/profile");
        assert_eq!(flat(&session(UserId(7), "ab")), "user#7/session#ab");
        assert_eq!(flat(&phone_owner(&phone)), "phone#+447700900123/owner");
        assert_eq!(flat(&phone_codes(&phone)), "phone#+447700900123/codes");
        assert_eq!(flat(&username_owner(&name)), "name#alice/owner");
        assert_eq!(flat(&user_counter()), "counter#user/last");
        assert_eq!(flat(&catalog_row(Kind::Event, 9)), "event#9/row");
        assert_eq!(
            flat(&catalog_external(Kind::Team, catalog::Key(10))),
            "external#team#000000000000000a/id"
        );
        assert_eq!(flat(&snapshot_head()), "snapshot/head");
        assert_eq!(flat(&snapshot_index("7.a")), "snapshot#7.a/index");
        assert_eq!(
            flat(&snapshot_part("7.a", ChunkName::Month { year: 2026, month: 3 }, 1)),
            "snapshot#7.a/2026-03#1"
        );
        assert_eq!(flat(&prediction(9, 64, UserId(7))), "event#9#23/user#7");
        assert_eq!(flat(&event_tally(9)), "event#9/tally");
        assert_eq!(flat(&settlement(9)), "event#9/settlement");
        assert_eq!(flat(&due(9)), "due/event#9");
        assert_eq!(flat(&user_stats(UserId(7))), "user#7/stats");
        let is_prediction = |key: &Key| super::is_prediction(&key.pk, &key.sk);
        assert!(is_prediction(&prediction(9, 4, UserId(7))));
        let others = [event_tally(9), settlement(9), due(9), user_stats(UserId(7))];
        assert!(!others.iter().any(is_prediction));
        assert_eq!(flat(&balance(UserId(7))), "user#7/balance");
        let day = NaiveDate::from_ymd_opt(2026, 11, 15).unwrap();
        assert_eq!(flat(&entry(UserId(7), &EntryKey::Day(day))), "user#7/entry#day#2026-11-15");
        let reference = crate::domain::coins::ReferenceId::parse("a#b").unwrap();
        assert_eq!(
            flat(&entry(UserId(7), &EntryKey::Reference(reference.clone()))),
            "user#7/entry#reference#a#b"
        );
        assert_eq!(flat(&entry(UserId(7), &EntryKey::Grant(reference))), "user#7/entry#grant#a#b");
        let id = RoomId::parse("!x:server").unwrap();
        assert_eq!(flat(&room(&id)), "room#!x:server/room");
        assert_eq!(flat(&room_tally(&id)), "room#!x:server/tally");
        assert_eq!(flat(&member(&id, 64, UserId(7))), "room#!x:server#23/member#7");
        let is_member = |key: &Key| super::is_member(&key.pk, &key.sk);
        assert!(
            is_member(&member(&id, 1, UserId(7))) && !is_member(&room(&id)) && !is_member(&room_tally(&id))
        );
        let day = NaiveDate::from_ymd_opt(2026, 11, 15).unwrap();
        assert_eq!(sms_log_day(day, sms_log_shard(&phone)), "day#2026-11-15#1");
    }

    #[test]
    fn the_log_is_spread_evenly() {
        let mut counts = [0; SMS_LOG_SHARDS as usize];
        for n in 0..4_000 {
            counts[sms_log_shard(&Phone::parse(&format!("+4477009{n:05}")).unwrap()) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
