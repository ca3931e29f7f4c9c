//! A parsed document. Every format is parsed into these types.

use chrono::{DateTime, Datelike as _, SubsecRound as _, Utc};
use serde::Serialize;
use touchline::domain::catalog::{Key, Kind, Score, Status};

/// The value of `source` in documents of our own format.
pub const OWN_SOURCE: &str = "touchline";

/// The valid rows of a document, and the rejected ones.
#[derive(Debug, Clone, Default)]
pub struct Document {
    pub source: String,
    /// The time at which the document's data was current. A match can have its own `as_of`.
    pub as_of: Option<DateTime<Utc>>,
    pub sports: Vec<NewSport>,
    pub teams: Vec<NewTeam>,
    pub tournaments: Vec<NewTournament>,
    pub events: Vec<NewEvent>,
    pub rejected: Vec<Rejected>,
}

/// A row that cannot be imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rejected {
    pub row: String,
    pub reason: String,
}

/// How a document refers to a row.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reference {
    /// The id that we use for the row.
    Given(u32),
    /// The id or the name that the source uses for the row.
    External(String),
}

impl Reference {
    pub fn key(&self, source: &str, kind: Kind) -> Key {
        match self {
            Self::Given(id) => Key::of(OWN_SOURCE, kind, &id.to_string()),
            Self::External(id) => Key::of(source, kind, id),
        }
    }
}

#[derive(Debug, Clone)]
pub struct NewSport {
    pub reference: Reference,
    pub name: String,
    pub slug: Option<String>,
}

#[derive(Debug, Clone)]
pub struct NewTeam {
    pub reference: Reference,
    pub name: String,
    pub slug: Option<String>,
    pub sport: Reference,
    pub logo: Option<String>,
    pub country: Option<String>,
    /// The country of the team's league, for teams whose own country is unknown.
    pub league_country: Option<String>,
    pub founded: Option<i32>,
    /// The home ground.
    pub venue: Option<String>,
    pub short_name: Option<String>,
}

#[derive(Debug, Clone)]
pub struct NewTournament {
    pub reference: Reference,
    pub name: String,
    pub logo: Option<String>,
    pub featured: bool,
}

#[derive(Debug, Clone)]
pub struct NewEvent {
    /// The name of the match in reports.
    pub label: String,
    pub reference: Reference,
    pub tournament: Reference,
    pub home: Reference,
    pub away: Reference,
    pub start: DateTime<Utc>,
    pub status: Status,
    pub venue: Option<String>,
    pub score: Option<Score>,
    /// When the source last changed this match, if the source says so.
    pub as_of: Option<DateTime<Utc>>,
}

impl NewEvent {
    /// Checks the rules that hold for the matches of every source, and sets the score.
    pub fn checked(mut self, home: Option<i64>, away: Option<i64>) -> Result<Self, String> {
        if self.home == self.away {
            return Err("a team cannot play against itself".into());
        }
        if !(1900..=2200).contains(&self.start.year()) {
            return Err(format!("the year {} is out of range", self.start.year()));
        }
        // The stored row has whole seconds. The import compares this start with the stored start, so both need the
        // same precision.
        self.start = self.start.trunc_subsecs(0);
        let side = |goals: i64| match u16::try_from(goals) {
            Ok(goals) if goals <= 999 => Ok(goals),
            _ => Err(format!("a score of {goals} is out of range")),
        };
        self.score = match (home, away) {
            (Some(home), Some(away)) => Some(Score { home: side(home)?, away: side(away)? }),
            (None, None) => None,
            _ => return Err("a score needs both sides".into()),
        };
        match self.status {
            Status::Finished if self.score.is_none() => Err("a finished match needs a score".into()),
            // These matches have no score, but some sources send 0-0 for them.
            Status::Scheduled | Status::Postponed | Status::Cancelled => Ok(Self { score: None, ..self }),
            _ => Ok(self),
        }
    }
}
