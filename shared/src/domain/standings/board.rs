use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike as _, NaiveDate, TimeDelta, Utc};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::domain::month::Month;
use crate::domain::room::RoomDigest;
use crate::domain::time::{midnight_after, midnight_of};

/// How long a period stays open after its end. Results can be late, and a match can end after midnight.
const OPEN_AFTER_END: TimeDelta = TimeDelta::days(3);

/// The month with which a season begins.
const FIRST_MONTH_OF_SEASON: u32 = 7;

/// Which matches count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    /// All matches.
    Global,
    /// The matches of a tournament.
    Tournament(u32),
    /// The matches of a room's league. Only its members are on the board.
    Room(RoomDigest),
}

/// A kind of period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Span {
    All,
    Season,
    Month,
    Matchday,
}

impl Span {
    pub const EVERY: [Self; 4] = [Self::All, Self::Season, Self::Month, Self::Matchday];
}

/// A period, in UTC. A match belongs to the period in which it kicks off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Period {
    All,
    /// From July of this year to June of the next year.
    Season(i32),
    Month(Month),
    Matchday(NaiveDate),
}

impl Period {
    /// Returns the period that contains a time.
    #[must_use]
    pub fn of(span: Span, at: DateTime<Utc>) -> Self {
        match span {
            Span::All => Self::All,
            Span::Season => Self::Season(at.year() - i32::from(at.month() < FIRST_MONTH_OF_SEASON)),
            Span::Month => Self::Month(Month::of(at)),
            Span::Matchday => Self::Matchday(at.date_naive()),
        }
    }

    /// Returns whether a time is in the period.
    #[must_use]
    pub fn contains(self, at: DateTime<Utc>) -> bool {
        Span::EVERY.into_iter().any(|span| Self::of(span, at) == self)
    }

    /// Returns the first time after the period. `None` if it never ends.
    #[must_use]
    pub fn end(self) -> Option<DateTime<Utc>> {
        match self {
            Self::All => None,
            Self::Season(year) => {
                NaiveDate::from_ymd_opt(year + 1, FIRST_MONTH_OF_SEASON, 1).map(midnight_of)
            }
            Self::Month(month) => Some(month.next().first_day()),
            Self::Matchday(day) => Some(midnight_after(day)),
        }
    }
}

/// A table of users, ranked by their points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Board {
    pub scope: Scope,
    pub period: Period,
}

impl Board {
    /// The table of all users over all matches.
    pub const GLOBAL: Self = Self { scope: Scope::Global, period: Period::All };

    /// Returns the boards on which the points of a match count.
    pub fn of_match(tournament: u32, kick_off: DateTime<Utc>) -> impl Iterator<Item = Self> {
        [Scope::Global, Scope::Tournament(tournament)].into_iter().flat_map(move |scope| {
            Span::EVERY.into_iter().map(move |span| Self { scope, period: Period::of(span, kick_off) })
        })
    }

    /// Returns when the board closes. Later results and corrections do not change it. `None` if it never closes.
    #[must_use]
    pub fn closes_at(&self) -> Option<DateTime<Utc>> {
        self.period.end().map(|end| end + OPEN_AFTER_END)
    }

    #[must_use]
    pub fn is_closed(&self, at: DateTime<Utc>) -> bool {
        self.closes_at().is_some_and(|closes| at >= closes)
    }
}

/// Formats the name of the board in stored items. It is short, because each user's item has it several times.
impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            Scope::Global => f.write_str("g.")?,
            Scope::Tournament(id) => write!(f, "t{id}.")?,
            Scope::Room(RoomDigest(digest)) => write!(f, "r{digest:032x}.")?,
        }
        self.period.fmt(f)
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Season(year) => write!(f, "s{year}"),
            Self::Month(month) => write!(f, "m{month}"),
            Self::Matchday(day) => write!(f, "d{day}"),
        }
    }
}

impl FromStr for Period {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Ok(match text.split_at_checked(1) {
            _ if text == "all" => Self::All,
            Some(("s", year)) => Self::Season(year.parse().map_err(|_| ())?),
            Some(("m", month)) => Self::Month(month.parse()?),
            Some(("d", day)) => Self::Matchday(day.parse().map_err(|_| ())?),
            _ => return Err(()),
        })
    }
}

impl FromStr for Board {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (scope, period) = text.split_once('.').ok_or(())?;
        let scope = match scope.split_at_checked(1) {
            Some(("g", "")) => Scope::Global,
            Some(("t", id)) => Scope::Tournament(id.parse().map_err(|_| ())?),
            Some(("r", digest)) => Scope::Room(RoomDigest(u128::from_str_radix(digest, 16).map_err(|_| ())?)),
            _ => return Err(()),
        };
        Ok(Self { scope, period: period.parse()? })
    }
}

impl Serialize for Board {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Board {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        name.parse().map_err(|()| de::Error::custom("unknown name of a board"))
    }
}

#[cfg(test)]
mod tests {
    use chrono::{FixedOffset, TimeZone as _};
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn a_season_begins_in_july_and_a_year_end_divides_months_and_matchdays_but_not_seasons() {
        let names = |text| Board::of_match(7, at(text)).map(|board| board.to_string()).collect::<Vec<_>>();
        let eve = ["g.all", "g.s2026", "g.m2026-12", "g.d2026-12-31"];
        assert_eq!(names("2026-12-31T23:59:59Z")[..4], eve);
        assert_eq!(names("2026-12-31T23:59:59Z")[4..], eve.map(|name| name.replace('g', "t7")));
        assert_eq!(names("2027-01-01T00:00:00Z")[..4], ["g.all", "g.s2026", "g.m2027-01", "g.d2027-01-01"]);
        assert_eq!(names("2027-06-30T23:59:59Z")[1], "g.s2026");
        assert_eq!(names("2027-07-01T00:00:00Z")[1], "g.s2027");
    }

    #[test]
    fn a_board_closes_three_days_after_its_period() {
        let closes = |name: &str| name.parse::<Board>().unwrap().closes_at();
        assert_eq!(closes("g.all"), None);
        assert_eq!(closes("g.s2026"), Some(at("2027-07-04T00:00:00Z")));
        assert_eq!(closes("t7.m2026-12"), Some(at("2027-01-04T00:00:00Z")));
        assert_eq!(closes("g.d2026-12-31"), Some(at("2027-01-04T00:00:00Z")));
        let board: Board = "g.d2026-12-31".parse().unwrap();
        assert!(!board.is_closed(at("2027-01-03T23:59:59Z")) && board.is_closed(at("2027-01-04T00:00:00Z")));
    }

    #[test]
    fn names_of_rooms_are_parsed_and_malformed_names_rejected() {
        let room = Board { scope: Scope::Room(RoomDigest(0xab)), period: Period::All };
        assert_eq!(room.to_string(), "r000000000000000000000000000000ab.all");
        assert_eq!(room.to_string().parse(), Ok(room));
        for name in [
            "",
            "g",
            "g.",
            "gg.all",
            "r.all",
            "rx.all",
            "x.all",
            "t.all",
            "t7",
            "g.s",
            "g.mx",
            "g.d2026-13-01",
            "g.alle",
        ] {
            assert!(name.parse::<Board>().is_err(), "{name}");
        }
    }

    proptest! {
        /// The same instant, written in any time zone, belongs to the same boards. Each of them has not ended yet and
        /// has begun.
        #[test]
        fn boards_depend_on_the_instant_and_not_on_the_time_zone(
            seconds in 0..4_000_000_000_i64, offset in -50_400..=50_400_i32, tournament: u32,
        ) {
            let kick_off = DateTime::from_timestamp(seconds, 0).unwrap();
            let zone = FixedOffset::east_opt(offset).unwrap();
            let local = zone.from_utc_datetime(&kick_off.naive_utc()).to_rfc3339();
            let same = DateTime::parse_from_rfc3339(&local).unwrap().to_utc();
            let boards: Vec<Board> = Board::of_match(tournament, kick_off).collect();
            prop_assert_eq!(&boards, &Board::of_match(tournament, same).collect::<Vec<_>>());
            for board in boards {
                prop_assert_eq!(board.to_string().parse(), Ok(board));
                if let Some(end) = board.period.end() {
                    prop_assert!(kick_off < end);
                    prop_assert!(board.period.contains(kick_off) && !board.period.contains(end));
                    // The instant before the end is in the period, and the end is in the next one.
                    let span = match board.period {
                        Period::All => Span::All,
                        Period::Season(_) => Span::Season,
                        Period::Month(_) => Span::Month,
                        Period::Matchday(_) => Span::Matchday,
                    };
                    prop_assert_eq!(Period::of(span, end - TimeDelta::seconds(1)), board.period);
                    prop_assert!(Period::of(span, end) > board.period);
                }
            }
        }
    }
}
