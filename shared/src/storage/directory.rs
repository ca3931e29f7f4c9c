//! The `directory` table: the lists of public rooms and the index for searches by name.
//!
//! A public room about a match has an entry in the list of the match. A public room that a user created has an entry in the
//! list of all such rooms, and one for each character of its name, so at most 100: the suffix
//! that begins with the character. A search for a part of a name queries the suffixes that begin with that part, so
//! the search reads only rooms whose names contain the part. The `tally` function maintains the entries from the
//! stream of the `rooms` table.
//!
//! The table has no local index, so DynamoDB can divide the entries of one partition key over many partitions. The
//! lists are spread over [`keys::DIRECTORY_SHARDS`] partition keys. The suffixes are spread by their first character
//! and by the range of their second character.
//!
//! The rooms of matches have no suffixes, and are not in the list of all rooms: the catalog is in memory and has the matches and
//! the names of their teams. A season of 380 matches would need 10,000 suffixes, and fill the list with empty rooms.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::{AttributeValue, DeleteRequest, PutRequest, WriteRequest};
use futures_util::future::try_join_all;
use futures_util::stream;
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Deserialize;

use super::client::Call as _;
use super::error::StoreError;
use super::item::{Item, Key, from_item, number, text};
use super::keys;
use super::store::Store;
use crate::domain::catalog::fold;
use crate::domain::room::{Room, RoomId};

/// The maximum length of a folded name, in characters. Longer folded names are cut. Folding converts a name to
/// lower-case ASCII without accents. The folded name can be longer than the room's name, because folding can turn one
/// character into several.
const MAX_NAME: usize = 300;

/// The maximum number of concurrent batches of writes.
const CONCURRENCY: usize = 8;

/// A room before and after a change. `old` is `None` for a new room, and `new` is `None` for a deleted room.
#[derive(Debug, Clone, Copy)]
pub struct RoomChange<'a> {
    pub old: Option<&'a Room>,
    pub new: Option<&'a Room>,
}

/// Which public rooms to list, and in which order.
#[derive(Debug, Clone)]
pub enum Directory {
    /// The rooms that users created, newest first.
    All,
    /// The rooms about a match, newest first.
    About(u32),
    /// The rooms that users created and whose name contains a text, sorted by the part of the name that begins with the text.
    Named(Needle),
}

impl Directory {
    /// Returns whether a page of this directory can begin after `position`.
    #[must_use]
    pub fn has_position(&self, position: &str) -> bool {
        match self {
            Self::All | Self::About(_) => true,
            Self::Named(Needle(text)) => position.starts_with(keys::suffix_prefix(text)),
        }
    }
}

/// A page of a directory.
#[derive(Debug)]
pub struct DirectoryPage {
    pub entries: Vec<DirectoryEntry>,
    /// The position after which the next page begins. `None` on the last page.
    pub next: Option<String>,
}

/// A search ends its page early once it has read this many entries. Without this limit, rooms whose names
/// repeat a text many times would make searches for the text expensive.
const MAX_EXAMINED: usize = 500;

/// A text to search for in room names. It is folded, and never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle(String);

impl Needle {
    /// Folds a text. Returns `None` if folding leaves nothing to search for.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let folded = folded(text);
        let text = folded.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a name, once folded, contains this text.
    #[must_use]
    pub fn is_in(&self, name: &str) -> bool {
        folded(name).contains(&self.0)
    }

    /// Returns whether a search lists `entry`. A name that contains the text twice has two matching entries. Only
    /// the entry for the first occurrence is listed.
    fn lists(&self, entry: &DirectoryEntry) -> bool {
        entry.first_suffix_with(&self.0) == Some(entry.at)
    }
}

fn folded(name: &str) -> String {
    let mut name = fold(name);
    // Folded names are ASCII, so they can be cut anywhere.
    name.truncate(MAX_NAME);
    name
}

/// The folded name of a room, with the offsets at which a search can find a part of the name.
///
/// These are the offsets of the name's own characters. Folding can turn one character into several, for example
/// "서울" into "seoul". A text that begins inside a character is not a part of the name, so such offsets need no entries. A name
/// has at most 100 characters, so a room has at most 100 suffixes.
#[derive(Debug)]
struct FoldedName {
    text: String,
    starts: Vec<usize>,
}

impl FoldedName {
    fn new(name: &str) -> Self {
        let text = folded(name);
        // A searched text is trimmed, so no search needs a suffix that begins with a space.
        let start = |before: &str| {
            let from = fold(before).len();
            Some(from + text.get(from..)?.find(|first: char| !first.is_whitespace())?)
        };
        let mut starts: Vec<usize> = name.char_indices().filter_map(|(at, _)| start(&name[..at])).collect();
        starts.dedup();
        Self { text, starts }
    }

    /// Returns whether every character of the folded name, except spaces, begins a suffix.
    fn has_all_starts(&self) -> bool {
        self.text.chars().filter(|first| !first.is_whitespace()).count() == self.starts.len()
    }
}

/// A room in a directory.
#[derive(Debug, Clone, Deserialize)]
pub struct DirectoryEntry {
    /// The entry's sort key. A cursor contains the position of the entry after which the next page begins.
    #[serde(rename = "sk")]
    pub position: String,
    pub room_id: RoomId,
    /// The room's folded name.
    name: String,
    /// The byte offset at which this entry's suffix of `name` begins. Entries in the directory of all rooms and in
    /// the directory of a match are for the whole name, so their offset is 0.
    at: usize,
    /// The offsets in `name` that have an entry. `None` if all offsets have one, except those of spaces.
    starts: Option<Vec<usize>>,
}

impl DirectoryEntry {
    /// Returns the offset of the first suffix that has an entry and begins with `text`.
    fn first_suffix_with(&self, text: &str) -> Option<usize> {
        match &self.starts {
            None => self.name.find(text),
            Some(starts) => starts
                .iter()
                .copied()
                .find(|&at| self.name.get(at..).is_some_and(|suffix| suffix.starts_with(text))),
        }
    }

    /// Returns whether the room's name contains a text.
    #[must_use]
    pub fn contains(&self, needle: &Needle) -> bool {
        self.name.contains(&needle.0)
    }
}

/// The newest entries of one shard after a position, newest first.
struct ShardPage {
    entries: Vec<DirectoryEntry>,
    /// Whether `entries` has all entries after the position.
    has_ended: bool,
}

/// Merges pages of shards that begin after the same position. The page ends at the oldest entry before which no
/// entry of any shard is missing.
fn merge(shards: Vec<ShardPage>) -> DirectoryPage {
    let unfinished = shards.iter().filter(|shard| !shard.has_ended);
    let next = unfinished.filter_map(|shard| shard.entries.last()).map(|last| last.position.clone()).max();
    let mut entries: Vec<DirectoryEntry> = shards.into_iter().flat_map(|shard| shard.entries).collect();
    entries.retain(|entry| next.as_ref().is_none_or(|next| entry.position >= *next));
    entries.sort_by(|one, other| other.position.cmp(&one.position));
    DirectoryPage { entries, next }
}

impl Store {
    /// Reads a page of a directory after a position.
    ///
    /// A list of rooms returns more than `limit` entries if there are that many: each shard is read up to the limit.
    /// A search by name returns up to `limit` entries. It can return fewer and still have a next page, because a
    /// search stops after reading `MAX_EXAMINED` entries.
    pub async fn directory_page(
        &self,
        directory: &Directory,
        after: Option<String>,
        limit: usize,
    ) -> Result<DirectoryPage, StoreError> {
        let partitions: Vec<String> = match directory {
            Directory::All => (0..keys::DIRECTORY_SHARDS).map(keys::all_rooms).collect(),
            Directory::About(event) => {
                (0..keys::DIRECTORY_SHARDS).map(|shard| keys::rooms_about(*event, shard)).collect()
            }
            Directory::Named(needle) => return self.suffixes_page(needle, after, limit).await,
        };
        let shards = partitions.iter().map(|partition| self.newest_rooms(partition, after.as_deref(), limit));
        Ok(merge(try_join_all(shards).await?))
    }

    async fn newest_rooms(
        &self,
        partition: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ShardPage, StoreError> {
        let query = self
            .client
            .query()
            .table_name(&self.tables.directory)
            .expression_attribute_values(":partition", text(partition))
            .scan_index_forward(false)
            // One entry more than the limit tells whether there is a next page.
            .limit(i32::try_from(limit + 1).unwrap_or(i32::MAX));
        // The position can be that of an entry in another shard.
        let query = match after {
            None => query.key_condition_expression("pk = :partition"),
            Some(after) => query
                .key_condition_expression("pk = :partition AND sk < :after")
                .expression_attribute_values(":after", text(after)),
        };
        let page = query.call().await.map_err(|error| StoreError::from_sdk("Query", &error))?;
        let has_ended = page.last_evaluated_key.is_none();
        let entries = page.items.unwrap_or_default().into_iter().map(from_item);
        Ok(ShardPage { entries: entries.collect::<Result<_, _>>()?, has_ended })
    }

    async fn suffixes_page(
        &self,
        needle: &Needle,
        mut after: Option<String>,
        limit: usize,
    ) -> Result<DirectoryPage, StoreError> {
        let (mut entries, mut examined) = (Vec::<DirectoryEntry>::new(), 0);
        for partition in keys::suffix_partitions(&needle.0, after.as_deref()) {
            let mut from =
                after.take().map(|position| Item::from(Key { pk: partition.clone(), sk: position }));
            loop {
                let query = self
                    .client
                    .query()
                    .table_name(&self.tables.directory)
                    .key_condition_expression("pk = :partition AND begins_with(sk, :prefix)")
                    .expression_attribute_values(":partition", text(&partition))
                    .expression_attribute_values(":prefix", text(keys::suffix_prefix(&needle.0)))
                    .set_exclusive_start_key(from.take())
                    // One entry more than the limit tells whether there is a next page.
                    .limit(i32::try_from(limit + 1).unwrap_or(i32::MAX));
                let page = query.call().await.map_err(|error| StoreError::from_sdk("Query", &error))?;
                for item in page.items.unwrap_or_default() {
                    let entry: DirectoryEntry = from_item(item)?;
                    examined += 1;
                    if !needle.lists(&entry) {
                        continue;
                    }
                    if entries.len() == limit {
                        let next = entries.last().map(|entry| entry.position.clone());
                        return Ok(DirectoryPage { entries, next });
                    }
                    entries.push(entry);
                }
                let Some(last) = page.last_evaluated_key else { break };
                if examined >= MAX_EXAMINED {
                    let next = last.get("sk").and_then(|position| position.as_s().ok()).cloned();
                    return Ok(DirectoryPage { entries, next });
                }
                from = Some(last);
            }
        }
        Ok(DirectoryPage { entries, next: None })
    }

    /// Updates the directories after changes of rooms, in the order of the changes. Idempotent. Writes only the
    /// entries that differ, in batches.
    pub async fn update_directories(&self, changes: &[RoomChange<'_>]) -> Result<(), StoreError> {
        // The last change of an entry wins. `None` means that the entry is deleted.
        let mut entries_after: BTreeMap<EntryKey, Option<Item>> = BTreeMap::new();
        for RoomChange { old, new } in changes {
            let (mut old, new) = (entries(*old), entries(*new));
            for (key, item) in new {
                if old.remove(&key).as_ref() != Some(&item) {
                    entries_after.insert(key, Some(item));
                }
            }
            entries_after.extend(old.into_keys().map(|key| (key, None)));
        }
        let mut writes = Vec::with_capacity(entries_after.len());
        for ((pk, sk), item) in entries_after {
            let write = WriteRequest::builder();
            writes.push(if let Some(item) = item {
                write.put_request(PutRequest::builder().set_item(Some(item)).build()?).build()
            } else {
                let key = Some(Key { pk, sk }.into());
                write.delete_request(DeleteRequest::builder().set_key(key).build()?).build()
            });
        }
        // Writes with the same partition key are neighbors. Each batch takes writes from the whole list, so that
        // concurrent batches do not all write to the same partition.
        let count = writes.len().div_ceil(25);
        let mut batches = vec![Vec::new(); count];
        for (index, write) in writes.into_iter().enumerate() {
            batches[index % count].push(write);
        }
        let batches: Vec<_> = batches
            .into_iter()
            .map(|batch| self.batch_write(&self.tables.directory, batch).boxed())
            .collect();
        // A failed batch does not stop the others. The caller retries all of them.
        let written: Vec<Result<(), StoreError>> =
            stream::iter(batches).buffer_unordered(CONCURRENCY).collect().await;
        written.into_iter().collect()
    }
}

/// The partition key and the sort key of a directory entry.
type EntryKey = (String, String);

/// Returns all directory entries of a room. Empty if `room` is `None` or private.
fn entries(room: Option<&Room>) -> BTreeMap<EntryKey, Item> {
    let Some((room, name)) = room.and_then(|room| Some((room, FoldedName::new(room.listed_name()?)))) else {
        return BTreeMap::new();
    };
    let starts = || AttributeValue::L(name.starts.iter().map(number).collect());
    let entry = |(key, at): (Key, usize)| {
        let mut item = Item::from(key.clone());
        item.insert("room_id".into(), text(room.room_id.as_str()));
        item.insert("name".into(), text(&name.text));
        item.insert("at".into(), number(at));
        if !name.has_all_starts() {
            item.insert("starts".into(), starts());
        }
        ((key.pk, key.sk), item)
    };
    keys::directory_entries(room, &name.text, &name.starts).into_iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_name_has_no_more_suffixes_than_characters() {
        for (name, folded, starts) in [
            ("서울 fc", "seoul fc", &[0, 3, 6, 7][..]),
            ("北京", "bei jing", &[0, 4]),
            ("a b", "a b", &[0, 2]),
            ("Straße", "strasse", &[0, 1, 2, 3, 4, 6]),
        ] {
            let name = FoldedName::new(name);
            assert_eq!((name.text.as_str(), &name.starts[..]), (folded, starts));
        }
        assert_eq!(FoldedName::new(&"京".repeat(60)).starts.len(), 60);
        assert!(FoldedName::new(&"京".repeat(100)).starts.len() <= 100);
    }

    #[test]
    fn a_text_that_also_occurs_inside_a_character_is_found_once() {
        let name = FoldedName::new("서울 eoul");
        let found = |at| DirectoryEntry {
            position: String::new(),
            room_id: RoomId::parse("!a:b").unwrap(),
            name: name.text.clone(),
            at,
            starts: Some(name.starts.clone()),
        };
        let needle = Needle::new("eoul").unwrap();
        let listed: Vec<usize> = name.starts.iter().copied().filter(|&at| needle.lists(&found(at))).collect();
        assert_eq!(listed, [6]);
    }

    /// Every entry has the position of its creation. A page that ends too late would skip entries of the other shard.
    #[test]
    fn pages_of_two_shards_list_each_entry_once_and_newest_first() {
        let entry = |position: &u32| DirectoryEntry {
            position: format!("{position:03}"),
            room_id: RoomId::parse("!a:b").unwrap(),
            name: String::new(),
            at: 0,
            starts: None,
        };
        for (one, other) in [
            (vec![9, 7, 5, 3, 1], vec![8, 6, 4, 2]),
            (vec![9, 8, 7, 6, 5, 4, 3, 2], vec![1]),
            (vec![9, 8, 2, 1], vec![7, 6, 5, 4, 3]),
            (vec![9, 8, 7, 6, 5, 4, 3, 2, 1], vec![]),
            (vec![], vec![]),
        ] {
            let all = one.len() + other.len();
            for limit in 1..=10 {
                let (mut seen, mut after) = (Vec::new(), None::<String>);
                loop {
                    let shard = |positions: &[u32]| {
                        let all: Vec<DirectoryEntry> = positions.iter().map(entry).collect();
                        let is_after =
                            |one: &DirectoryEntry| after.as_ref().is_none_or(|after| one.position < *after);
                        let left: Vec<DirectoryEntry> = all.into_iter().filter(is_after).collect();
                        let has_ended = left.len() <= limit;
                        ShardPage { entries: left.into_iter().take(limit + 1).collect(), has_ended }
                    };
                    let page = merge(vec![shard(&one), shard(&other)]);
                    assert!(page.next.is_none() || page.entries.len() > limit, "{page:?}");
                    seen.extend(page.entries.into_iter().map(|entry| entry.position));
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                assert_eq!(seen.len(), all, "{seen:?}");
                assert!(seen.is_sorted_by(|newer, older| newer > older), "{seen:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn every_part_of_a_name_begins_at_an_indexed_offset(
            name in "[a-zA-Z0-9 éß京北서울щж#%-]{1,40}", from in 0_usize..40, length in 1_usize..40,
        ) {
            let folded = FoldedName::new(&name);
            prop_assert!(folded.starts.len() <= name.chars().count());
            let part: String = name.chars().skip(from).take(length).collect();
            if let Some(needle) = Needle::new(&part) {
                let is_found = folded.starts.iter().any(|&at| folded.text[at..].starts_with(needle.as_str()));
                prop_assert!(is_found, "{name:?} {part:?} {folded:?}");
            }
        }
    }
}
