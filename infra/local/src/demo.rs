//! The demo league: invented teams, with finished, live and scheduled matches at any time, so that there is always a
//! match to see and to predict.

use std::collections::BTreeSet;

use chrono::{DateTime, Days, NaiveDate, NaiveTime, SecondsFormat, TimeDelta, Utc};
use serde_json::{Value, json};
use touchline::domain::catalog::{Match, ShownStatus};

struct League {
    sport: &'static str,
    tournament: &'static str,
    featured: bool,
    /// Name, country, founding year and home ground.
    teams: [(&'static str, &'static str, i32, &'static str); 8],
}

const LEAGUES: [League; 3] = [
    League {
        sport: "Football",
        tournament: "Harbour Premier",
        featured: true,
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
        sport: "Basketball",
        tournament: "Skyline League",
        featured: false,
        teams: [
            ("Lakeside Herons", "Columbia", 1949, "Boathouse Arena"),
            ("Canyon Foxes", "Columbia", 1967, "Red Rock Center"),
            ("Bay Lanterns", "Columbia", 1971, "Pier 9 Arena"),
            ("Granite Owls", "Columbia", 1958, "Quarry Hall"),
            ("Prairie Comets", "Columbia", 1976, "Grain Exchange Arena"),
            ("Delta Pilots", "Columbia", 1988, "Levee Center"),
            ("Harbour Kings", "Columbia", 1946, "Drydock Garden"),
            ("Summit Wolves", "Columbia", 1995, "Treeline Arena"),
        ],
    },
    League {
        sport: "Handball",
        tournament: "Northern Cup",
        featured: false,
        teams: [
            ("Fjordvik HK", "Norra", 1934, "Fjordhallen"),
            ("Aalhavn SK", "Dania", 1928, "Havnehallen"),
            ("Vargøy IL", "Norra", 1946, "Fyrhuset"),
            ("Strandby IF", "Dania", 1951, "Strandby Hallen"),
            ("Husum-Nord", "Teuta", 1919, "Deichhalle"),
            ("Reykjanes", "Thule", 1940, "Hraunhöllin"),
            ("Ísafold", "Thule", 1955, "Jökulhöllin"),
            ("Kalmarsund", "Sverra", 1937, "Sundhallen"),
        ],
    },
];

/// A match kicks off every two hours and ends when the next match kicks off.
const MATCHES_PER_DAY: i64 = 12;
pub(crate) const LENGTH: TimeDelta = TimeDelta::hours(2);

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
    let (mut sports, mut tournaments, mut teams) = (Vec::new(), Vec::new(), Vec::new());
    for (league, League { sport, tournament, featured, teams: members }) in (1..).zip(LEAGUES) {
        sports.push(json!({ "id": ID_OFFSET + league, "name": sport, "slug": sport.to_lowercase() }));
        tournaments.push(json!({ "id": ID_OFFSET + league, "name": tournament, "featured": featured }));
        for (member, (name, country, founded, venue)) in (1..).zip(members) {
            teams.push(json!({
                "id": ID_OFFSET + (league - 1) * 8 + member, "name": name, "sport_id": ID_OFFSET + league, "country": country,
                "founded": founded, "venue": venue,
            }));
        }
    }
    json!({
        "format": "touchline",
        "sports": sports,
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
    (first..first + MATCHES_PER_DAY).filter(|number| number % 3 == 0)
}

/// Returns the id of a match.
pub(crate) fn id(number: i64) -> u32 {
    u32::try_from(ID_OFFSET + number + 1).unwrap_or_default()
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

fn event(number: i64, now: DateTime<Utc>) -> Value {
    // Consecutive matches belong to different leagues. Within a league, the eight teams take turns to play
    // at home, and a team's next home match has a different opponent.
    let league = number % 3;
    let round = number / 3;
    let home = round.rem_euclid(8);
    let away = (home + 1 + (round / 8).rem_euclid(7)).rem_euclid(8);
    let start = kick_off(number);
    let status = match now - start {
        age if age < TimeDelta::zero() => "scheduled",
        age if age < LENGTH => "live",
        _ => "finished",
    };
    // The score is derived from the match number and lies in the typical range of the sport.
    let score = |salt: i64| {
        let draw = (number * 7_919 + salt * 104_729).rem_euclid(101);
        match league {
            0 => draw % 4,
            1 => 70 + draw % 45,
            _ => 20 + draw % 15,
        }
    };
    let scores = (status != "scheduled").then(|| (score(1), score(2)));
    json!({
        "id": ID_OFFSET + number + 1,
        "tournament_id": ID_OFFSET + league + 1,
        "home_team_id": ID_OFFSET + league * 8 + home + 1,
        "away_team_id": ID_OFFSET + league * 8 + away + 1,
        "start_time": start.to_rfc3339_opts(SecondsFormat::Secs, true),
        "status": status,
        "home_score": scores.map(|(home, _)| home),
        "away_score": scores.map(|(_, away)| away),
    })
}

#[cfg(test)]
mod tests {
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
            for event in events {
                assert_ne!(event["home_team_id"], event["away_team_id"]);
            }
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
