//! Workflows that several Lambda functions share.

pub mod blocks;
pub mod codes;
pub mod coins;
pub mod day_limit;
pub mod room_table;
pub mod rooms;
pub mod sessions;
pub mod sms_guard;
