//! Serde functions for the fields that rows got after the first release. In DynamoDB they are attributes of the row like
//! any other; in a chunk the row itself has no bytes for them.

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
