//! Workflows that several functions share.

pub mod codes;
pub mod coins;
pub mod rooms;
