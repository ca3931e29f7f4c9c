use std::fmt::Debug;

/// Where randomness comes from: codes, tokens and names are drawn from here and nowhere else.
pub trait Random: Debug + Send + Sync {
    fn fill(&self, bytes: &mut [u8]);
}

impl dyn Random {
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    pub fn number(&self) -> u32 {
        u32::from_le_bytes(self.bytes())
    }

    /// Uniform below `bound`: draws that would favour the small numbers are drawn again.
    pub fn below(&self, bound: u32) -> u32 {
        let fair = u32::MAX - u32::MAX % bound;
        loop {
            let number = self.number();
            if number < fair {
                return number % bound;
            }
        }
    }

    /// `length` letters and digits.
    pub fn word(&self, length: usize) -> String {
        const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNPQRSTUVWXYZ2345679";
        (0..length).map(|_| char::from(LETTERS[self.below(32) as usize])).collect()
    }
}

/// The operating system's secure source.
#[derive(Debug)]
pub struct SystemRandom;

impl Random for SystemRandom {
    #[expect(clippy::disallowed_methods, reason = "the one place where randomness is drawn")]
    fn fill(&self, bytes: &mut [u8]) {
        // A machine without randomness must not hand out codes.
        getrandom::fill(bytes).expect("the operating system's random source answers");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_is_below_and_spread() {
        let random: &dyn Random = &SystemRandom;
        let mut counts = [0; 6];
        for _ in 0..6_000 {
            counts[random.below(6) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
