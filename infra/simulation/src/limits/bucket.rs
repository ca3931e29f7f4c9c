use std::time::Duration;

use tokio::time::Instant;

/// A token bucket: `rate` tokens flow in each second, up to `depth`.
#[derive(Debug, Clone)]
pub struct Bucket {
    rate: f64,
    depth: f64,
    tokens: f64,
    filled: Instant,
}

impl Bucket {
    /// Creates a full bucket.
    #[must_use]
    pub fn new(rate: f64, depth: f64, now: Instant) -> Self {
        Self { rate, depth, tokens: depth, filled: now }
    }

    /// Takes tokens if there are enough.
    pub fn try_take(&mut self, tokens: f64, now: Instant) -> bool {
        self.fill(now);
        let is_enough = self.tokens >= tokens;
        if is_enough {
            self.tokens -= tokens;
        }
        is_enough
    }

    /// Returns whether any tokens are left.
    pub fn has_any(&mut self, now: Instant) -> bool {
        self.fill(now);
        self.tokens > 0.0
    }

    /// Returns when a debt is paid.
    pub fn paid_at(&mut self, now: Instant) -> Instant {
        self.fill(now);
        // A moment later than exactly, so that rounding leaves no debt.
        let debt = (1e-3 - self.tokens).max(0.0);
        now + Duration::from_secs_f64(debt / self.rate)
    }

    /// Takes tokens, even if there are too few. The bucket then has a debt, and has no tokens until the debt is paid.
    pub fn take(&mut self, tokens: f64, now: Instant) {
        self.fill(now);
        self.tokens -= tokens;
    }

    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.filled).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.rate).min(self.depth);
        self.filled = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_depth_at_once_and_then_its_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10.0, 20.0, start);
        assert!((0..20).all(|_| bucket.try_take(1.0, start)));
        assert!(!bucket.try_take(1.0, start));
        let later = start + Duration::from_millis(500);
        assert!((0..5).all(|_| bucket.try_take(1.0, later)));
        assert!(!bucket.try_take(1.0, later));
        // An hour later, the bucket is full, not fuller.
        let hour = start + Duration::from_hours(1);
        assert!(!bucket.try_take(21.0, hour) && bucket.try_take(20.0, hour));
    }

    #[test]
    fn a_debt_is_paid_before_anything_is_left() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10.0, 10.0, start);
        bucket.take(30.0, start);
        assert!(!bucket.has_any(start + Duration::from_millis(1_900)));
        assert!(bucket.has_any(start + Duration::from_millis(2_100)));
        bucket.take(30.0, start + Duration::from_millis(2_100));
        let paid = bucket.paid_at(start + Duration::from_millis(2_100));
        assert!(bucket.has_any(paid));
    }
}
