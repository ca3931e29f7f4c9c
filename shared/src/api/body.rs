//! Response bodies that several endpoints share.

use serde::Serialize;

/// A body with only `data`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(inline))]
pub struct Data<T> {
    /// The result.
    pub data: T,
}

/// A body with `message` and `data`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(inline))]
pub struct Message<T> {
    /// A sentence for the user.
    pub message: String,
    /// The result.
    pub data: T,
}

/// A body with only `message`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MessageOnly {
    /// A sentence for the user.
    pub message: String,
}
