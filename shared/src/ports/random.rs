//! Random numbers, bytes and texts.

use std::fmt::Debug;

/// The source of randomness for all codes, tokens and ids. `clippy.toml` disallows all other sources.
pub trait Random: Debug + Send + Sync {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Random {
    /// Returns `N` random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// Returns a random number. All numbers are equally likely.
    pub fn number(&self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    /// Returns a random number below `bound`. All numbers are equally likely.
    pub fn below(&self, bound: u32) -> u32 {
        // `complete` is a multiple of `bound`. Numbers from `complete` on are discarded, because they would
        // make small results more likely.
        let complete = u32::MAX - u32::MAX % bound;
        loop {
            let number = self.number();
            if number < complete {
                return number % bound;
            }
        }
    }

    /// Returns a text of `length` random capital letters and digits.
    pub fn word(&self, length: usize) -> String {
        const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNPQRSTUVWXYZ2345679";
        (0..length).map(|_| char::from(LETTERS[self.below(32) as usize])).collect()
    }
}

/// The operating system's secure random source.
#[derive(Debug)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "the only reader of the system source")]
    fn fill(&self, bytes: &mut [u8]) {
        // Panics rather than issue codes that can be guessed.
        getrandom::fill(bytes).expect("the operating system provides randomness");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_returns_all_numbers_about_equally_often() {
        let random: &dyn Random = &SystemRandom;
        let mut counts = [0; 6];
        for _ in 0..6_000 {
            counts[random.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
