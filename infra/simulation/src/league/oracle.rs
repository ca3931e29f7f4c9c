//! The boards as they must be: a full sort of what the predictions earned. It shares no rules or sums with the product,
//! so it cannot share its bugs.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Datelike as _, Days, Months, NaiveDate, TimeDelta, Utc};
use serde_json::Value;

/// Goals of the home team and of the away team.
pub type Goals = (u16, u16);

/// A match after a change of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub tournament: u32,
    pub start: DateTime<Utc>,
    /// `None` if the match does not count.
    pub result: Option<Goals>,
}

/// The states of all matches, by match and revision of the result.
pub type States = BTreeMap<(u32, u32), State>;

/// A prediction after a settlement.
#[derive(Debug, Clone)]
pub struct Version {
    revision: u32,
    /// When the settlement began, in seconds.
    at: i64,
    pick: String,
    score: Option<Goals>,
    changed: DateTime<Utc>,
    /// The points that the product has stored.
    points: Option<u32>,
}

/// All settlements of all predictions, by match and user, oldest first.
#[derive(Debug, Default)]
pub struct History(pub BTreeMap<(u32, u32), Vec<Version>>);

/// A user's totals on a board.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub points: u32,
    pub exact: u32,
    pub correct: u32,
    pub settled: u32,
    /// When the user's points last changed.
    pub reached: i64,
}

/// A row of a board. The position in the list is the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    pub rank: u32,
    pub user: u32,
    pub counts: Counts,
}

/// Which matches count on a board.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    pub tournament: Option<u32>,
    pub event: Option<u32>,
    pub period: Period,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Period {
    All,
    /// The year in which the season begins.
    Season(i32),
    Month(i32, u32),
    Day(NaiveDate),
}

impl Period {
    /// Returns the periods that contain a time.
    pub fn of(at: DateTime<Utc>) -> [Self; 4] {
        let season = if at.month() >= 7 { at.year() } else { at.year() - 1 };
        [Self::All, Self::Season(season), Self::Month(at.year(), at.month()), Self::Day(at.date_naive())]
    }

    /// Returns the name that the product gives the period.
    pub fn name(self) -> String {
        match self {
            Self::All => "all".into(),
            Self::Season(year) => format!("s{year}"),
            Self::Month(year, month) => format!("m{year}-{month:02}"),
            Self::Day(day) => format!("d{}-{:02}-{:02}", day.year(), day.month(), day.day()),
        }
    }

    /// Returns when the period closes: three days after its end.
    pub fn closes(self) -> Option<DateTime<Utc>> {
        let first_of = |year, month| NaiveDate::from_ymd_opt(year, month, 1).expect("the date is valid");
        let end = match self {
            Self::All => return None,
            Self::Season(year) => first_of(year + 1, 7),
            Self::Month(year, month) => first_of(year, month) + Months::new(1),
            Self::Day(day) => day + Days::new(1),
        };
        Some(end.and_hms_opt(0, 0, 0).expect("midnight is valid").and_utc() + TimeDelta::days(3))
    }

    pub fn is_closed(self, at: DateTime<Utc>) -> bool {
        self.closes().is_some_and(|closes| at >= closes)
    }
}

impl History {
    /// Reads the settlements from the records of the stream.
    pub fn read(records: &[Value]) -> Self {
        let mut history = Self::default();
        for image in records.iter().map(|record| &record["dynamodb"]["NewImage"]) {
            let text = |name: &str| image[name]["S"].as_str().unwrap_or_default();
            let number = |name: &str| image[name]["N"].as_str().and_then(|text| text.parse::<i64>().ok());
            let small = |name: &str| number(name).and_then(|number| u32::try_from(number).ok());
            if !text("pk").starts_with("event#") || !text("sk").starts_with("user#") {
                continue;
            }
            let key = small("event_id").zip(small("user_id"));
            let (Some(key), Some(revision), Some(at)) = (key, small("revision"), number("settled_at")) else {
                continue;
            };
            let goals = |name: &str| small(name).and_then(|goals| u16::try_from(goals).ok());
            let millis = text("changed").get(..13).and_then(|millis| millis.parse().ok());
            let version = Version {
                revision,
                at,
                pick: text("pick").to_owned(),
                score: goals("home").zip(goals("away")),
                changed: millis.and_then(DateTime::from_timestamp_millis).unwrap_or_default(),
                points: small("points"),
            };
            let versions = history.0.entry(key).or_default();
            if versions.last().is_none_or(|last| last.revision != revision) {
                versions.push(version);
            }
        }
        history
    }

    /// Checks that every prediction has the points of the match's last result. `last` has the last revision of each
    /// match. `predictions` has all stored predictions.
    pub fn check_points(
        &self,
        states: &States,
        last: &BTreeMap<u32, u32>,
        predictions: &BTreeSet<(u32, u32)>,
    ) -> Result<(), String> {
        for (event, user) in predictions {
            let revision = last.get(event).copied().unwrap_or(0);
            let version = self.0.get(&(*event, *user)).and_then(|versions| versions.last());
            if revision == 0 {
                continue;
            }
            let Some(version) = version.filter(|version| version.revision == revision) else {
                return Err(format!(
                    "match {event}, user {user}: {version:?} instead of revision {revision}"
                ));
            };
            let earned = version.earned(&states[&(*event, revision)]);
            if version.points != earned {
                return Err(format!(
                    "match {event}, user {user}: {:?} points instead of {earned:?}",
                    version.points
                ));
            }
        }
        Ok(())
    }

    /// Returns how many results were settled, corrections included.
    pub fn settlements(&self) -> u64 {
        let of_match = |((event, _), versions): (&(u32, u32), &Vec<Version>)| {
            versions.iter().map(|version| (*event, version.revision)).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_match).collect::<BTreeSet<_>>().len() as u64
    }

    /// Returns the boards on which a match has ever counted, except the tables of rooms.
    pub fn selections(&self, states: &States) -> BTreeSet<Selection> {
        let mut selections = BTreeSet::new();
        for ((event, _), versions) in &self.0 {
            for version in versions {
                let state = &states[&(*event, version.revision)];
                for period in Period::of(state.start) {
                    for tournament in [None, Some(state.tournament)] {
                        selections.insert(Selection { tournament, event: None, period });
                    }
                }
            }
        }
        selections
    }

    /// Returns what each user has on a board. Users without settled predictions are left out.
    pub fn counts(&self, states: &States, selection: &Selection) -> BTreeMap<u32, Counts> {
        let closes = selection.period.closes().map(|closes| closes.timestamp());
        let mut users = BTreeMap::<u32, Counts>::new();
        for ((event, user), versions) in &self.0 {
            if selection.event.is_some_and(|only| only != *event) {
                continue;
            }
            let counts = users.entry(*user).or_default();
            let (mut last, mut latest) = (Counts::default(), i64::MIN);
            for version in versions {
                latest = latest.max(version.at);
                if closes.is_some_and(|closes| latest >= closes) {
                    break;
                }
                let now = version.counts(&states[&(*event, version.revision)], selection);
                if selection.event.is_some() {
                    // In the table of one match, a row is as old as its last settlement.
                    counts.reached = version.at;
                } else if now.points != last.points {
                    counts.reached = counts.reached.max(latest);
                }
                last = now;
            }
            counts.points += last.points;
            counts.exact += last.exact;
            counts.correct += last.correct;
            counts.settled += last.settled;
        }
        if selection.event.is_none() {
            users.retain(|_, counts| counts.settled > 0);
        }
        users
    }
}

impl Version {
    /// Returns the points that docs/points.md promises: 4 for the exact score, 3 for the winner and the goal
    /// difference, 2 for the outcome. `None` if the match does not count, or the prediction came after the kick-off.
    fn earned(&self, state: &State) -> Option<u32> {
        let (home, away) = state.result.filter(|_| self.changed <= state.start)?;
        let outcome = match home.cmp(&away) {
            std::cmp::Ordering::Greater => "home",
            std::cmp::Ordering::Equal => "draw",
            std::cmp::Ordering::Less => "away",
        };
        if self.pick != outcome {
            return Some(0);
        }
        let difference = |(home, away): Goals| i32::from(home) - i32::from(away);
        Some(match self.score {
            Some(score) if score == (home, away) => 4,
            Some(score) if outcome != "draw" && difference(score) == difference((home, away)) => 3,
            _ => 2,
        })
    }

    fn counts(&self, state: &State, selection: &Selection) -> Counts {
        let is_counted = selection.tournament.is_none_or(|tournament| tournament == state.tournament)
            && Period::of(state.start).contains(&selection.period);
        let Some(points) = self.earned(state).filter(|_| is_counted) else { return Counts::default() };
        Counts {
            points,
            exact: u32::from(points == 4),
            correct: u32::from(points > 0),
            settled: 1,
            reached: 0,
        }
    }
}

/// Sorts users: more points first, then more exact scores, then who reached the points first. Users with the same
/// points share a rank.
pub fn sorted(counts: impl IntoIterator<Item = (u32, Counts)>) -> Vec<Line> {
    let mut users: Vec<(u32, Counts)> = counts.into_iter().collect();
    users
        .sort_by_key(|(user, counts)| (Reverse(counts.points), Reverse(counts.exact), counts.reached, *user));
    let rank = |points: u32| 1 + users.iter().filter(|(_, other)| other.points > points).count();
    let line = |(user, counts): &(u32, Counts)| Line {
        rank: u32::try_from(rank(counts.points)).unwrap_or(u32::MAX),
        user: *user,
        counts: *counts,
    };
    users.iter().map(line).collect()
}
