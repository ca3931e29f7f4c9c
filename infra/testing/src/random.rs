use std::sync::atomic::{AtomicU64, Ordering};

use touchline::ports::random::Random;

/// Random numbers that are the same in every run: SplitMix64 over a counter.
#[derive(Debug, Default)]
pub struct SeededRandom(AtomicU64);

impl SeededRandom {
    /// Creates a generator from a seed. Different seeds give different numbers.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed.wrapping_mul(0xd134_2543_de82_ef95)))
    }
}

impl Random for SeededRandom {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let n = self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
            let mut z = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^= z >> 31;
            chunk.copy_from_slice(&z.to_le_bytes()[..chunk.len()]);
        }
    }
}
