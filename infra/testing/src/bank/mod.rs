//! The bank test: clients move coins through simulated processes that crash. The simulated network between the
//! processes and the store has faults.
//!
//! A seed determines a schedule: the clients' requests to move coins, the faults and the crashes. The same seed always
//! gives the same sequence of calls, because everything runs in one thread, on a paused clock, with an embedded
//! store. After the schedule, the ledger must be consistent, and every response to a client must agree with the
//! ledger.
//!
//! - `faults`, `network`, `process`: what can go wrong, independent of coins
//! - `world`: the app that reaches its store over that network
//! - `order`, `schedule`: what clients do
//! - `checks`: what must hold afterwards
//! - `sabotage`: safeguards that a test can remove, to show that the checks then fail

mod checks;
mod dice;
mod faults;
mod network;
mod order;
mod process;
mod report;
mod sabotage;
mod schedule;
mod world;

use std::ops::Range;

pub use report::{Failure, Played};
pub use sabotage::Sabotage;

use world::World;

/// How many schedules share a world. Each schedule has its own wallet, so schedules do not affect each other.
/// Later schedules get a new world, which keeps the store small and fast.
const SCHEDULES_PER_WORLD: u64 = 2_000;

/// Plays one schedule for each seed; stops at the first schedule that fails.
///
/// # Panics
///
/// When the runtime or the store cannot start.
pub fn play(seeds: Range<u64>, sabotage: Sabotage) -> Result<Played, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("the runtime starts");
    runtime.block_on(async {
        let mut played = Played::default();
        let mut world = World::new(sabotage).await;
        for seed in seeds {
            if played.schedules % SCHEDULES_PER_WORLD == SCHEDULES_PER_WORLD - 1 {
                world = World::new(sabotage).await;
            }
            played += schedule::play(&world, seed).await.map_err(|what| Failure { seed, what })?;
        }
        Ok(played)
    })
}
