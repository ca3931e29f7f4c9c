//! What the service needs from outside. Each port is a trait with a real and a local implementation.
//!
//! Methods return boxed futures, because a `dyn` trait cannot have `async fn`.

pub mod chat;
pub mod clock;
pub mod random;
pub mod sms;
pub mod web;
