//! The course of a match: the minute of each goal. Pure: the same match with the same result always takes the same
//! course.

use std::time::Duration;

use touchline::domain::catalog::Score;

use crate::draw::draw;

/// The minutes of a match.
pub(crate) const FULL_TIME: u32 = 90;
const HALF_TIME: u32 = 45;

/// The length of the half-time break, in minutes of the match.
const BREAK: u32 = 5;

/// The maximum number of steps in a second while the match is played.
const STEPS_PER_SECOND: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    KickOff,
    Playing,
    HalfTime,
    FullTime,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KickOff => "kick-off",
            Self::Playing => "playing",
            Self::HalfTime => "half-time",
            Self::FullTime => "full-time",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Home,
    Away,
}

/// A moment of the match that the pages show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The time since the start of the course.
    pub(crate) at: Duration,
    pub(crate) minute: u32,
    pub(crate) phase: Phase,
    pub(crate) score: Score,
    /// Who has scored in this step. If both have, the side with more goals.
    pub(crate) scorer: Option<Side>,
}

/// What the course of a match depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Course {
    pub(crate) event: u32,
    /// The minute at which the course begins. 0 is the kick-off.
    pub(crate) from_minute: u32,
    pub(crate) from: Score,
    pub(crate) to: Score,
    /// How long the rest of the match takes.
    pub(crate) length: Duration,
}

impl Course {
    /// Returns the steps, in order. The first is at the start, and the last is full time with the final score.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let begin = moment(self.from_minute);
        let minutes = moment(FULL_TIME).saturating_sub(begin).max(1);
        let at = |minute: u32| self.length * moment(minute).saturating_sub(begin) / minutes;
        // In a short match, a step stands for several minutes.
        let steps = u128::from(STEPS_PER_SECOND) * self.length.as_millis() / 1_000;
        let stride = u128::from(minutes).div_ceil(steps.max(1));
        let played: Vec<u32> = (self.from_minute + 1..FULL_TIME)
            .filter(|minute| u128::from(*minute) % stride == 0 && *minute != HALF_TIME)
            .collect();
        let goals = self.goals(&played);

        let first = if self.from_minute == 0 { Phase::KickOff } else { Phase::Playing };
        let step = |minute: u32, phase, score, scorer| Step { at: at(minute), minute, phase, score, scorer };
        let mut score = self.from;
        let mut steps = vec![step(self.from_minute, first, score, None)];
        for minute in self.from_minute + 1..FULL_TIME {
            if minute == HALF_TIME {
                steps.push(step(minute, Phase::HalfTime, score, None));
            } else if played.contains(&minute) {
                let of = |side| goals.iter().filter(|goal| **goal == (minute, side)).count();
                let (home, away) = (of(Side::Home), of(Side::Away));
                score.home += u16::try_from(home).unwrap_or_default();
                score.away += u16::try_from(away).unwrap_or_default();
                let scorer = (home + away > 0).then_some(if away > home { Side::Away } else { Side::Home });
                steps.push(step(minute, Phase::Playing, score, scorer));
            }
        }
        // A very short rest of a match has no step for its goals.
        steps.push(step(FULL_TIME, Phase::FullTime, self.to, None));
        steps
    }

    /// Returns the minute and the side of each goal. No two are in the same minute, unless there are more
    /// goals than minutes.
    fn goals(&self, minutes: &[u32]) -> Vec<(u32, Side)> {
        let mut minutes = minutes.to_vec();
        minutes.sort_by_key(|minute| draw(self.event, *minute));
        let count = |from: u16, to: u16| usize::from(to.saturating_sub(from));
        let home = std::iter::repeat_n(Side::Home, count(self.from.home, self.to.home));
        let away = std::iter::repeat_n(Side::Away, count(self.from.away, self.to.away));
        home.chain(away).zip(minutes.iter().cycle()).map(|(side, minute)| (*minute, side)).collect()
    }
}

/// Returns the time of a minute since the kick-off, with the break, in minutes.
fn moment(minute: u32) -> u32 {
    if minute > HALF_TIME { minute + BREAK } else { minute }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Score = Score { home: 0, away: 0 };

    fn course(event: u32, seconds: u64, to: (u16, u16)) -> Course {
        let to = Score { home: to.0, away: to.1 };
        Course { event, from_minute: 0, from: NONE, to, length: Duration::from_secs(seconds) }
    }

    #[test]
    fn a_match_of_a_minute_has_a_step_for_each_minute_and_a_minute_for_each_goal() {
        for event in 0..200 {
            let steps = course(event, 60, (3, 2)).steps();
            assert_eq!(steps.len(), 91);
            assert_eq!((steps[0].phase, steps[0].score, steps[0].at), (Phase::KickOff, NONE, Duration::ZERO));
            assert_eq!((steps[45].phase, steps[45].minute), (Phase::HalfTime, 45));
            let last = steps.last().unwrap();
            assert_eq!((last.phase, last.minute, last.at), (Phase::FullTime, 90, Duration::from_mins(1)));
            assert_eq!(last.score, Score { home: 3, away: 2 });
            assert_eq!(steps[89].score, last.score, "every goal falls before full time");
            let goals: Vec<&Step> = steps.iter().filter(|step| step.scorer.is_some()).collect();
            assert_eq!(goals.iter().filter(|goal| goal.scorer == Some(Side::Home)).count(), 3);
            assert_eq!(goals.len(), 5);
            assert!(goals.iter().all(|goal| goal.phase == Phase::Playing));
            for (before, after) in steps.iter().zip(&steps[1..]) {
                assert!(before.at < after.at && before.minute < after.minute);
                let scored = |step: &Step| step.score.home + step.score.away;
                assert_eq!(scored(after) - scored(before), u16::from(after.scorer.is_some()));
            }
        }
    }

    #[test]
    fn the_same_request_gives_the_same_course_and_another_match_gives_another() {
        assert_eq!(course(7, 60, (2, 1)).steps(), course(7, 60, (2, 1)).steps());
        assert_ne!(course(7, 60, (2, 1)).steps(), course(8, 60, (2, 1)).steps());
    }

    #[test]
    fn there_are_at_most_five_playing_steps_in_a_second() {
        for seconds in [1, 2, 10, 60] {
            let steps = course(3, seconds, (2, 1)).steps();
            let playing: Vec<&Step> = steps.iter().filter(|step| step.phase == Phase::Playing).collect();
            assert!(playing.len() >= 4, "{seconds}: {playing:?}");
            for pair in playing.windows(2) {
                assert!(pair[1].at >= pair[0].at + Duration::from_millis(199), "{seconds}: {pair:?}");
            }
            assert_eq!(steps.iter().filter(|step| step.scorer.is_some()).count(), 3, "{seconds}");
        }
    }

    #[test]
    fn many_goals_share_the_steps() {
        let steps = course(3, 5, (98, 101)).steps();
        let scores: Vec<u16> = steps.iter().map(|step| step.score.home).collect();
        assert!(scores.is_sorted());
        assert_eq!(steps[steps.len() - 2].score, Score { home: 98, away: 101 });
    }

    #[test]
    fn a_live_match_continues_from_its_minute_and_its_score() {
        let from = Score { home: 1, away: 0 };
        let live = Course { from_minute: 60, from, ..course(3, 30, (2, 2)) };
        let steps = live.steps();
        assert_eq!((steps[0].phase, steps[0].minute, steps[0].score), (Phase::Playing, 60, from));
        assert!(steps.iter().all(|step| step.phase != Phase::HalfTime && step.phase != Phase::KickOff));
        assert_eq!(steps.iter().filter(|step| step.scorer == Some(Side::Away)).count(), 2);
        assert_eq!(steps.last().unwrap().at, Duration::from_secs(30));
    }
}
