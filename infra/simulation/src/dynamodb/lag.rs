use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;
use tokio::time::Instant;

use super::changes::Written;

/// The changes that a replica or an index has not received yet.
///
/// The changes of one item arrive in order. Those of different items arrive independently.
#[derive(Debug, Default)]
pub struct Lag {
    pending: BTreeMap<Written, VecDeque<Pending>>,
}

#[derive(Debug)]
struct Pending {
    arrives: Instant,
    /// The item before the change. `None` if it did not exist.
    before: Option<Value>,
}

impl Lag {
    /// Adds a change that arrives at `arrives`, but not before the earlier changes of the same item.
    pub fn add(&mut self, key: Written, before: Option<Value>, arrives: Instant) {
        let pending = self.pending.entry(key).or_default();
        let arrives = pending.back().map_or(arrives, |last| arrives.max(last.arrives));
        pending.push_back(Pending { arrives, before });
    }

    /// Returns the items of a table as they are where changes are missing at `now`. Items without missing changes are
    /// not in the list.
    pub fn outdated(&mut self, table: &str, now: Instant) -> Vec<(Written, Option<Value>)> {
        self.pending.retain(|_, pending| {
            while pending.pop_front_if(|change| change.arrives <= now).is_some() {}
            !pending.is_empty()
        });
        let of_table = self.pending.iter().filter(|(key, _)| key.table == table);
        of_table.map(|(key, pending)| (key.clone(), pending[0].before.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn key(pk: &str) -> Written {
        Written { table: "t".into(), pk: pk.into(), sk: "s".into() }
    }

    #[test]
    fn changes_of_an_item_arrive_in_order_and_items_are_independent() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let mut lag = Lag::default();
        lag.add(key("a"), None, after(5));
        // This change is drawn to arrive first, but waits for the earlier one.
        lag.add(key("a"), Some(json!(1)), after(2));
        lag.add(key("b"), Some(json!(7)), after(1));
        assert_eq!(lag.outdated("t", now), [(key("a"), None), (key("b"), Some(json!(7)))]);
        assert_eq!(lag.outdated("u", now), []);
        assert_eq!(lag.outdated("t", after(4)), [(key("a"), None)]);
        assert_eq!(lag.outdated("t", after(5)), []);
    }
}
