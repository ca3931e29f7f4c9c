use touchline::ports::random::Random;

use crate::SeededRandom;

/// The random number generator of one test schedule. The same seed gives the same numbers.
#[derive(Debug)]
pub struct Dice(SeededRandom);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(SeededRandom::new(seed))
    }

    pub fn below(&self, bound: u32) -> u32 {
        let random: &dyn Random = &self.0;
        random.below(bound)
    }

    /// Returns true once in `of` calls, on average.
    pub fn once_in(&self, of: u32) -> bool {
        self.below(of) == 0
    }
}
