//! The matches of the past that the fans have predicted.

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike as _, Days, NaiveDate, SubsecRound as _, TimeDelta, Utc, Weekday};

use touchline::domain::catalog::Match;
use touchline::domain::standings::Board;

use crate::demo;

/// How many weeks the season has. Each has one matchday.
const WEEKS: u64 = 5;

/// How long before the first start of the stack the fans have registered: before the first match of the season.
pub(super) const REGISTERED: TimeDelta = TimeDelta::days(60);

/// The past season of a stack. It depends on the hour of the first start, and stays the same when the stack starts
/// again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Season {
    first_start: DateTime<Utc>,
}

impl Season {
    pub(super) fn starting(now: DateTime<Utc>) -> Self {
        Self {
            first_start: now
                - TimeDelta::seconds(now.timestamp() % 3_600)
                - TimeDelta::nanoseconds(i64::from(now.timestamp_subsec_nanos())),
        }
    }

    /// Returns the season in which the first fan registered at this time.
    pub(super) fn registered_at(first_fan: DateTime<Utc>) -> Self {
        Self { first_start: (first_fan + REGISTERED).trunc_subsecs(0) }
    }

    /// Returns when the first fan registers. This is the only trace of the first start.
    pub(super) fn registration(self) -> DateTime<Utc> {
        self.first_start - REGISTERED
    }

    /// Returns the days of the season in their order: the past Saturdays, then the most recent days.
    fn days(self) -> Vec<NaiveDate> {
        let today = self.first_start.date_naive();
        let recent = today - Days::new(demo::PAST_DAYS);
        let since_saturday = recent.weekday().days_since(Weekday::Sat);
        let last = if since_saturday == 0 {
            recent - Days::new(7)
        } else {
            recent - Days::new(since_saturday.into())
        };
        let saturdays = (0..WEEKS).rev().map(|week| last - Days::new(7 * week));
        saturdays.chain((0..=demo::PAST_DAYS).map(|day| recent + Days::new(day))).collect()
    }

    /// Returns the numbers of the matches that had ended before the first start, in the order of their kick-offs. The
    /// last day has at least two, so that the second one changes ranks on the leaderboard of the day.
    pub(super) fn matches(self) -> Vec<i64> {
        let is_over =
            |number: &i64| *number >= 0 && demo::kick_off(*number) + demo::LENGTH <= self.first_start;
        let days = self.days().into_iter().map(|day| demo::featured_on(day).filter(is_over).collect());
        days.filter(|matches: &Vec<i64>| matches.len() > 1).flatten().collect()
    }
}

/// Returns the leaderboards on which the matches count, each with the end of the last of these matches.
pub(super) fn boards(events: &[&Match]) -> BTreeMap<Board, DateTime<Utc>> {
    let of_match = |event: &Match| {
        let end = event.start + demo::LENGTH;
        Board::of_match(event.tournament_id, event.start).map(move |board| (board, end))
    };
    // Of the entries of a board, the last one remains.
    events.iter().flat_map(|event| of_match(event)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_season_has_five_saturdays_and_the_last_days() {
        for hours in 0..200 {
            let now = DateTime::from_timestamp(1_794_744_123 + hours * 3_600, 5_000_000).unwrap();
            let season = Season::starting(now);
            let kick_offs: Vec<_> = season.matches().into_iter().map(demo::kick_off).collect();
            assert!((20 + 8..=20 + 12).contains(&kick_offs.len()), "{now}: {kick_offs:?}");
            assert!(kick_offs.is_sorted_by(|before, after| before < after), "{now}: {kick_offs:?}");
            let last_day = kick_offs[kick_offs.len() - 1].date_naive();
            assert!(kick_offs.iter().filter(|start| start.date_naive() == last_day).count() > 1);
            assert!(kick_offs.iter().all(|start| *start + demo::LENGTH <= now));
            assert!(kick_offs.iter().take(20).all(|start| start.weekday() == Weekday::Sat));
            assert!(season.registration() < kick_offs[0] - TimeDelta::days(5));
            assert_eq!(Season::registered_at(season.registration()), season);
        }
    }
}
