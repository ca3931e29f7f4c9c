//! The bank test: clients move coins of one wallet concurrently, through processes that crash, over the simulation's
//! network with its faults.
//!
//! A seed determines a schedule: the clients' requests to move coins, the faults and the crashes. The same seed always
//! gives the same trace. After the schedule, the ledger must be consistent, and every response to a client must agree
//! with the ledger.
//!
//! - `order`, `schedule`: what clients do
//! - `product`: the app that executes the orders
//! - `checks`: what must hold afterwards
//! - `sabotage`: safeguards that a test can remove, to show that the checks then fail

mod checks;
mod order;
mod product;
mod report;
mod sabotage;
mod schedule;

use std::ops::Range;

pub use crate::failure::Failure;
pub(crate) use checks::check_ledger;
use product::Product;
pub use report::Played;
pub use sabotage::Sabotage;

/// How many schedules share an engine. Each schedule has its own wallet, so schedules do not affect each other. The
/// engine prepares its statements once, and stays fast while it is small.
const SCHEDULES_PER_ENGINE: u64 = 2_000;

/// Plays one schedule for each seed; stops at the first schedule that fails.
///
/// # Panics
///
/// If a runtime or an engine does not start.
pub fn play(seeds: Range<u64>, sabotage: Sabotage) -> Result<Played, Failure> {
    let mut played = Played::default();
    let mut product = Product::new();
    for seed in seeds {
        if played.schedules > 0 && played.schedules.is_multiple_of(SCHEDULES_PER_ENGINE) {
            product = Product::new();
        }
        played += schedule::play(&product, seed, sabotage)?;
    }
    Ok(played)
}
