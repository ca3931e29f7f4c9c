//! For the tests of the functions: an app on a real store, with a clock that obeys, randomness that
//! repeats, a phone that can be read, and faults on demand.

mod app;
pub mod bank;
mod chat;
mod clock;
mod faults;
mod random;
mod sns;
mod web;

pub use app::{Answer, Builder, HS_TOKEN, TestApp};
pub use clock::TestClock;
pub use faults::{Attempt, Fault, Faults};
pub use random::SeededRandom;
pub use sns::SnsStandIn;
pub use web::WebStandIn;

use std::future::Future;

use tokio::task::JoinSet;

/// Runs many tasks at once, on all threads there are, and returns what each gave, in their order.
///
/// # Panics
///
/// When one of them does.
pub async fn at_once<T, F>(count: usize, task: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for n in 0..count {
        let running = task(n);
        tasks.spawn(async move { (n, running.await) });
    }
    let mut given = tasks.join_all().await;
    given.sort_by_key(|(n, _)| *n);
    given.into_iter().map(|(_, output)| output).collect()
}
