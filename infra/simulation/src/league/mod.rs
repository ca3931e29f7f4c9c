//! Small worlds of leaderboards: a few users and matches, all settlements and all boards, without the HTTP layer.
//!
//! A seed determines a world: the predictions, the results and their corrections, the members of a room, suspended
//! users, the faults and the crashes. The product's own functions do the work: `points` settles, `tally` counts,
//! `standings` builds. After each round, when nothing is left to do, every board must equal a full sort of the
//! predictions and results.
//!
//! - `product`: the engine and the functions
//! - `world`: what happens
//! - `oracle`: the boards as a full sort gives them, without the product's code
//! - `checks`: compares the product's boards with the oracle's
//! - `sabotage`: safeguards that a test can remove, to show that the checks then fail

mod checks;
mod oracle;
mod product;
mod report;
mod sabotage;
mod world;

use std::ops::Range;

pub use crate::failure::Failure;
use product::Product;
pub use report::Played;
pub use sabotage::Sabotage;

/// How many worlds share an engine. Each world deletes its items at its end. The engine prepares its statements once.
const WORLDS_PER_ENGINE: u64 = 500;

/// Plays one world for each seed. Stops at the first world that fails.
///
/// # Panics
///
/// If a runtime or an engine does not start.
pub fn play(seeds: Range<u64>, sabotage: Sabotage) -> Result<Played, Box<Failure>> {
    let mut played = Played::default();
    let mut product = Product::new();
    for seed in seeds {
        if played.worlds > 0 && played.worlds.is_multiple_of(WORLDS_PER_ENGINE) {
            product = Product::new();
        }
        match world::play(&product, seed, sabotage, false) {
            Ok(world) => played += world,
            // The same seed gives the same world. This time, keep the lines of the trace.
            Err(_) => return world::play(&Product::new(), seed, sabotage, true),
        }
    }
    Ok(played)
}
