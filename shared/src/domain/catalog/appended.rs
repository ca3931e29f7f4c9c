//! Serde functions for the row fields that were added after the first release.
//!
//! A row is stored in two forms: as a DynamoDB item, and in a chunk of the catalog snapshot. In the item, such
//! a field is an attribute, like any other field. In the chunk, the row has no bytes for the field, and the
//! field's values follow after the last row (see `snapshot.rs`).

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub fn serialize<T: Serialize, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    if serializer.is_human_readable() { value.serialize(serializer) } else { serializer.serialize_unit() }
}

pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    if deserializer.is_human_readable() {
        T::deserialize(deserializer)
    } else {
        <()>::deserialize(deserializer).map(|()| T::default())
    }
}
