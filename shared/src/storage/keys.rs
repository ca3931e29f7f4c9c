//! The format of every key, grouped by table. No other file formats keys.
//!
//! Stored items have keys in these formats, so a format never changes, even if its function is renamed.

#[cfg(test)]
mod tests;

use chrono::{DateTime, NaiveDate, Utc};

pub use super::item::Key;
use crate::domain::catalog::{self, ChunkName, Kind};
use crate::domain::cleanup::Work;
use crate::domain::code::{NetworkDigest, PhoneDigest};
use crate::domain::coins::EntryKey;
use crate::domain::invite_link::LinkCode;
use crate::domain::limit::{DailyAction, HourlyAction};
use crate::domain::marker::End;
use crate::domain::month::Month;
use crate::domain::report::{ReportId, ReportStatus};
use crate::domain::sms::LogPosition;
use crate::domain::standings::{Board, Period, Scope};
use crate::domain::username::UsernamePrefix;
use crate::domain::{Address, CallingPrefix, Phone, Room, RoomId, UserId, Username, digest, prediction};

fn key(pk: impl Into<String>, sk: impl Into<String>) -> Key {
    Key { pk: pk.into(), sk: sk.into() }
}

/// Returns the user to whom a partition belongs, in any table that has a partition per user.
fn partition_owner(pk: &str) -> Option<UserId> {
    pk.strip_prefix("user#")?.parse().ok()
}

// users

/// Returns the key of a user's profile.
#[must_use]
pub fn profile(user: UserId) -> Key {
    key(format!("user#{user}"), PROFILE)
}

/// The sort key of every profile.
pub const PROFILE: &str = "profile";

/// Returns the user, if the key is that of a profile.
#[must_use]
pub fn profile_owner(pk: &str, sk: &str) -> Option<UserId> {
    partition_owner(pk).filter(|_| sk == PROFILE)
}

/// Returns the partition of a user's items.
#[must_use]
pub fn user_partition(user: UserId) -> String {
    format!("user#{user}")
}

/// The prefix of the sort keys of sessions. A filter of an event source in the template has it, too.
pub const SESSION: &str = "session#";

/// Returns the key of a session. `token_digest` is the SHA-256 of the session's token.
#[must_use]
pub fn session(user: UserId, token_digest: &str) -> Key {
    session_at(user, &format!("{SESSION}{token_digest}"))
}

/// Returns the key of a session with this sort key.
#[must_use]
pub fn session_at(user: UserId, sk: &str) -> Key {
    key(user_partition(user), sk)
}

/// Returns the user, if the key is that of a session.
#[must_use]
pub fn session_owner(pk: &str, sk: &str) -> Option<UserId> {
    partition_owner(pk).filter(|_| sk.starts_with(SESSION))
}

/// Returns the key of the item that names a phone's owner.
#[must_use]
pub fn phone_owner(phone: &Phone) -> Key {
    key(format!("phone#{}", phone.as_str()), "owner")
}

/// Returns the key of the item that names the account which the owner of a phone can take back.
#[must_use]
pub fn phone_recovery(phone: &Phone) -> Key {
    key(format!("phone#{}", phone.as_str()), "recovery")
}

/// Returns the key of a user's pending verification of a phone.
#[must_use]
pub fn verification(user: UserId) -> Key {
    key(format!("user#{user}"), "verification")
}

/// Returns the key of the code with which a user confirms the deletion of the account.
#[must_use]
pub fn deletion(user: UserId) -> Key {
    key(format!("user#{user}"), "deletion")
}

/// Returns the key of the item that holds a phone's login code and its rate limit.
#[must_use]
pub fn phone_codes(phone: &Phone) -> Key {
    key(format!("phone#{}", phone.as_str()), "codes")
}

/// Returns the key of a login code of a test phone for the network that requested it.
#[must_use]
pub fn own_code(phone: &Phone, network: &NetworkDigest) -> Key {
    key(format!("phone#{}", phone.as_str()), format!("code#{}", network.as_str()))
}

/// Replaces the phone in a partition key, for texts that are kept longer than the phone.
#[must_use]
pub fn without_phone(pk: &str) -> &str {
    if pk.starts_with("phone#") { "phone#(hidden)" } else { pk }
}

/// Returns the key of the item that names a username's owner. It has a hash of the username, because the item stays when the
/// user deletes the account: nobody else can get the username, and the item does not contain it.
#[must_use]
pub fn username_owner(name: &Username) -> Key {
    reserved_name(name.as_str())
}

/// Returns the username, or the look-alike key of one, if the partition has it as earlier versions stored it: without a hash.
#[must_use]
pub fn unhashed_name(pk: &str) -> Option<&str> {
    // A hash has 32 characters, and a username at most 30.
    pk.strip_prefix("name#").filter(|name| name.len() < 32)
}

/// Returns the key of the item that reserves a username or a look-alike key.
#[must_use]
pub fn reserved_name(name: &str) -> Key {
    key(format!("name#{}", digest(&[name])), "owner")
}

/// Returns the key of the item that keeps other users from taking a username that looks like `name`. Returns `None` if it
/// is the item of [`username_owner`].
#[must_use]
pub fn username_lookalikes(name: &Username) -> Option<Key> {
    name.lookalike_key().map(|lookalike| reserved_name(&lookalike))
}

/// Returns the partition of the search for usernames that begin with the first two characters of `text`, which must have two
/// or more. New usernames are spread over about a thousand partitions, and a search reads one.
#[must_use]
pub fn username_search(text: &str) -> String {
    format!("search#{}", &text[..UsernamePrefix::MIN])
}

/// Returns the key of the item with which a search finds a username.
#[must_use]
pub fn searched_username(name: &Username) -> Key {
    key(username_search(name.as_str()), name.as_str())
}

/// Returns the key of the rate limit of a network: an IPv4 address or an IPv6 /64.
#[must_use]
pub fn address_limit(address: &Address) -> Key {
    key(format!("address#{}", address.as_str()), "limit")
}

/// Returns the key of the rate limit of a network that enters codes which another network requested.
#[must_use]
pub fn wrong_codes(address: &Address) -> Key {
    key(format!("address#{}", address.as_str()), "wrong")
}

/// Returns the key of the rate limit of the rooms that a user joins.
#[must_use]
pub fn rooms_limit(user: UserId) -> Key {
    key(format!("user#{user}"), "rooms")
}

/// Returns the key of the number of actions of a network in a UTC hour.
#[must_use]
pub fn hour_limit(action: HourlyAction, network: &Address, at: DateTime<Utc>) -> Key {
    let hour = at.format("%Y-%m-%dT%H");
    key(format!("address#{}", network.as_str()), format!("{}#{hour}", action.as_str()))
}

/// Returns the key of the item that holds what a user did on a day, for a limit per day.
#[must_use]
pub fn day_limit(user: UserId, action: DailyAction, day: NaiveDate) -> Key {
    key(format!("user#{user}"), format!("limit#{}#{day}", action.as_str()))
}

/// The partition of all work that was begun and must be finished. A filter of an event source in the template has it, too.
pub const CLEANUP: &str = "cleanup";

/// Returns the key of work that must be finished.
#[must_use]
pub fn cleanup(work: &Work) -> Key {
    let name = match work {
        Work::LogOutDevice { user, device_id, .. } => format!("device#{user}#{device_id}"),
        Work::LogOutDevices { username } => format!("devices#{}", username.as_str()),
        Work::EndSessions { user, .. } => format!("sessions#{user}"),
        Work::SyncIgnoredUsers { user } => format!("ignored#{user}"),
        Work::TellOldPhone { user, phone } => format!("notice#{user}#{}", phone.as_str()),
        Work::EraseUser { user, .. } => format!("erase#{user}"),
        Work::EraseChat { user, .. } => format!("erase-chat#{user}"),
    };
    key(CLEANUP, name)
}

/// Returns the key of the item that says that the age of a phone's owner was refused at the first login.
#[must_use]
pub fn age_refusal(phone: &PhoneDigest) -> Key {
    key(format!("age#{}", phone.as_str()), "refusal")
}

/// Returns the key of the number of accounts of a phone that were deleted on a day.
#[must_use]
pub fn deletions_of_phone(phone: &PhoneDigest, day: NaiveDate) -> Key {
    key(format!("deleted#{}", phone.as_str()), day.to_string())
}

/// Returns the key of the item that holds the users whom a user has blocked.
#[must_use]
pub fn blocks(user: UserId) -> Key {
    key(format!("user#{user}"), "blocks")
}

/// Returns the user to whom an item of [`blocks`] belongs.
#[must_use]
pub fn blocks_owner(pk: &str) -> Option<UserId> {
    partition_owner(pk)
}

/// The prefix of the sort keys of reports.
pub const REPORT: &str = "report#";

/// Returns the key of a report.
#[must_use]
pub fn report(id: &ReportId) -> Key {
    key(format!("user#{}", id.reporter), format!("{REPORT}{}", id.digest))
}

/// Returns the partition with the lists of a month's reports.
#[must_use]
pub fn reports_of(month: Month) -> String {
    format!("reports#{month}")
}

/// Returns the prefix of the sort keys in the list of reports with a status.
#[must_use]
pub fn report_list_prefix(status: ReportStatus) -> String {
    format!("{}#", status.as_str())
}

/// Returns the key of a report's entry in the list of its status. Entries sort by time.
#[must_use]
pub fn listed_report(month: Month, status: ReportStatus, at: DateTime<Utc>, id: &ReportId) -> Key {
    key(reports_of(month), format!("{}{:013}#{id}", report_list_prefix(status), at.timestamp_millis()))
}

/// Returns the partition with the entries of a month of the operators' audit.
#[must_use]
pub fn audit_of(month: Month) -> String {
    format!("audit#{month}")
}

/// The prefix of the sort keys of the operators' audit.
pub const AUDIT_ENTRY: &str = "entry#";

/// Returns the key of an entry of the operators' audit. Entries sort by time.
#[must_use]
pub fn audit_entry(at: DateTime<Utc>, id: &str) -> Key {
    key(audit_of(Month::of(at)), format!("{AUDIT_ENTRY}{:013}#{id}", at.timestamp_millis()))
}

/// Returns the key of the item that holds the result of an operator's action.
#[must_use]
pub fn operator_action(id: &str) -> Key {
    key(format!("action#{id}"), "action")
}

/// Returns the key of the counter that holds the last assigned user id.
#[must_use]
pub fn user_counter() -> Key {
    key("counter#user", "last")
}

/// Returns a key that is never written. Reading it checks that the table responds.
#[must_use]
pub fn never_written() -> Key {
    key("nothing", "nothing")
}

// sms_logs

/// The number of partitions, or shards, that hold one day of the log. It must not change while entries are
/// kept, because an entry's partition depends on it.
pub const SMS_LOG_SHARDS: u32 = 4;

/// Returns the partition of one shard of a day's log.
#[must_use]
pub fn sms_log_day(day: NaiveDate, shard: u32) -> String {
    format!("day#{day}#{shard}")
}

/// Returns the shard that holds a phone's log entries.
#[must_use]
pub fn sms_log_shard(phone: &Phone) -> u32 {
    fnv_1a(phone.as_str()) % SMS_LOG_SHARDS
}

/// Hashes a text with FNV-1a. It gives the same hash on every release and platform; Rust's standard hasher does not.
fn fnv_1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5_u32, |hash, b| (hash ^ u32::from(b)).wrapping_mul(0x0100_0193))
}

/// Returns the key of a log entry.
#[must_use]
pub fn sms_log(day: NaiveDate, phone: &Phone, position: &LogPosition) -> Key {
    key(sms_log_day(day, sms_log_shard(phone)), position.as_str())
}

/// Returns the key of the counters of the messages that a network requests.
#[must_use]
pub fn sms_network(network: &NetworkDigest) -> Key {
    key(format!("network#{}", network.as_str()), "counts")
}

/// Returns the key of the counters of the messages to a prefix.
#[must_use]
pub fn sms_prefix(prefix: &CallingPrefix) -> Key {
    key(format!("prefix#{prefix}"), "counts")
}

/// Returns the key of the counters of all messages of a month.
#[must_use]
pub fn sms_month(month: Month) -> Key {
    key(format!("month#{month}"), "counts")
}

// catalog

/// The sort key of every catalog row.
pub const CATALOG_ROW: &str = "row";

/// Returns the key of a sport, team, tournament or match.
#[must_use]
pub fn catalog_row(kind: Kind, id: u32) -> Key {
    key(format!("{}#{id}", kind.as_str()), CATALOG_ROW)
}

/// Returns the key of the item that says since when a pause of a match's predictions is published.
#[must_use]
pub fn published_pause(event: u32) -> Key {
    key(format!("{}#{event}", Kind::Event.as_str()), "pause")
}

/// Returns the key of the item that holds our id for a row of an external source.
#[must_use]
pub fn catalog_external(kind: Kind, external: catalog::Key) -> Key {
    key(format!("external#{}#{:016x}", kind.as_str(), external.0), "id")
}

/// Returns the key of the counter that holds the last id that was assigned to a row of `kind`.
#[must_use]
pub fn catalog_counter(kind: Kind) -> Key {
    key(format!("counter#{}", kind.as_str()), "last")
}

/// Returns the key of the lease that a run of `feed` holds.
#[must_use]
pub fn feed_lease() -> Key {
    key("feed", "lease")
}

/// Returns the key of the pointer to the current snapshot.
#[must_use]
pub fn snapshot_head() -> Key {
    key("snapshot", "head")
}

/// Returns the key of the list of a snapshot's chunks. `at` names the snapshot's partition.
#[must_use]
pub fn snapshot_index(at: &str) -> Key {
    key(format!("snapshot#{at}"), "index")
}

/// Returns the key of one part of a chunk. `at` names the snapshot that wrote the chunk. Each part has its own partition
/// key, because many new environments load the same chunks at the same time.
#[must_use]
pub fn snapshot_part(at: &str, chunk: ChunkName, part: u32) -> Key {
    key(format!("snapshot#{at}#{chunk}#{part}"), "part")
}

// predictions

/// Returns the partition of one shard of a match's predictions.
#[must_use]
pub fn event_shard(event: u32, shard: u8) -> String {
    format!("event#{event}#{shard}")
}

/// Returns the shard of a prediction or a membership, from its partition key.
#[must_use]
pub fn shard_of(pk: &str) -> Option<u8> {
    pk.rsplit_once('#')?.1.parse().ok()
}

/// The prefix of the sort keys of predictions.
pub const PREDICTOR: &str = "user#";

/// Returns the sort key of a user's prediction.
#[must_use]
pub fn predictor(user: UserId) -> String {
    format!("{PREDICTOR}{user}")
}

/// Returns the match and the shard, if the partition is one of a match's predictions.
#[must_use]
pub fn predicted_event(pk: &str) -> Option<(u32, u8)> {
    let (event, shard) = pk.strip_prefix("event#")?.split_once('#')?;
    Some((event.parse().ok()?, shard.parse().ok()?))
}

/// Returns the sort key of a marker in a partition of predictions or members. `!` sorts before all of their sort keys
/// and `~` after them.
#[must_use]
pub fn marker(end: End) -> &'static str {
    match end {
        End::First => "!marker",
        End::Last => "~marker",
    }
}

/// Returns which marker this is, if the sort key is that of a marker.
#[must_use]
pub fn marker_end(sk: &str) -> Option<End> {
    End::BOTH.into_iter().find(|end| marker(*end) == sk)
}

/// Returns the key of a user's prediction for a match that has `shards` shards.
#[must_use]
pub fn prediction(event: u32, shards: u8, user: UserId) -> Key {
    key(event_shard(event, prediction::shard(user, shards)), predictor(user))
}

/// Returns whether the key is that of a prediction. The table also holds other items.
#[must_use]
pub fn is_prediction(pk: &str, sk: &str) -> bool {
    pk.starts_with("event#") && sk.starts_with(PREDICTOR)
}

/// Returns the key of the item that holds the progress of a match's settlement.
#[must_use]
pub fn settlement(event: u32) -> Key {
    key(format!("event#{event}"), "settlement")
}

/// The partition of the match results that wait for settlement. It holds few items at any time.
pub const DUE: &str = "due";

/// Returns the key of a match result that waits for settlement.
#[must_use]
pub fn due(event: u32) -> Key {
    key(DUE, format!("event#{event}"))
}

/// Returns the key of a stream record that was set aside. `sequence` is its sequence number.
#[must_use]
pub fn set_aside(sequence: &str) -> Key {
    key("set-aside", sequence)
}

/// Returns the key of the item that says since when a stream record fails. `sequence` is its sequence number.
#[must_use]
pub fn failing(sequence: &str) -> Key {
    key("failing", sequence)
}

/// The number of partitions that hold the statistics of all users. `standings` reads them one after the other. With so many,
/// each gets 200 writes a second while `points` settles 25,000 predictions a second. A write has up to 4 units. It must not change, because the
/// partition of a user depends on it.
pub const STATS_SHARDS: u8 = 128;

/// The prefix of the sort keys of users' statistics. The filter of the event source `Records` in the template has it, too.
pub const STATS: &str = "stats#";

/// Returns the partition of one shard of the users' statistics.
#[must_use]
pub fn stats_shard(shard: u8) -> String {
    format!("stats#{shard}")
}

/// Returns the key of a user's statistics over all matches.
#[must_use]
pub fn user_stats(user: UserId) -> Key {
    key(stats_shard(prediction::shard(user, STATS_SHARDS)), format!("{STATS}{user}"))
}

/// Returns the user, if the key is that of a user's statistics.
#[must_use]
pub fn stats_owner(pk: &str, sk: &str) -> Option<UserId> {
    sk.strip_prefix(STATS)?.parse().ok().filter(|_| pk.starts_with("stats#"))
}

/// Returns the key of the counters of a match's predictions.
#[must_use]
pub fn event_tally(event: u32) -> Key {
    key(format!("event#{event}"), TALLY)
}

/// Returns the key of the counters of one shard of a match's predictions.
#[must_use]
pub fn event_tally_part(event: u32, shard: u8) -> Key {
    key(format!("event#{event}"), tally_part(shard))
}

/// The sort key of the counters of a match or a room, and the prefix of the sort keys of their parts. One query reads all of
/// them.
pub const TALLY: &str = "tally";

/// Returns whether the sort key is that of a part of counters.
#[must_use]
pub fn is_tally_part(sk: &str) -> bool {
    sk.strip_prefix(TALLY).is_some_and(|rest| rest.starts_with('#'))
}

/// Returns the match, if the partition is the one with the counters of a match.
#[must_use]
pub fn counted_event(pk: &str) -> Option<u32> {
    pk.strip_prefix("event#")?.parse().ok()
}

/// Returns the room, if the partition is the one with the counters of a room.
#[must_use]
pub fn counted_room(pk: &str) -> Option<RoomId> {
    RoomId::parse(pk.strip_prefix("room#")?)
}

fn tally_part(shard: u8) -> String {
    format!("{TALLY}#{shard}")
}

// wallets

/// Returns the key of a user's balance.
#[must_use]
pub fn balance(user: UserId) -> Key {
    key(format!("user#{user}"), "balance")
}

/// Returns the user, if the partition is a wallet.
#[must_use]
pub fn wallet_owner(pk: &str) -> Option<UserId> {
    partition_owner(pk)
}

/// The prefix of the sort keys of a wallet's ledger entries.
pub const ENTRY: &str = "entry#";

/// Returns the key of a ledger entry. The item's key contains the idempotency key, so the ledger stores an
/// entry at most once.
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

/// The sort key of every room.
pub const ROOM: &str = "room";

/// Returns the key of a room.
#[must_use]
pub fn room(room: &RoomId) -> Key {
    key(format!("room#{}", room.as_str()), ROOM)
}

/// Returns whether the key is that of a room. The table also holds other items.
#[must_use]
pub fn is_room(pk: &str, sk: &str) -> bool {
    pk.starts_with("room#") && sk == ROOM
}

/// Returns the key of a room's counters.
#[must_use]
pub fn room_tally(room: &RoomId) -> Key {
    key(format!("room#{}", room.as_str()), TALLY)
}

/// Returns the key of the counters of one shard of a room's members.
#[must_use]
pub fn room_tally_part(room: &RoomId, shard: u8) -> Key {
    key(format!("room#{}", room.as_str()), tally_part(shard))
}

/// Returns the partition of one shard of a room's members. It never equals the partition of a [`room`], because
/// room ids contain no `#`.
#[must_use]
pub fn room_shard(room: &RoomId, shard: u8) -> String {
    format!("room#{}#{shard}", room.as_str())
}

/// Returns the room and the shard, if the partition is one of a room's members.
#[must_use]
pub fn room_of_members(pk: &str) -> Option<(RoomId, u8)> {
    // A room id contains no `#`.
    let (room, shard) = pk.strip_prefix("room#")?.split_once('#')?;
    Some((RoomId::parse(room)?, shard.parse().ok()?))
}

/// The prefix of the sort keys of memberships.
pub const MEMBER: &str = "member#";

/// Returns the sort key of a user's membership.
#[must_use]
pub fn member_of(user: UserId) -> String {
    format!("{MEMBER}{user}")
}

/// Returns the key of a user's membership of a room that has `shards` shards.
#[must_use]
pub fn member(room: &RoomId, shards: u8, user: UserId) -> Key {
    key(room_shard(room, prediction::shard(user, shards)), member_of(user))
}

/// Returns whether the key is that of a membership. The table also holds other items.
#[must_use]
pub fn is_member(pk: &str, sk: &str) -> bool {
    pk.starts_with("room#") && sk.starts_with(MEMBER)
}

/// The prefix of the sort keys of invite links.
pub const INVITE_LINK: &str = "link#";

/// Returns the key of the invite link that a user made for a room.
#[must_use]
pub fn invite_link(user: UserId, room: &RoomId) -> Key {
    key(user_partition(user), format!("{INVITE_LINK}{}", room.as_str()))
}

/// Returns the key of the item that leads from the code of an invite link to the link.
#[must_use]
pub fn invite_link_code(code: &LinkCode) -> Key {
    key(format!("link#{}", code.digest()), "code")
}

/// Returns the key of the number of times that all invite links of a room were revoked.
#[must_use]
pub fn link_revocations(room: &RoomId) -> Key {
    key(format!("room#{}", room.as_str()), "links")
}

/// Returns the partition of the items that track the creations of a user's rooms.
#[must_use]
pub fn room_creations(user: UserId) -> String {
    format!("making#{user}")
}

/// Returns the key of the item that tracks the creation of a room. `digest` identifies the request.
#[must_use]
pub fn room_creation(user: UserId, digest: &str) -> Key {
    key(room_creations(user), digest)
}

/// Returns the key of the item that counts the homeserver's transactions.
#[must_use]
pub fn pushes() -> Key {
    key("push".to_owned(), "count")
}

/// Returns the key of the item with the number of a homeserver transaction. `digest` is the digest of its events.
#[must_use]
pub fn push(digest: &str) -> Key {
    key(format!("push#{digest}"), "number")
}

// standings

/// Returns the key of the item with the current build of a board.
#[must_use]
pub fn board_head(board: Board) -> Key {
    key(format!("board#{board}"), "head")
}

/// Returns the key of the item with the last matchday of a scope that has results.
#[must_use]
pub fn latest_matchday(scope: Scope) -> Key {
    let all = Board { scope, period: Period::All };
    key(format!("board#{all}"), "matchday")
}

/// A part of a built board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoardPart {
    Block(usize),
    Index(usize),
    Ranks(usize),
    /// Only of a board that has closed.
    Users(u32),
}

/// Returns the key of a part of a built board. Each part has its own partition key, because many users read the same board.
#[must_use]
pub fn board_part(board: Board, slot: u8, part: BoardPart) -> Key {
    let part = match part {
        BoardPart::Block(number) => format!("block#{number}"),
        BoardPart::Index(number) => format!("index#{number}"),
        BoardPart::Ranks(number) => format!("ranks#{number}"),
        BoardPart::Users(number) => format!("users#{number}"),
    };
    key(format!("board#{board}#{slot}#{part}"), "part")
}

/// Returns the key of a chunk of the rows that a worker has sorted for a build.
#[must_use]
pub fn board_run(board: Board, slot: u8, group: u8, chunk: u32) -> Key {
    key(format!("board#{board}#{slot}#run#{group}#{chunk}"), "part")
}

/// Returns the key of a queue of boards that must be built again.
#[must_use]
pub fn queued_boards(number: u8) -> Key {
    key(format!("queue#{number}"), number.to_string())
}

/// Returns the key of the lease for a build by workers.
#[must_use]
pub fn workers_lease() -> Key {
    key("open".to_owned(), "lease")
}

/// Returns the key of the list of boards that are open.
#[must_use]
pub fn open_boards() -> Key {
    key("open".to_owned(), "boards")
}

/// Returns the key of a queue of rooms whose tables must be built.
#[must_use]
pub fn queued_rooms(number: u8) -> Key {
    key(format!("queue#rooms#{number}"), number.to_string())
}

/// Returns a number below `count` that depends only on a text.
#[must_use]
pub fn spread(text: &str, count: u8) -> u8 {
    u8::try_from(fnv_1a(text) % u32::from(count)).unwrap_or(0)
}

// directory

/// The number of partitions over which a list of rooms is spread. The rooms of a list sort by creation time, so all
/// new rooms go to the end of a partition, where DynamoDB cannot divide the writes. A page reads every
/// partition, so more of them would make each page more expensive.
pub const DIRECTORY_SHARDS: u64 = 2;

/// Returns the shard of a room in the lists of rooms.
fn directory_shard(room: &RoomId) -> u64 {
    room.digest() % DIRECTORY_SHARDS
}

/// Returns the partition of one shard of the list of all public rooms.
#[must_use]
pub fn all_rooms(shard: u64) -> String {
    format!("directory#{shard}")
}

/// Returns the partition of one shard of the list of public rooms about a match.
#[must_use]
pub fn rooms_about(event: u32, shard: u64) -> String {
    format!("about#{event}#{shard}")
}

/// The suffixes with the same first character are divided into ranges of their second character. A range begins at
/// each of these characters. The ranges of names in European languages have about the same size.
const SUFFIX_RANGES: [u8; 3] = [b'd', b'i', b'p'];

/// Returns the range of a name suffix, or of a sort key that begins with the suffix. A suffix of one character is in
/// the first range: in a sort key, a `#` follows it.
fn suffix_range(suffix: &str) -> usize {
    let second = suffix.as_bytes().get(1).copied().unwrap_or_default();
    SUFFIX_RANGES.partition_point(|start| *start <= second)
}

/// Returns the partition of a range of the name suffixes that begin with the first character of `text`.
fn suffix_partition(text: &str, range: usize) -> String {
    format!("find#{}#{range}", &text[..text.len().min(1)])
}

/// Returns the partitions of the search index that hold the name suffixes that begin with `text`, in the order of the
/// sort keys, and without those before the sort key `after`. `text` must be folded: lower-case ASCII.
///
/// This is one partition for a text of two or more characters, and at most four for a text of one character.
#[must_use]
pub fn suffix_partitions(text: &str, after: Option<&str>) -> Vec<String> {
    let first = suffix_range(after.unwrap_or(text));
    let last = if text.len() > 1 { suffix_range(text) } else { SUFFIX_RANGES.len() };
    (first..=last).map(|range| suffix_partition(text, range)).collect()
}

/// Returns a room's sort key in a directory. Rooms sort by creation time.
fn directory_position(room: &Room) -> String {
    format!("{:013}#{:016x}", room.created_at.timestamp_millis().max(0), room.room_id.digest())
}

/// The maximum length of a name suffix in a sort key, in bytes. Longer suffixes are cut, because DynamoDB
/// limits the length of sort keys.
const MAX_SUFFIX: usize = 200;

/// Returns the sort key prefix for the name suffixes that begin with `text`. `text` must be folded: lower-case
/// ASCII.
#[must_use]
pub fn suffix_prefix(text: &str) -> &str {
    &text[..text.len().min(MAX_SUFFIX)]
}

/// Returns the keys of all directory entries of a room. Each key comes with the offset in `name` at which the
/// entry's suffix begins, or with 0 if the entry has no suffix. `name` is the folded name of the room, and `starts` are
/// the offsets at which a search can begin.
#[must_use]
pub fn directory_entries(room: &Room, name: &str, starts: &[usize]) -> Vec<(Key, usize)> {
    let (position, shard) = (directory_position(room), directory_shard(&room.room_id));
    let about = room.event_id.map(|event| (key(rooms_about(event, shard), &position), 0));
    let mut keys: Vec<(Key, usize)> = about.into_iter().collect();
    if room.is_match_room() {
        // Lists and searches find the rooms of matches in the catalog.
        return keys;
    }
    keys.push((key(all_rooms(shard), &position), 0));
    let suffixes = starts.iter().filter_map(|&at| Some((at, name.get(at..)?)));
    keys.extend(suffixes.map(|(at, suffix)| {
        let partition = suffix_partition(suffix, suffix_range(suffix));
        (key(partition, format!("{}#{position}#{at:03}", suffix_prefix(suffix))), at)
    }));
    keys
}
