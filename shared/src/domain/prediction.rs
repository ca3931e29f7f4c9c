//! Predictions: one per user and match. A user can change a prediction until kick-off.

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::catalog::{Match, Score, Status};
use super::{Field, MAX_CLOCK_DIFFERENCE, Raw, Reason, UserId, limit};

/// The outcome of a match: a home win, a draw or an away win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Pick {
    Home,
    Draw,
    Away,
}

impl Pick {
    pub fn parse(text: &str) -> Result<Self, Reason> {
        match text {
            "home" => Ok(Self::Home),
            "draw" => Ok(Self::Draw),
            "away" => Ok(Self::Away),
            _ => Err("Choose home, draw or away.".into()),
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Home => "home",
            Self::Draw => "draw",
            Self::Away => "away",
        }
    }

    /// Returns the outcome of a match with this score.
    #[must_use]
    pub fn of(score: Score) -> Self {
        match score.home.cmp(&score.away) {
            std::cmp::Ordering::Greater => Self::Home,
            std::cmp::Ordering::Equal => Self::Draw,
            std::cmp::Ordering::Less => Self::Away,
        }
    }
}

impl Field for Pick {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::parse(raw.text()?)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        super::text::schema::one_of(&["home", "draw", "away"])
    }
}

/// A pick, and optionally a score with the same outcome as the pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forecast {
    pick: Pick,
    score: Option<Score>,
}

impl Forecast {
    pub fn new(pick: Pick, score: Option<Score>) -> Result<Self, ScoreContradictsPick> {
        match score {
            Some(score) if Pick::of(score) != pick => Err(ScoreContradictsPick { score, pick }),
            _ => Ok(Self { pick, score }),
        }
    }

    #[must_use]
    pub fn pick(&self) -> Pick {
        self.pick
    }

    #[must_use]
    pub fn score(&self) -> Option<Score> {
        self.score
    }
}

/// The predicted score has a different outcome than the pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the score contradicts the pick")]
pub struct ScoreContradictsPick {
    pub score: Score,
    pub pick: Pick,
}

impl ScoreContradictsPick {
    /// Returns the sentence for the user, with the names of the match's teams.
    #[must_use]
    pub fn sentence(&self, home_team: &str, away_team: &str) -> String {
        let Score { home, away } = self.score;
        let outcome = match Pick::of(self.score) {
            Pick::Home => "a home win",
            Pick::Draw => "a draw",
            Pick::Away => "an away win",
        };
        let picked = match self.pick {
            Pick::Home => home_team,
            Pick::Draw => "a draw",
            Pick::Away => away_team,
        };
        format!("{home}–{away} is {outcome}, but you picked {picked}.")
    }
}

/// How sure a user is of a prediction, 0 to 100 percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Confidence(u8);

impl Confidence {
    pub fn new(percent: i64) -> Result<Self, Reason> {
        match u8::try_from(percent) {
            Ok(percent) if percent <= 100 => Ok(Self(percent)),
            _ => Err("Confidence must be 0 to 100 percent.".into()),
        }
    }

    #[must_use]
    pub fn percent(self) -> u8 {
        self.0
    }
}

impl Default for Confidence {
    fn default() -> Self {
        Self(50)
    }
}

impl Field for Confidence {
    fn read(raw: Raw<'_>) -> Result<Self, Reason> {
        Self::new(raw.integer()?)
    }

    fn absent() -> Result<Self, Reason> {
        Ok(Self::default())
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "integer", "minimum": 0, "maximum": 100, "default": Self::default().percent(),
            "description": "How sure the user is, in percent.",
        })
    }
}

/// A user's prediction for a match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prediction {
    pub event_id: u32,
    pub user_id: UserId,
    pub forecast: Forecast,
    pub confidence: Confidence,
    /// When the prediction was created. The stamp includes a nonce, which makes it unique among the user's
    /// predictions.
    pub created: Stamp,
    /// When the user last changed the prediction.
    pub changed: Stamp,
    /// How many times the user saved the prediction.
    pub edits: u32,
    /// The points that the prediction earned. `None` until they are calculated after the match, and for a
    /// match without a valid result.
    pub points: Option<u32>,
    /// The revision of the match that the points were calculated from; 0 before the first calculation.
    pub revision: u32,
    /// The settlement that last calculated the points. `None` before the first one, and if an earlier version calculated
    /// them.
    pub settled_in: Option<SettledIn>,
}

/// What the standings need to know about a settlement. It is stored in each prediction, so that a change of a prediction
/// alone tells on which boards its points counted before, and on which they count now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettledIn {
    pub tournament: u32,
    pub kick_off: DateTime<Utc>,
    /// When the settlement began.
    pub at: DateTime<Utc>,
}

impl Prediction {
    #[must_use]
    pub fn id(&self) -> u64 {
        id(self.event_id, self.user_id)
    }

    /// Returns whether the last change came after the kick-off. A prediction is always saved before the kick-off that is
    /// known then, but a feed can correct the kick-off to an earlier time.
    #[must_use]
    pub fn is_late(&self, event: &Match) -> bool {
        self.changed.time().is_some_and(|changed| changed > event.start)
    }
}

/// Returns the id of a prediction: a hash of match and user, so ids need no counter. The id fits in 53 bits,
/// because a JavaScript number holds no more.
#[must_use]
pub fn id(event: u32, user: UserId) -> u64 {
    let digest = Sha256::digest(format!("prediction\u{0}{event}\u{0}{user}").as_bytes());
    let bytes: [u8; 8] = std::array::from_fn(|at| digest[at]);
    u64::from_be_bytes(bytes) >> 11
}

/// A time and a nonce, as text. Stamps sort by their time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(String);

impl Stamp {
    #[must_use]
    pub fn new(at: DateTime<Utc>, nonce: u32) -> Self {
        Self(limit::request_id(at, nonce))
    }

    /// Returns the stamp with the same nonce that is one millisecond later than `other`.
    #[must_use]
    pub fn moved_after(&self, other: &Self) -> Self {
        let nonce = self.0.rsplit('-').next().and_then(|nonce| u32::from_str_radix(nonce, 16).ok());
        match other.time() {
            Some(time) => Self::new(time + TimeDelta::milliseconds(1), nonce.unwrap_or(0)),
            None => self.clone(),
        }
    }

    /// Returns whether this stamp is so little later than `other` that the difference of two clocks can explain it.
    #[must_use]
    pub fn is_just_after(&self, other: &Self) -> bool {
        let difference = self.time().zip(other.time()).map(|(this, other)| this - other);
        difference.is_some_and(|difference| difference <= MAX_CLOCK_DIFFERENCE)
    }

    /// Parses a stamp. Returns `None` if the text is malformed.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (time, nonce) = text.split_once('-')?;
        let well_formed = time.len() == 13
            && time.bytes().all(|b| b.is_ascii_digit())
            && nonce.len() == 8
            && nonce.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        well_formed.then(|| Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn time(&self) -> Option<DateTime<Utc>> {
        limit::time_of(&self.0)
    }
}

/// The kick-off time of the match has passed, or the match is live, over or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("predictions are closed")]
pub struct PredictionsClosed;

impl Match {
    /// Checks that users can still predict the match. A postponed match keeps its old kick-off until the feed
    /// has a new one. Until then, predictions close at the old kick-off.
    pub fn admits_predictions(&self, now: DateTime<Utc>) -> Result<(), PredictionsClosed> {
        let is_to_come = matches!(self.status, Status::Scheduled | Status::Postponed);
        if is_to_come && now < self.start { Ok(()) } else { Err(PredictionsClosed) }
    }

    /// Returns whether the match has kicked off or will never be played. A postponed match has not kicked off,
    /// even after its old kick-off. If picks are hidden before kick-off, this decides when they become visible.
    #[must_use]
    pub fn has_kicked_off(&self, now: DateTime<Utc>) -> bool {
        match self.status {
            Status::Scheduled => now >= self.start,
            Status::Postponed => false,
            _ => true,
        }
    }

    /// Returns the state of the match when the feed reports the state `new` and the kick-off `start`. A match whose hidden
    /// picks were shown never opens again, like a match that has begun: users could copy the picks of others.
    #[must_use]
    pub fn status_after(&self, new: Status, start: DateTime<Utc>, were_picks_shown: bool) -> Status {
        let status = self.status.after(new);
        let opens = match status {
            // The feed will report a later kick-off.
            Status::Postponed => true,
            Status::Scheduled => start > self.start || self.status != Status::Scheduled,
            _ => false,
        };
        if were_picks_shown && opens { Status::Interrupted } else { status }
    }

    /// Returns the score after 90 minutes, if the match is finished. Other matches have no result, and
    /// their predictions earn no points.
    #[must_use]
    pub fn result(&self) -> Option<Score> {
        self.score.filter(|_| self.status == Status::Finished)
    }
}

/// Returns the shard that stores a row of this user: the user's prediction for a match, or the user's
/// membership of a room. `shards` is the number of shards of the match or room. This function must never
/// change, because stored rows depend on it.
#[must_use]
pub fn shard(user: UserId, shards: u8) -> u8 {
    // Users who register together have consecutive ids. SplitMix64's finalizer spreads such ids over the
    // shards.
    let mut hash = u64::from(user.0).wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^= hash >> 31;
    u8::try_from(hash % u64::from(shards.max(1))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::catalog::Key;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    fn game(status: Status) -> Match {
        Match {
            id: 9,
            tournament_id: 1,
            home_team_id: 1,
            away_team_id: 2,
            start: at("2026-11-15T15:00:00Z"),
            status,
            venue: None,
            score: Some(Score { home: 2, away: 1 }),
            room: "!match9:touchline.local".into(),
            room_name_hash: 0,
            shards: 4,
            pause: None,
            revision: 0,
            key: Key(1),
            as_of: at("2026-11-15T12:00:00Z"),
        }
    }

    #[test]
    fn predictions_are_open_until_the_last_millisecond_before_kick_off() {
        let start = game(Status::Scheduled).start;
        let last = start - TimeDelta::milliseconds(1);
        for status in [Status::Scheduled, Status::Postponed] {
            assert_eq!(game(status).admits_predictions(last), Ok(()));
            assert_eq!(game(status).admits_predictions(start), Err(PredictionsClosed));
        }
        let over = [
            Status::Live,
            Status::Suspended,
            Status::Finished,
            Status::Cancelled,
            Status::Abandoned,
            Status::Awarded,
        ];
        for status in over {
            assert_eq!(game(status).admits_predictions(last), Err(PredictionsClosed), "{status:?}");
        }
    }

    #[test]
    fn a_scheduled_match_kicks_off_at_its_start_and_a_postponed_match_does_not() {
        let start = game(Status::Scheduled).start;
        let last = start - TimeDelta::milliseconds(1);
        assert!(!game(Status::Scheduled).has_kicked_off(last));
        assert!(game(Status::Scheduled).has_kicked_off(start));
        assert!(game(Status::Live).has_kicked_off(last));
        assert!(!game(Status::Postponed).has_kicked_off(start), "a new kick-off follows");
    }

    #[test]
    fn a_match_whose_picks_were_shown_never_opens_again() {
        let start = game(Status::Scheduled).start;
        let later = start + TimeDelta::days(1);
        for (before, new, kick_off, after) in [
            (Status::Scheduled, Status::Scheduled, later, Status::Interrupted),
            (Status::Scheduled, Status::Postponed, start, Status::Interrupted),
            (Status::Cancelled, Status::Scheduled, start, Status::Interrupted),
            // The feed still reports the kick-off that has passed.
            (Status::Scheduled, Status::Scheduled, start, Status::Scheduled),
            (Status::Scheduled, Status::Live, later, Status::Live),
            (Status::Interrupted, Status::Finished, later, Status::Finished),
        ] {
            assert_eq!(game(before).status_after(new, kick_off, true), after, "{before:?} {new:?}");
        }
        for new in [Status::Scheduled, Status::Postponed] {
            assert_eq!(game(Status::Scheduled).status_after(new, later, false), new);
        }
        for begun in [Status::Live, Status::Suspended] {
            assert_eq!(game(begun).status_after(Status::Scheduled, later, false), Status::Interrupted);
        }
    }

    #[test]
    fn only_a_finished_match_has_a_result() {
        assert_eq!(game(Status::Finished).result(), Some(Score { home: 2, away: 1 }));
        for status in [Status::Live, Status::Scheduled, Status::Awarded, Status::Abandoned] {
            assert_eq!(game(status).result(), None, "{status:?}");
        }
        assert_eq!(Match { score: None, ..game(Status::Finished) }.result(), None);
    }

    #[test]
    fn a_score_must_agree_with_the_pick() {
        let score = |home, away| Some(Score { home, away });
        assert!(Forecast::new(Pick::Home, score(99, 0)).is_ok());
        assert!(Forecast::new(Pick::Draw, None).is_ok());
        for (pick, score) in [
            (Pick::Home, score(1, 1)),
            (Pick::Home, score(0, 1)),
            (Pick::Draw, score(1, 0)),
            (Pick::Away, score(1, 0)),
        ] {
            assert!(Forecast::new(pick, score).is_err(), "{pick:?} {score:?}");
        }
    }

    #[test]
    fn prediction_ids_are_stable_and_fit_in_a_javascript_number() {
        assert_eq!(id(9, UserId(7)), 4_144_622_573_837_860);
        assert_ne!(id(9, UserId(7)), id(7, UserId(9)));
        assert_ne!(id(1, UserId(11)), id(11, UserId(1)));
        assert!((0..1_000).all(|user| id(1, UserId(user)) < 1 << 53));
    }

    #[test]
    fn the_shard_of_a_user_never_changes_and_shards_have_similar_sizes() {
        let found: Vec<u8> = (1..=8).map(|user| shard(UserId(user), 64)).collect();
        assert_eq!(found, [1, 14, 45, 10, 26, 0, 23, 54]);
        for shards in [1, 4, 64] {
            let mut counts = vec![0_u32; usize::from(shards)];
            for user in 1..=64_000 {
                counts[usize::from(shard(UserId(user), shards))] += 1;
            }
            let even = 64_000 / u32::from(shards);
            assert!(counts.iter().all(|count| count.abs_diff(even) < even / 5 + 1), "{counts:?}");
        }
    }

    #[test]
    fn stamps_round_trip_and_sort_by_time() {
        let (early, late) = (at("2026-11-15T12:00:00Z"), at("2026-11-15T12:00:00.001Z"));
        let stamp = Stamp::new(early, u32::MAX);
        assert_eq!(Stamp::parse(stamp.as_str()), Some(stamp.clone()));
        assert_eq!(stamp.time(), Some(early));
        assert!(stamp < Stamp::new(late, 0));
        assert_eq!(Stamp::new(early, 7).moved_after(&stamp), Stamp::new(late, 7));
        assert!(Stamp::new(early + MAX_CLOCK_DIFFERENCE, 0).is_just_after(&stamp));
        assert!(!Stamp::new(late + MAX_CLOCK_DIFFERENCE, 0).is_just_after(&stamp));
        for text in
            ["", "x", "1763208000000", "1763208000000-", "1763208000000-0000000G", "+763208000000-00000000"]
        {
            assert_eq!(Stamp::parse(text), None, "{text}");
        }
    }
}
