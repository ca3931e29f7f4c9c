//! The `rooms` table: finding rooms that anybody may find.
//!
//! A room stands in the directory of all, in that of its match, and once for each ending of its name: whoever
//! looks for a part of a name looks for the endings that begin with it. So a search reads what it finds, and
//! nothing of the rooms that it does not. `tally` keeps the places, from the stream of rooms.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::{DeleteRequest, PutRequest, WriteRequest};
use serde::Deserialize;

use super::{Item, Retry, Store, StoreError, from_item, keys, number, text};
use crate::domain::catalog::fold;
use crate::domain::room::{Room, RoomId};

/// The longest name that is looked into, folded: a character can become several.
const NAME: usize = 300;

/// Which directory to look in.
#[derive(Debug, Clone)]
pub enum Shelf {
    /// Every room, newest first.
    All,
    /// The rooms about a match, newest first.
    About(u32),
    /// The rooms with a text in their names, by what follows in the name.
    Named(Needle),
}

impl Shelf {
    fn partition(&self) -> String {
        match self {
            Self::All => keys::DIRECTORY.to_owned(),
            Self::About(event) => keys::rooms_about(*event),
            // Never empty.
            Self::Named(Needle(text)) => keys::endings(text.chars().next().unwrap_or_default()),
        }
    }

    /// What the places begin with.
    fn beginning(&self) -> Option<&str> {
        match self {
            Self::All | Self::About(_) => None,
            Self::Named(Needle(text)) => Some(keys::ending(text)),
        }
    }

    /// Whether a place can be one of this directory.
    #[must_use]
    pub fn has_place(&self, place: &str) -> bool {
        self.beginning().is_none_or(|beginning| place.starts_with(beginning))
    }

    /// A name with the text in it twice stands there twice: the first one counts.
    fn counts(&self, listed: &Listed) -> bool {
        match self {
            Self::All | Self::About(_) => true,
            Self::Named(Needle(text)) => listed.name.find(text.as_str()) == Some(listed.at),
        }
    }
}

/// Rooms of a directory.
#[derive(Debug)]
pub struct Shelved {
    pub rooms: Vec<Listed>,
    /// The place after which there may be more.
    pub next: Option<String>,
}

/// No search looks at more rows than this before it answers with what it has: names can be made that repeat
/// themselves.
const LOOKED_AT: usize = 500;

/// A part of a name, folded. Never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needle(String);

impl Needle {
    /// `None` where nothing is left to look for.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let folded = folded(text);
        let text = folded.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn is_in(&self, name: &str) -> bool {
        folded(name).contains(&self.0)
    }
}

fn folded(name: &str) -> String {
    let mut name = fold(name);
    // What folding gives is ASCII.
    name.truncate(NAME);
    name
}

/// A room in a directory.
#[derive(Debug, Clone, Deserialize)]
pub struct Listed {
    /// Where it stands: the next page begins after it.
    #[serde(rename = "sk")]
    pub place: String,
    pub room_id: RoomId,
    /// Its name, folded.
    name: String,
    /// Where in the name the ending begins.
    at: usize,
}

impl Listed {
    #[must_use]
    pub fn has(&self, needle: &Needle) -> bool {
        self.name.contains(&needle.0)
    }
}

impl Store {
    /// Rooms of a directory after a place, each once: up to `most`, or fewer where many rows say the same.
    pub async fn shelf(&self, of: &Shelf, after: Option<String>, most: usize) -> Result<Shelved, StoreError> {
        let partition = of.partition();
        let key = |place| Item::from([("pk".to_owned(), text(&partition)), ("sk".to_owned(), text(place))]);
        let mut from = after.map(key);
        let (mut rooms, mut looked_at) = (Vec::new(), 0);
        loop {
            let mut query = self
                .client
                .query()
                .table_name(&self.tables.rooms)
                .expression_attribute_values(":partition", text(&partition))
                .set_exclusive_start_key(from.take())
                // One more says whether there are more.
                .limit(i32::try_from(most + 1).unwrap_or(i32::MAX));
            query = match of.beginning() {
                None => query.key_condition_expression("pk = :partition").scan_index_forward(false),
                Some(beginning) => query
                    .key_condition_expression("pk = :partition AND begins_with(sk, :beginning)")
                    .expression_attribute_values(":beginning", text(beginning)),
            };
            let page = query.send().await.map_err(|error| StoreError::from_sdk("Query", &error))?;
            for item in page.items.unwrap_or_default() {
                let listed: Listed = from_item(item)?;
                looked_at += 1;
                if !of.counts(&listed) {
                    continue;
                }
                if rooms.len() == most {
                    let next = rooms.last().map(|listed: &Listed| listed.place.clone());
                    return Ok(Shelved { rooms, next });
                }
                rooms.push(listed);
            }
            let Some(last) = page.last_evaluated_key else { return Ok(Shelved { rooms, next: None }) };
            if looked_at >= LOOKED_AT {
                let next = last.get("sk").and_then(|place| place.as_s().ok()).cloned();
                return Ok(Shelved { rooms, next });
            }
            from = Some(last);
        }
    }

    /// Puts a room where its name and match say that it is to be found, and takes it from where it was. Any
    /// number of times: only what differs is written.
    pub async fn shelve(&self, old: Option<&Room>, new: Option<&Room>) -> Result<(), StoreError> {
        let (mut old, new) = (places(old), places(new));
        let mut writes = Vec::new();
        for (key, item) in new {
            if old.remove(&key).is_none() {
                let put = PutRequest::builder().set_item(Some(item)).build()?;
                writes.push(WriteRequest::builder().put_request(put).build());
            }
        }
        for ((pk, sk), _) in old {
            let key = Item::from(keys::Key { pk, sk });
            let delete = DeleteRequest::builder().set_key(Some(key)).build()?;
            writes.push(WriteRequest::builder().delete_request(delete).build());
        }
        for part in writes.chunks(25) {
            self.write_all(part.to_vec()).await?;
        }
        Ok(())
    }

    async fn write_all(&self, mut writes: Vec<WriteRequest>) -> Result<(), StoreError> {
        let mut retry = Retry::doubling("batch write", 8, Duration::from_millis(20));
        loop {
            let written = self
                .client
                .batch_write_item()
                .request_items(&self.tables.rooms, writes)
                .send()
                .await
                .map_err(|error| StoreError::from_sdk("BatchWriteItem", &error))?;
            writes = written
                .unprocessed_items
                .and_then(|mut tables| tables.remove(&self.tables.rooms))
                .unwrap_or_default();
            if writes.is_empty() {
                return Ok(());
            }
            retry.again().await?;
        }
    }
}

type Places = BTreeMap<(String, String), Item>;

/// Everywhere that a room stands; nowhere for one that is not to be found.
fn places(room: Option<&Room>) -> Places {
    let Some((room, name)) = room.and_then(|room| Some((room, folded(room.listed_name()?)))) else {
        return Places::new();
    };
    let place = |(key, at): (keys::Key, usize)| {
        let mut item = Item::from(key.clone());
        item.insert("room_id".into(), text(room.room_id.as_str()));
        item.insert("name".into(), text(&name));
        item.insert("at".into(), number(at));
        ((key.pk, key.sk), item)
    };
    keys::directory_places(room, &name).into_iter().map(place).collect()
}
