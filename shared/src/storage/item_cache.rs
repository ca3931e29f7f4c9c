//! Items that many requests read, cached in memory for a short time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, TimeDelta, Utc};

use super::item::{Item, Key};

/// How long a process uses an item that it has read.
const MAX_AGE: TimeDelta = TimeDelta::seconds(2);

/// The maximum number of items in the cache.
const MAX_ITEMS: usize = 64;

/// Items that were read in the last two seconds.
pub(super) struct ItemCache {
    now: Box<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    items: Mutex<HashMap<Key, (DateTime<Utc>, Item)>>,
}

impl fmt::Debug for ItemCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ItemCache")
    }
}

impl ItemCache {
    pub(super) fn new(now: impl Fn() -> DateTime<Utc> + Send + Sync + 'static) -> Self {
        Self { now: Box::new(now), items: Mutex::default() }
    }

    fn items(&self) -> MutexGuard<'_, HashMap<Key, (DateTime<Utc>, Item)>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an item that was read recently.
    pub(super) fn get(&self, key: &Key) -> Option<Item> {
        let now = (self.now)();
        self.items().get(key).filter(|(read_at, _)| is_fresh(*read_at, now)).map(|(_, item)| item.clone())
    }

    /// Adds an item that was just read. A full cache drops old items first, and then ignores new ones.
    pub(super) fn put(&self, key: Key, item: &Item) {
        let now = (self.now)();
        let mut items = self.items();
        items.remove(&key);
        if items.len() >= MAX_ITEMS {
            items.retain(|_, (read_at, _)| is_fresh(*read_at, now));
        }
        if items.len() < MAX_ITEMS {
            items.insert(key, (now, item.clone()));
        }
    }
}

/// A clock that was set back must not keep an item for longer.
fn is_fresh(read_at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    (TimeDelta::zero()..MAX_AGE).contains(&(now - read_at))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use super::*;

    #[test]
    fn an_item_is_used_for_two_seconds_and_the_number_of_items_is_limited() {
        let millis = Arc::new(AtomicI64::new(1_000_000));
        let set = |at| millis.store(at, Ordering::Relaxed);
        let clock = Arc::clone(&millis);
        let cache = ItemCache::new(move || {
            DateTime::from_timestamp_millis(clock.load(Ordering::Relaxed)).unwrap_or_default()
        });
        let key = |number: usize| Key { pk: number.to_string(), sk: String::new() };
        cache.put(key(0), &Item::new());
        set(1_001_999);
        assert!(cache.get(&key(0)).is_some() && cache.get(&key(1)).is_none());
        for at in [1_002_000, 999_999] {
            set(at);
            assert!(cache.get(&key(0)).is_none(), "{at}");
        }
        set(1_002_000);
        (0..MAX_ITEMS + 9).for_each(|number| cache.put(key(number), &Item::new()));
        assert_eq!(cache.items().len(), MAX_ITEMS);
        set(1_004_000);
        cache.put(key(999), &Item::new());
        assert_eq!(cache.items().len(), 1);
    }
}
