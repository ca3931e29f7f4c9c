//! Workflows that several Lambda functions share.

pub mod blocks;
pub mod codes;
pub mod coins;
pub mod rooms;
pub mod sessions;
pub mod sms_guard;
