//! Markers show which changes the counters include.
//!
//! The counters are updated from streams, some time after the rows. A recount writes a marker among the rows. The
//! stream delivers the changes in order, so the marker arrives after all earlier changes. The function `tally` then
//! stores in the counters where it has seen the marker. When it has seen the marker everywhere, the counters include
//! all changes from before the marker, except those that were lost.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};

use super::limit::request_id;

/// The id of a marker. It begins with the time of its creation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarkerId(String);

/// How long counters remember a marker. A recount waits for about a minute.
const KEPT: TimeDelta = TimeDelta::days(1);

impl MarkerId {
    #[must_use]
    pub fn new(now: DateTime<Utc>, nonce: u32) -> Self {
        Self(request_id(now, nonce))
    }

    /// Returns a stored id.
    #[must_use]
    pub fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether no recount waits for this marker any more. A text of another form never counts as old.
    #[must_use]
    pub fn is_old(&self, now: DateTime<Utc>) -> bool {
        let created = self.0.split_once('-').and_then(|(millis, _)| millis.parse::<i64>().ok());
        created.is_some_and(|created| created < (now - KEPT).timestamp_millis())
    }
}

/// One of the two items of a marker in a partition: one sorts before all rows, the other after all rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    First,
    Last,
}

impl End {
    pub const BOTH: [Self; 2] = [Self::First, Self::Last];

    fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
        }
    }
}

/// Where `tally` has seen a marker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sighting {
    pub marker: MarkerId,
    pub place: Place,
}

/// A place of a marker, as counters store it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place(String);

impl Place {
    /// Returns the place of a marker item that came from this stream shard.
    #[must_use]
    pub fn end(end: End, stream_shard: &str) -> Self {
        Self(format!("{}@{stream_shard}", end.name()))
    }

    /// Returns the place of a marker in a prediction for this match.
    #[must_use]
    pub fn prediction(event: u32) -> Self {
        Self(event.to_string())
    }

    #[must_use]
    pub fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Where a marker was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// At both ends of a partition.
    Ends,
    /// In the predictions for these matches.
    Predictions(BTreeSet<u32>),
}

/// How far a marker has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The counters include all changes from before the marker.
    Passed,
    UnderWay,
    /// The two ends of the partition are in different stream shards. A third shard could have rows in between, so the
    /// marker does not show that all changes are included.
    Spread,
}

impl Written {
    /// Returns how far the marker has come, if it was seen in these places.
    #[must_use]
    pub fn progress(&self, seen: &BTreeSet<Place>) -> Progress {
        match self {
            Self::Predictions(events) => {
                let is_passed = events.iter().all(|event| seen.contains(&Place::prediction(*event)));
                if is_passed { Progress::Passed } else { Progress::UnderWay }
            }
            Self::Ends => {
                let shards = |end: End| {
                    let prefix = Place::end(end, "").0;
                    seen.iter()
                        .filter_map(move |place| place.0.strip_prefix(&prefix).map(str::to_owned))
                        .collect()
                };
                let (first, last): (BTreeSet<String>, BTreeSet<String>) =
                    (shards(End::First), shards(End::Last));
                if first.is_empty() || last.is_empty() {
                    Progress::UnderWay
                } else if first.is_disjoint(&last) {
                    Progress::Spread
                } else {
                    Progress::Passed
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(written: &Written, seen: &[Place]) -> Progress {
        written.progress(&seen.iter().cloned().collect())
    }

    #[test]
    fn a_marker_has_passed_when_one_stream_shard_delivered_both_ends() {
        let (first, last) = (|shard| Place::end(End::First, shard), |shard| Place::end(End::Last, shard));
        assert_eq!(progress(&Written::Ends, &[]), Progress::UnderWay);
        assert_eq!(progress(&Written::Ends, &[first("1-a")]), Progress::UnderWay);
        assert_eq!(progress(&Written::Ends, &[last("1-a")]), Progress::UnderWay);
        assert_eq!(progress(&Written::Ends, &[first("1-a"), last("1-a")]), Progress::Passed);
        assert_eq!(progress(&Written::Ends, &[first("1-a"), last("1-b")]), Progress::Spread);
    }

    #[test]
    fn a_marker_in_predictions_has_passed_when_all_of_them_were_delivered() {
        let written = Written::Predictions([9, 12].into());
        assert_eq!(progress(&written, &[Place::prediction(9)]), Progress::UnderWay);
        assert_eq!(progress(&written, &[Place::prediction(9), Place::prediction(12)]), Progress::Passed);
        assert_eq!(progress(&Written::Predictions(BTreeSet::new()), &[]), Progress::Passed);
    }

    #[test]
    fn markers_are_old_after_a_day() {
        let now = DateTime::from_timestamp(1_794_744_000, 0).unwrap();
        assert!(!MarkerId::new(now, 7).is_old(now + TimeDelta::hours(23)));
        assert!(MarkerId::new(now, 7).is_old(now + TimeDelta::hours(25)));
        assert!(!MarkerId::stored("x").is_old(now));
    }
}
