//! Randomness.

use std::fmt::Debug;

/// The source of all codes, tokens and ids. `clippy.toml` disallows all others.
pub trait Random: Debug + Send + Sync {
    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Random {
    /// `N` random bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    /// A random number.
    pub fn number(&self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    /// A uniform number below `bound`.
    pub fn below(&self, bound: u32) -> u32 {
        // Numbers from the last, incomplete range would favour small results.
        let complete = u32::MAX - u32::MAX % bound;
        loop {
            let number = self.number();
            if number < complete {
                return number % bound;
            }
        }
    }

    /// `length` random capital letters and digits.
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
        // Without randomness the service must not issue codes.
        getrandom::fill(bytes).expect("the operating system provides randomness");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_uniform() {
        let random: &dyn Random = &SystemRandom;
        let mut counts = [0; 6];
        for _ in 0..6_000 {
            counts[random.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
