//! Serde functions for the row fields that were added after the first release.
//!
//! DynamoDB stores such a field as an attribute of its row, like any other field. In a chunk, the row has no
//! bytes for the field. The chunk stores the field's values after the last row (see `snapshot.rs`).

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
