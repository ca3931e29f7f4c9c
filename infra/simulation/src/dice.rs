use touchline::ports::random::Random;
use touchline_testing::SeededRandom;

/// The random numbers of one part of a world. The same seed gives the same numbers.
///
/// Each part has its own dice. So a change in what one part draws does not change what the other parts draw.
#[derive(Debug)]
pub struct Dice(SeededRandom);

impl Dice {
    /// Creates the dice of the part `part` of the world `seed`.
    #[must_use]
    pub fn new(seed: u64, part: &str) -> Self {
        // FNV-1a over the name of the part, mixed with the seed.
        let part = part.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(SeededRandom::new(seed ^ part))
    }

    /// Returns a number below `bound`.
    pub fn below(&self, bound: u32) -> u32 {
        let random: &dyn Random = &self.0;
        random.below(bound.max(1))
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&self, low: u32, high: u32) -> u32 {
        low + self.below(high - low + 1)
    }

    /// Returns true once in `of` calls, on average.
    pub fn once_in(&self, of: u32) -> bool {
        self.below(of) == 0
    }

    /// Returns true in `per_mille` of 1,000 calls, on average.
    pub fn per_mille(&self, per_mille: u32) -> bool {
        self.below(1_000) < per_mille
    }

    /// Returns one of the choices.
    ///
    /// # Panics
    ///
    /// If there are no choices.
    pub fn choose<'a, T>(&self, choices: &'a [T]) -> &'a T {
        &choices[self.below(u32::try_from(choices.len()).unwrap_or(u32::MAX)) as usize]
    }

    /// Returns whole milliseconds from `low` to `high`, both included.
    pub fn millis(&self, low: u32, high: u32) -> std::time::Duration {
        std::time::Duration::from_millis(u64::from(self.between(low, high)))
    }

    pub fn number(&self) -> u64 {
        let random: &dyn Random = &self.0;
        u64::from_le_bytes(random.bytes())
    }
}
