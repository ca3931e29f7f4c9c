//! The number of shards of a match, and its promotion: more shards for a match that many users will predict.
//!
//! A prediction is stored in a shard that depends on the number of shards. So the number can change only while the match
//! has no prediction and no request can store one. A promotion has three steps: it pauses the predictions for the match,
//! waits until no write of a request from before the pause can arrive, and then checks for predictions and ends the pause.

use chrono::{DateTime, TimeDelta, Utc};

use super::catalog::{Match, Pause};

/// The number of shards of a featured match, unless the configuration has another. They accept 64,000 predictions a
/// second, if each has a partition of its own.
pub const FEATURED_SHARDS: u8 = 64;

/// The number of shards of any other match. They accept 4,000 predictions a second.
pub const SHARDS: u8 = 4;

/// A promotion begins at least this long before the kick-off, so that the pause ends before it.
const BEFORE_KICK_OFF: TimeDelta = TimeDelta::minutes(15);

/// How long a write can be under way after its request has ended. A packet that is sent again after a network failure can
/// arrive minutes later.
const LATE_WRITES: TimeDelta = TimeDelta::minutes(5);

/// Returns when a pause can end. `old_catalog_use` is how long a request may act on the catalog from before the pause.
#[must_use]
pub fn end_of_pause(published_at: DateTime<Utc>, old_catalog_use: TimeDelta) -> DateTime<Utc> {
    published_at + old_catalog_use + LATE_WRITES
}

/// Why a match cannot be promoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotPromoted {
    #[error("predictions for it are closed")]
    Closed,
    #[error("it starts in less than 15 minutes; predictions could be paused until its kick-off")]
    StartsSoon,
    #[error("it has predictions, and they stay in the shards in which they are stored")]
    HasPredictions,
}

impl Match {
    /// Checks that a promotion can begin, and begins its pause. The caller checks that the match has no predictions.
    pub fn paused_for_promotion(&self, now: DateTime<Utc>) -> Result<Self, NotPromoted> {
        self.admits_predictions(now).map_err(|_| NotPromoted::Closed)?;
        if self.start - now < BEFORE_KICK_OFF {
            return Err(NotPromoted::StartsSoon);
        }
        Ok(Self { pause: Some(Pause::beginning(now)), ..self.clone() })
    }

    /// Ends the pause. The match then has at least `featured` shards. But if it has a prediction, it keeps its shards.
    #[must_use]
    pub fn after_pause(&self, has_predictions: bool, featured: u8) -> Self {
        let shards = if has_predictions { self.shards } else { self.shards.max(featured) };
        Self { pause: None, shards, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::catalog::{Status, testing};
    use super::*;

    fn now() -> DateTime<Utc> {
        DateTime::from_timestamp(1_794_744_000, 0).unwrap()
    }

    fn game(status: Status, starts_in: TimeDelta) -> Match {
        Match { status, start: now() + starts_in, shards: SHARDS, ..testing::event(9) }
    }

    #[test]
    fn a_promotion_begins_at_least_15_minutes_before_the_kick_off() {
        let promote = |starts_in| game(Status::Scheduled, starts_in).paused_for_promotion(now());
        let paused = promote(TimeDelta::minutes(15)).unwrap();
        assert_eq!((paused.pause, paused.shards), (Some(Pause::beginning(now())), SHARDS));
        assert_eq!(promote(TimeDelta::minutes(15) - TimeDelta::seconds(1)), Err(NotPromoted::StartsSoon));
        assert_eq!(promote(TimeDelta::zero()), Err(NotPromoted::Closed));
        assert_eq!(
            game(Status::Live, TimeDelta::hours(1)).paused_for_promotion(now()),
            Err(NotPromoted::Closed)
        );
    }

    #[test]
    fn a_pause_is_longer_than_a_delayed_write_of_a_request_with_the_old_catalog() {
        let end = end_of_pause(now(), TimeDelta::seconds(30));
        assert_eq!(end, now() + TimeDelta::seconds(30) + TimeDelta::minutes(5));
    }

    #[test]
    fn only_a_match_without_predictions_gets_more_shards() {
        let paused = game(Status::Scheduled, TimeDelta::hours(1)).paused_for_promotion(now()).unwrap();
        assert_eq!(
            paused.after_pause(false, FEATURED_SHARDS),
            Match { pause: None, shards: FEATURED_SHARDS, ..paused.clone() }
        );
        assert_eq!(
            paused.after_pause(true, FEATURED_SHARDS),
            Match { pause: None, shards: SHARDS, ..paused }
        );
    }
}
