//! The demo league: three football leagues with invented teams, in time zones around the world. So there are finished, live
//! and scheduled matches at any time, and each league plays in its own afternoon and evening.

use std::collections::BTreeSet;

use chrono::{DateTime, Days, NaiveDate, NaiveTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline::domain::catalog::{Match, ShownStatus};

use crate::draw::draw;

struct League {
    tournament: &'static str,
    /// Name, country, founding year and home ground.
    teams: [(&'static str, &'static str, i32, &'static str); TEAMS],
}

const TEAMS: usize = 8;

/// The leagues in Europe, America, and Asia and Oceania, in the order in which they play. The first one is featured.
const LEAGUES: [League; 3] = [
    League {
        tournament: "Harbour Premier",
        teams: [
            ("Northgate Rovers", "Albion", 1889, "Northgate Park"),
            ("Westport Albion", "Albion", 1901, "Cliff Road"),
            ("São Miguel Atlético", "Lusia", 1911, "Estádio do Farol"),
            ("Göteholm IF", "Sverra", 1904, "Hamnvallen"),
            ("Real Almería del Mar", "Iberra", 1922, "Campo de la Marina"),
            ("Olympique Calanques", "Gallia", 1908, "Stade des Calanques"),
            ("Köln-Süd 07", "Teuta", 1907, "Südbad-Stadion"),
            ("Dynamo Vltava", "Bohema", 1923, "Stadion Pod Mostem"),
        ],
    },
    League {
        tournament: "Skyline League",
        teams: [
            ("Lakeside Herons", "Columbia", 1949, "Boathouse Field"),
            ("Canyon Foxes", "Columbia", 1967, "Red Rock Park"),
            ("Bay Lanterns", "Columbia", 1971, "Pier 9 Stadium"),
            ("Granite Owls", "Columbia", 1958, "Quarry Ground"),
            ("Prairie Comets", "Columbia", 1976, "Grain Exchange Park"),
            ("Delta Pilots", "Columbia", 1988, "Levee Stadium"),
            ("Harbour Kings", "Columbia", 1946, "Drydock Field"),
            ("Summit Wolves", "Columbia", 1995, "Treeline Park"),
        ],
    },
    League {
        tournament: "Southern Cross League",
        teams: [
            ("Kitahama FC", "Hinode", 1968, "Kitahama Stadium"),
            ("Shiosai United", "Hinode", 1974, "Shiosai Park"),
            ("Haneul Cranes", "Haneul", 1983, "Crane Field"),
            ("Baram City", "Haneul", 1991, "Baram Ground"),
            ("Coral Bay", "Austra", 1978, "Reef Oval"),
            ("Red Gum Rangers", "Austra", 1961, "Red Gum Oval"),
            ("Tui Wanderers", "Moana", 1955, "Tui Park"),
            ("Palm Strait", "Moana", 1988, "Lagoon Ground"),
        ],
    },
];

/// A match kicks off every two hours and ends when the next match kicks off.
const MATCHES_PER_DAY: i64 = 12;
pub(crate) const LENGTH: TimeDelta = TimeDelta::hours(2);

/// Each league has a round of this many matches a day, one after the other.
const MATCHES_PER_ROUND: i64 = MATCHES_PER_DAY / 3;

/// The first league begins its rounds at noon, UTC. The second one follows at 20:00, and the third one at 4:00.
const FIRST_OF_DAY: i64 = MATCHES_PER_DAY / 2;

/// How many days before today the demo league begins.
pub(crate) const PAST_DAYS: u64 = 2;

/// All ids of the demo league are higher than this number. `feed` assigns lower ids to the rows of other
/// imports.
const ID_OFFSET: i64 = 1_000_000;

/// Matches are numbered from this day on, so that each match keeps its id when the stack restarts.
const FIRST_DAY: NaiveDate = NaiveDate::from_ymd_opt(2026, 1, 1).expect("a valid date");

/// Returns whether an import of the demo league must not change a stored match. A finished match keeps its result, even
/// if the user played it early or corrected it. A live match keeps its score until the demo league has its result.
pub(crate) fn is_kept(stored: &Match, now: DateTime<Utc>) -> bool {
    let kick_off = kick_off(i64::from(stored.id) - ID_OFFSET - 1);
    match stored.status.shown() {
        ShownStatus::Finished => true,
        ShownStatus::Live => now < kick_off + LENGTH,
        ShownStatus::Scheduled => false,
    }
}

/// Returns a payload for `feed`: the demo league at `now`, with the matches from two days ago to a week
/// ahead. Older matches whose ids are in `unfinished` are included too, because their results are due by now.
pub fn league(now: DateTime<Utc>, unfinished: impl IntoIterator<Item = u32>) -> Value {
    let first = (now.date_naive() - Days::new(PAST_DAYS) - FIRST_DAY).num_days() * MATCHES_PER_DAY;
    let numbers: BTreeSet<i64> = unfinished
        .into_iter()
        .map(|id| i64::from(id) - ID_OFFSET - 1)
        .filter(|number| (0..first).contains(number))
        .chain(first..first + 10 * MATCHES_PER_DAY)
        .collect();
    let events: Vec<Value> = numbers.into_iter().map(|number| event(number, now)).collect();
    let football = ID_OFFSET + 1;
    let (mut tournaments, mut teams) = (Vec::new(), Vec::new());
    for (league, League { tournament, teams: members }) in (1..).zip(LEAGUES) {
        tournaments.push(json!({ "id": ID_OFFSET + league, "name": tournament, "featured": league == 1 }));
        for (name, country, founded, venue) in members {
            let id = ID_OFFSET + 1 + i64::try_from(teams.len()).unwrap_or_default();
            teams.push(json!({
                "id": id, "name": name, "sport_id": football, "country": country, "founded": founded, "venue": venue,
            }));
        }
    }
    json!({
        "format": "touchline",
        "sports": [{ "id": football, "name": "Football", "slug": "football" }],
        "tournaments": tournaments,
        "teams": teams,
        "events": events,
    })
}

/// Returns a payload for `feed` with these matches. Their teams are in [`league`].
pub(crate) fn matches(numbers: &[i64], now: DateTime<Utc>) -> Value {
    let events: Vec<Value> = numbers.iter().map(|number| event(*number, now)).collect();
    json!({ "format": "touchline", "events": events })
}

/// Returns the numbers of the matches of the featured league on a day.
pub(crate) fn featured_on(day: NaiveDate) -> impl Iterator<Item = i64> {
    let first = (day - FIRST_DAY).num_days() * MATCHES_PER_DAY;
    (first..first + MATCHES_PER_DAY).filter(|number| Pairing::of(*number).league == 0)
}

/// Returns the id of a match.
pub(crate) fn id(number: i64) -> u32 {
    u32::try_from(ID_OFFSET + number + 1).unwrap_or_default()
}

/// Returns whether a match is one of the demo league, and not of another import.
pub(crate) fn has(event: &Match) -> bool {
    (tournament_id(0)..=tournament_id(2)).contains(&event.tournament_id)
}

/// Returns the id of a team, given its number in the list of all leagues.
pub(crate) fn team_id(number: u32) -> u32 {
    id(number.into())
}

/// Returns the id of the tournament of a league, from 0.
pub(crate) fn tournament_id(league: u32) -> u32 {
    id(league.into())
}

pub(crate) fn kick_off(number: i64) -> DateTime<Utc> {
    FIRST_DAY.and_time(NaiveTime::MIN).and_utc() + TimeDelta::hours(number * 24 / MATCHES_PER_DAY)
}

/// Who plays in a match.
struct Pairing {
    league: i64,
    /// The teams, by their index in the league.
    home: i64,
    away: i64,
}

impl Pairing {
    fn of(number: i64) -> Self {
        let since_noon = number - FIRST_OF_DAY;
        let (day, place) = (since_noon.div_euclid(MATCHES_PER_DAY), since_noon.rem_euclid(MATCHES_PER_DAY));
        let (league, place) = (place / MATCHES_PER_ROUND, place % MATCHES_PER_ROUND);
        // The circle method: the last team stays, the others rotate around it. So in a round every team plays once, and in
        // seven rounds each plays each.
        let rotating = i64::try_from(TEAMS).unwrap_or_default() - 1;
        let first = if place == 0 { rotating } else { (day + place).rem_euclid(rotating) };
        let second = (day - place).rem_euclid(rotating);
        // In the next seven rounds, the other team is at home.
        let (home, away) = if (day + place).rem_euclid(2) == 0 { (first, second) } else { (second, first) };
        Self { league, home, away }
    }
}

fn event(number: i64, now: DateTime<Utc>) -> Value {
    let Pairing { league, home, away } = Pairing::of(number);
    let start = kick_off(number);
    let status = match now - start {
        age if age < TimeDelta::zero() => "scheduled",
        age if age < LENGTH => "live",
        _ => "finished",
    };
    // The score is derived from the number of the match.
    let goals = |salt: u32| draw(id(number), salt) % 4;
    let scores = (status != "scheduled").then(|| (goals(1), goals(2)));
    let team = |index: i64| ID_OFFSET + league * i64::try_from(TEAMS).unwrap_or_default() + index + 1;
    json!({
        "id": ID_OFFSET + number + 1,
        "tournament_id": ID_OFFSET + league + 1,
        "home_team_id": team(home),
        "away_team_id": team(away),
        "start_time": start.to_rfc3339_opts(SecondsFormat::Secs, true),
        "status": status,
        "home_score": scores.map(|(home, _)| home),
        "away_score": scores.map(|(_, away)| away),
    })
}

#[cfg(test)]
mod tests {
    use chrono::Timelike as _;

    use super::*;

    #[test]
    fn there_are_live_scheduled_and_finished_matches_at_any_time() {
        for hour in 0..48 {
            let now = DateTime::from_timestamp(1_794_744_000 + hour * 3_599, 0).unwrap();
            let league = league(now, std::iter::empty());
            let events = league["events"].as_array().unwrap();
            for status in ["live", "scheduled", "finished"] {
                assert!(events.iter().any(|event| event["status"] == status), "{status} at {now}");
            }
        }
    }

    #[test]
    fn each_league_plays_in_its_own_afternoon_and_evening() {
        for number in 0..1_000 {
            // Hours east of UTC: Central Europe, the middle of America, and Japan.
            let offset = [1, -6, 9][usize::try_from(Pairing::of(number).league).unwrap()];
            let local = kick_off(number) + TimeDelta::hours(offset);
            assert!((12..21).contains(&local.hour()), "match {number} kicks off at {local}");
        }
    }

    #[test]
    fn every_team_plays_once_in_a_round_and_each_plays_each_at_home_and_away() {
        for league in 0..3 {
            let of_league = (FIRST_OF_DAY..).filter(|number| Pairing::of(*number).league == league);
            let pairs: Vec<(i64, i64)> = of_league
                .take(14 * 4)
                .map(|number| (Pairing::of(number).home, Pairing::of(number).away))
                .collect();
            for round in pairs.chunks(4) {
                let teams: BTreeSet<i64> = round.iter().flat_map(|(home, away)| [*home, *away]).collect();
                assert_eq!(teams, (0..8).collect(), "{round:?}");
            }
            assert_eq!(pairs.iter().collect::<BTreeSet<_>>().len(), 56, "{pairs:?}");
        }
    }

    /// A match that was live when the stack stopped must get a result after the restart. Otherwise it would stay
    /// live forever.
    #[test]
    fn matches_left_unfinished_by_an_earlier_run_are_finished_after_a_restart() {
        let at = |days: i64| DateTime::from_timestamp(1_794_744_000 + days * 86_400, 0).unwrap();
        let before = league(at(0), std::iter::empty());
        let open = before["events"].as_array().unwrap().iter().filter(|event| event["status"] != "finished");
        let open: Vec<u32> = open.map(|event| event["id"].as_u64().unwrap().try_into().unwrap()).collect();
        let after = league(at(14), open.iter().copied());
        for id in open {
            let event = after["events"].as_array().unwrap().iter().find(|event| event["id"] == id).unwrap();
            assert_eq!(event["status"], "finished");
        }
    }

    #[test]
    fn a_match_keeps_its_teams_and_kick_off_from_one_day_to_the_next() {
        let at = |seconds: i64| DateTime::from_timestamp(1_794_744_000 + seconds, 0).unwrap();
        let (today, tomorrow) = (league(at(0), std::iter::empty()), league(at(86_400), std::iter::empty()));
        let find = |league: &Value, id: &Value| {
            league["events"].as_array().unwrap().iter().find(|event| event["id"] == *id).cloned().unwrap()
        };
        let id = today["events"][60]["id"].clone();
        for field in ["home_team_id", "away_team_id", "start_time", "tournament_id"] {
            assert_eq!(find(&today, &id)[field], find(&tomorrow, &id)[field]);
        }
    }
}
