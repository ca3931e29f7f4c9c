//! What the service needs from outside: a trait, the real one, the local one.

pub mod chat;
pub mod clock;
pub mod random;
pub mod sms;
pub mod web;

use std::future::Future;
use std::pin::Pin;

/// What an async method of a port returns, so that ports can stand behind `dyn`.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
