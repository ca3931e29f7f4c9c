//! The limits of each table and of each of its global indexes.

use std::collections::BTreeMap;

use serde_json::Value;
use tokio::time::Instant;
use touchline_stack::resources::Table;

use super::bucket::Bucket;
use super::cause::Cause;
use super::partitions::{Busiest, ItemKey, Kind, NEW_TABLE, PARTITION_BYTES, Partitions, Throughput, depth};
use super::units::{self, Index};

/// One use of a table or index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub table: String,
    /// The index that a query reads.
    pub index: Option<String>,
    pub key: ItemKey,
    pub kind: Kind,
}

/// A changed item. If nothing changed, `old` and `new` are the same: the write is charged anyway.
#[derive(Debug, Clone, Copy)]
pub struct Write<'a> {
    pub access: &'a Access,
    pub old: Option<&'a Value>,
    pub new: Option<&'a Value>,
}

/// What a table or index is ready for, and the most that the account lets it have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Warmth {
    pub warm: Throughput,
    pub quota: Throughput,
}

#[derive(Debug)]
struct Limited {
    partitions: Partitions,
    reads: Bucket,
    writes: Bucket,
}

impl Limited {
    fn new(warmth: Warmth, has_local_index: bool, scale: u32, now: Instant) -> Self {
        let Warmth { warm, quota } = warmth;
        let bucket = |rate: f64| Bucket::new(rate, depth(rate, scale), now);
        Self {
            partitions: Partitions::new(warm, has_local_index, scale, now),
            reads: bucket(quota.reads),
            writes: bucket(quota.writes),
        }
    }

    fn quota(&mut self, kind: Kind) -> &mut Bucket {
        match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
        }
    }

    fn admits(&mut self, key: &ItemKey, kind: Kind, now: Instant) -> Result<(), Cause> {
        if !self.quota(kind).has_any(now) {
            return Err(Cause::Table);
        }
        if !self.partitions.admits(key, kind, now) {
            return Err(Cause::Partition);
        }
        Ok(())
    }

    fn charge(&mut self, key: &ItemKey, kind: Kind, units: f64, now: Instant) {
        if units > 0.0 {
            self.quota(kind).take(units, now);
            self.partitions.charge(key, kind, units, now);
        }
    }
}

#[derive(Debug)]
pub struct LimitedTable {
    table: Limited,
    locals: Vec<Index>,
    globals: Vec<(Index, Limited)>,
    /// The bytes of each item collection, if the table has local indexes.
    collections: BTreeMap<String, f64>,
}

impl Warmth {
    /// Returns what one table or index is ready for. The template raises the throughput of some. The others are like new
    /// ones.
    fn of(self, resource: &Value) -> Self {
        let parameters = &resource["WarmThroughput"];
        let warm = |unit: &str, warm: f64, new: f64| if parameters.get(unit).is_some() { warm } else { new };
        let warm = Throughput {
            reads: warm("ReadUnitsPerSecond", self.warm.reads, NEW_TABLE.reads),
            writes: warm("WriteUnitsPerSecond", self.warm.writes, NEW_TABLE.writes),
        };
        Self { warm, ..self }
    }
}

impl LimitedTable {
    #[must_use]
    pub fn new(table: &Table, warmth: Warmth, scale: u32, now: Instant) -> Self {
        let locals = Index::list(&table.properties, "LocalSecondaryIndexes");
        let globals = Index::list(&table.properties, "GlobalSecondaryIndexes");
        Self {
            table: Limited::new(warmth.of(&table.properties), !locals.is_empty(), scale, now),
            locals,
            globals: globals
                .into_iter()
                .map(|index| {
                    let warmth = warmth.of(&index.properties);
                    (index, Limited::new(warmth, false, scale, now))
                })
                .collect(),
            collections: BTreeMap::new(),
        }
    }

    #[must_use]
    pub fn partitions(&self) -> usize {
        self.table.partitions.count()
    }

    /// Returns the busiest partition of the table and of each index, with the index's name.
    pub fn busiest(&self) -> impl Iterator<Item = (Option<&str>, &Busiest)> {
        let indexes = self.globals.iter().map(|(index, limited)| (Some(index.name.as_str()), limited));
        std::iter::once((None, &self.table))
            .chain(indexes)
            .filter_map(|(name, limited)| Some((name, limited.partitions.busiest()?)))
    }

    /// Decides whether an access is throttled. `new` is what is known of the item that a write leaves.
    pub fn admits(
        &mut self,
        access: &Access,
        old: Option<&Value>,
        new: Option<&Value>,
        now: Instant,
    ) -> Result<(), Cause> {
        if let Some((_, index)) =
            self.globals.iter_mut().find(|(index, _)| Some(&index.name) == access.index.as_ref())
        {
            return index.admits(&access.key, access.kind, now).map_err(|_| Cause::Index);
        }
        self.table.admits(&access.key, access.kind, now)?;
        if access.kind == Kind::Read {
            return Ok(());
        }
        for (index, limited) in &mut self.globals {
            // An index of keys hardly ever changes after the item was created.
            if index.has_only_keys() && index.partition_key(old).is_some() {
                continue;
            }
            // A write to a throttled index throttles the write to the table.
            let pk = index.partition_key(new).or_else(|| index.partition_key(old));
            if let Some(pk) = pk
                && limited.admits(&ItemKey { pk, sk: String::new() }, Kind::Write, now).is_err()
            {
                return Err(Cause::Index);
            }
        }
        if !self.locals.is_empty()
            && self.collections.get(&access.key.pk).is_some_and(|bytes| *bytes > PARTITION_BYTES)
        {
            return Err(Cause::Collection);
        }
        Ok(())
    }

    /// Returns when the partition of a key takes another write.
    pub fn admits_at(&mut self, key: &ItemKey, now: Instant) -> Instant {
        self.table.partitions.admits_at(key, Kind::Write, now)
    }

    /// Charges a read.
    pub fn charge_read(&mut self, access: &Access, units: f64, now: Instant) {
        match self.globals.iter_mut().find(|(index, _)| Some(&index.name) == access.index.as_ref()) {
            Some((_, index)) => index.charge(&access.key, Kind::Read, units, now),
            None => self.table.charge(&access.key, Kind::Read, units, now),
        }
    }

    /// Charges a write to the table and its indexes. Each unit and each byte counts `weight` times.
    pub fn charge_write(&mut self, write: Write<'_>, weight: f64, now: Instant) {
        let Write { access, old, new } = write;
        // The units of local indexes count against the partition of the table.
        let local: u32 = self.locals.iter().map(|index| index.write_units(old, new)).sum();
        self.table.charge(
            &access.key,
            Kind::Write,
            f64::from(units::write_units(old, new) + local) * weight,
            now,
        );
        for (index, limited) in &mut self.globals {
            if let Some(pk) = index.partition_key(new).or_else(|| index.partition_key(old)) {
                let key = ItemKey { pk, sk: String::new() };
                limited.charge(&key, Kind::Write, f64::from(index.write_units(old, new)) * weight, now);
            }
        }
        let bytes = |item: Option<&Value>| item.map_or(0.0, |item| length(units::size(item)));
        let growth = (bytes(new) - bytes(old)) * weight;
        self.table.partitions.grow(&access.key, growth, now);
        if !self.locals.is_empty() {
            *self.collections.entry(access.key.pk.clone()).or_default() += growth;
        }
    }
}

fn length(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use touchline::storage::keys;

    use super::*;
    use crate::settings::{STACK, config};

    const SECOND: Duration = Duration::from_secs(1);
    const MANY: Throughput = Throughput { reads: 1e9, writes: 1e9 };

    fn table(properties: Value, quota: Throughput, now: Instant) -> LimitedTable {
        let table = Table { logical_id: "T".into(), name: "t".into(), properties };
        LimitedTable::new(&table, Warmth { warm: NEW_TABLE, quota }, 1, now)
    }

    fn write(pk: &str) -> Access {
        let key = ItemKey { pk: pk.into(), sk: "s".into() };
        Access { table: "t".into(), index: None, key, kind: Kind::Write }
    }

    #[test]
    fn a_throttled_index_throttles_writes_to_the_table() {
        let now = Instant::now();
        let mut table = table(
            json!({ "GlobalSecondaryIndexes": [{ "IndexName": "i", "KeySchema": [{ "AttributeName": "team" }] }] }),
            MANY,
            now,
        );
        let item = json!({ "pk": { "S": "a" }, "sk": { "S": "s" }, "team": { "S": "red" } });
        let access = write("a");
        assert_eq!(table.admits(&access, None, Some(&item), now), Ok(()));
        // The partition of the index is over its limit. The partition of the table is not.
        table.globals[0].1.charge(
            &ItemKey { pk: "red".into(), sk: String::new() },
            Kind::Write,
            2_000.0,
            now,
        );
        assert_eq!(table.admits(&access, None, Some(&item), now), Err(Cause::Index));
        assert_eq!(table.admits(&access, Some(&item), Some(&item), now), Ok(()), "no key changes");
        let sparse = json!({ "pk": { "S": "a" }, "sk": { "S": "s" } });
        assert_eq!(table.admits(&access, None, Some(&sparse), now), Ok(()), "it is not in the index");
        assert_eq!(table.admits(&access, None, Some(&item), now + 2 * SECOND), Ok(()));
    }

    #[test]
    fn the_quota_of_a_table_and_its_partitions_throttle_separately() {
        let now = Instant::now();
        let item = json!({ "pk": { "S": "a" }, "sk": { "S": "s" } });
        let access = write("a");
        let charged = Write { access: &access, old: None, new: Some(&item) };
        let mut small = table(json!({}), Throughput { reads: 10.0, writes: 10.0 }, now);
        small.charge_write(charged, 20.0, now);
        assert_eq!(small.admits(&access, None, None, now), Err(Cause::Table));
        let mut hot = table(json!({}), MANY, now);
        hot.charge_write(charged, 1_500.0, now);
        assert_eq!(hot.admits(&access, None, None, now), Err(Cause::Partition));
        let read = Access { kind: Kind::Read, ..access.clone() };
        assert_eq!(hot.admits(&read, None, None, now), Ok(()), "reads have their own units");
    }

    #[test]
    fn a_collection_of_a_table_with_a_local_index_ends_at_10_gb() {
        let now = Instant::now();
        let with_local = json!({ "LocalSecondaryIndexes": [{ "IndexName": "l", "KeySchema": [] }] });
        for (properties, expected) in [(with_local, Err(Cause::Collection)), (json!({}), Ok(()))] {
            let mut table = table(properties, MANY, now);
            let item = json!({ "pk": { "S": "a" }, "sk": { "S": "s" }, "text": { "S": "x".repeat(1_000) } });
            let access = write("a");
            table.charge_write(Write { access: &access, old: None, new: Some(&item) }, 1.1e7, now);
            let later = now + Duration::from_hours(24);
            assert_eq!(table.admits(&access, None, None, later), expected);
        }
    }

    /// Every public room adds entries to the lists and to the search index, so their partition keys must not end.
    #[test]
    fn the_room_directory_does_not_end_at_10_gb() {
        let now = Instant::now();
        let name = &config().tables.directory;
        let defined =
            STACK.tables.iter().find(|table| table.name == *name).expect("the template has the table");
        for pk in [keys::all_rooms(0), keys::rooms_about(9, 0), keys::suffix_partitions("fi", None).remove(0)]
        {
            let mut table = LimitedTable::new(defined, Warmth { warm: NEW_TABLE, quota: MANY }, 1, now);
            let item = json!({ "pk": { "S": pk }, "sk": { "S": "s" }, "name": { "S": "x".repeat(1_000) } });
            let access = write(&pk);
            table.charge_write(Write { access: &access, old: None, new: Some(&item) }, 1.1e7, now);
            let later = now + Duration::from_hours(24);
            assert_eq!(table.admits(&access, None, None, later), Ok(()), "{pk}");
        }
    }
}
