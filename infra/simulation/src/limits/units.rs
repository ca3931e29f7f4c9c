//! Capacity units, as DynamoDB counts them.

use serde_json::Value;

/// The size of an item, in DynamoDB's JSON format: names and values, without what the format adds.
#[must_use]
pub fn size(item: &Value) -> usize {
    item.as_object().into_iter().flatten().map(|(name, value)| name.len() + value_size(value)).sum()
}

fn value_size(value: &Value) -> usize {
    let Some((kind, content)) = value.as_object().and_then(|value| value.iter().next()) else { return 0 };
    let text = content.as_str().map_or(0, str::len);
    let list = || content.as_array().into_iter().flatten();
    match kind.as_str() {
        "S" => text,
        "N" => number_size(text),
        "B" => text * 3 / 4,
        "SS" | "BS" => list().map(|text| text.as_str().map_or(0, str::len)).sum(),
        "NS" => list().map(|text| number_size(text.as_str().map_or(0, str::len))).sum(),
        "L" => 3 + list().map(|value| 1 + value_size(value)).sum::<usize>(),
        "M" => 3 + size(content) + content.as_object().map_or(0, serde_json::Map::len),
        _ => 1,
    }
}

/// A number takes a byte for two digits, and one more.
fn number_size(digits: usize) -> usize {
    digits.div_ceil(2) + 1
}

/// The units to write an item: one for each KB of the larger image.
#[must_use]
pub fn write_units(old: Option<&Value>, new: Option<&Value>) -> u32 {
    let bytes = [old, new].into_iter().flatten().map(size).max().unwrap_or(0);
    units(bytes, 1_024)
}

/// The units to read an item: one for each 4 KB, or half of that if the read is eventually consistent.
#[must_use]
pub fn read_units(bytes: usize, is_consistent: bool) -> f64 {
    f64::from(units(bytes, 4_096)) * if is_consistent { 1.0 } else { 0.5 }
}

fn units(bytes: usize, per_unit: usize) -> u32 {
    u32::try_from(bytes.div_ceil(per_unit).max(1)).unwrap_or(u32::MAX)
}

/// A secondary index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    pub name: String,
    /// The partition key and the sort key.
    pub keys: Vec<String>,
    projection: Projection,
    /// As in the template.
    pub properties: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Projection {
    All,
    /// The keys of the table and of the index, and these.
    Include(Vec<String>),
}

impl Index {
    /// Reads the indexes under `name` in the properties of a table.
    #[must_use]
    pub fn list(properties: &Value, name: &str) -> Vec<Self> {
        let texts = |list: &Value, field: &str| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(|one| if field.is_empty() { one } else { &one[field] }.as_str())
                .map(str::to_owned)
                .collect()
        };
        let indexes = properties[name].as_array().into_iter().flatten();
        indexes
            .map(|index| Self {
                name: index["IndexName"].as_str().unwrap_or_default().to_owned(),
                keys: texts(&index["KeySchema"], "AttributeName"),
                projection: if index["Projection"]["ProjectionType"] == "ALL" {
                    Projection::All
                } else {
                    Projection::Include(texts(&index["Projection"]["NonKeyAttributes"], ""))
                },
                properties: index.clone(),
            })
            .collect()
    }

    /// Returns whether the index has nothing but keys, which most updates of an item do not change.
    #[must_use]
    pub fn has_only_keys(&self) -> bool {
        self.projection == Projection::Include(Vec::new())
    }

    /// Returns what the index holds of an item, or `None` if the item is not in the index.
    fn project(&self, item: Option<&Value>) -> Option<Value> {
        let item = item?.as_object()?;
        if !self.keys.iter().all(|key| item.contains_key(key)) {
            return None;
        }
        let is_projected = |name: &String| match &self.projection {
            Projection::All => true,
            Projection::Include(names) => {
                matches!(name.as_str(), "pk" | "sk") || self.keys.contains(name) || names.contains(name)
            }
        };
        Some(Value::Object(
            item.iter()
                .filter(|(name, _)| is_projected(name))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
        ))
    }

    /// Returns the units that a change of an item writes to the index. A changed key costs a deletion and an insertion.
    #[must_use]
    pub fn write_units(&self, old: Option<&Value>, new: Option<&Value>) -> u32 {
        let (old, new) = (self.project(old), self.project(new));
        if old == new {
            return 0;
        }
        if let (Some(one), Some(other)) = (&old, &new)
            && self.keys.iter().any(|key| one[key] != other[key])
        {
            return write_units(Some(one), None) + write_units(None, Some(other));
        }
        write_units(old.as_ref(), new.as_ref())
    }

    /// Returns the partition key of an item in the index.
    #[must_use]
    pub fn partition_key(&self, item: Option<&Value>) -> Option<String> {
        scalar(&item?[self.keys.first()?])
    }
}

/// Returns the text of a key attribute.
#[must_use]
pub fn scalar(value: &Value) -> Option<String> {
    let (_, content) = value.as_object()?.iter().next()?;
    content.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn units_follow_the_size_of_the_item() {
        let item = |bytes: usize| json!({ "pk": { "S": "x".repeat(bytes - 2) } });
        assert_eq!(size(&json!({ "pk": { "S": "abc" }, "n": { "N": "1234" }, "b": { "BOOL": true } })), 11);
        let pairs = [(1_024, 1), (1_025, 2), (10 * 1_024, 10)];
        assert!(pairs.iter().all(|(bytes, units)| write_units(None, Some(&item(*bytes))) == *units));
        assert_eq!(write_units(Some(&item(3_000)), Some(&item(10))), 3, "the larger image counts");
        let read =
            [(4_097, true), (0, true), (10, false)].map(|(bytes, consistent)| read_units(bytes, consistent));
        assert_eq!(read.map(|units| units.to_string()), ["2", "1", "0.5"]);
    }

    #[test]
    fn only_changes_of_projected_attributes_write_to_an_index() {
        let properties = json!({ "GlobalSecondaryIndexes": [{
            "IndexName": "by_user",
            "KeySchema": [{ "AttributeName": "user" }, { "AttributeName": "at" }],
            "Projection": { "ProjectionType": "KEYS_ONLY" },
        }] });
        let index = &Index::list(&properties, "GlobalSecondaryIndexes")[0];
        assert!(index.has_only_keys());
        let item = |at: &str, pick: &str| json!({ "pk": { "S": "a" }, "sk": { "S": "b" }, "user": { "N": "7" }, "at": { "S": at }, "pick": { "S": pick } });
        let (one, edited, moved) = (item("1", "home"), item("1", "away"), item("2", "home"));
        let other = json!({ "pk": { "S": "a" }, "sk": { "S": "b" } });
        assert_eq!(index.write_units(None, Some(&one)), 1);
        assert_eq!(index.write_units(Some(&one), Some(&edited)), 0);
        assert_eq!(index.write_units(Some(&one), Some(&moved)), 2);
        assert_eq!(index.write_units(None, Some(&other)), 0, "it lacks the keys of the index");
        assert_eq!(index.partition_key(Some(&one)).as_deref(), Some("7"));
    }
}
