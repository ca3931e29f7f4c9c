//! football-data.org, version 4: lists of matches, and lists of teams with their details.

use serde_json::Value;
use touchline::domain::catalog::Status;

use super::fields::{integer, link, optional_text, row_name, rows, text, timestamp, year};
use crate::FeedError;
use crate::document::{Document, NewEvent, NewSport, NewTeam, NewTournament, Reference};

const FORMAT: &str = "football-data.org/v4";

/// Areas that are not countries. A competition between teams of several countries has such an area.
const CONTINENTS: [&str; 7] =
    ["World", "Africa", "Asia", "Europe", "N/C America", "Oceania", "South America"];

pub fn read(document: &Value) -> Result<Document, FeedError> {
    if !document["matches"].is_array() && !document["teams"].is_array() {
        return Err(FeedError::WrongShape(FORMAT, "it has no list of matches or teams".into()));
    }
    let mut read = Document { source: FORMAT.into(), ..Document::default() };
    let name = |kind: &'static str| move |at: usize, row: &Value| row_name(kind, at, row);
    let mut teams = rows(&document["teams"], &mut read.rejected, name("team"), |row| team(row, None));
    // A document about one competition names the competition once, beside the list of matches.
    let shared = &document["competition"];
    let matches = rows(&document["matches"], &mut read.rejected, name("match"), |row| {
        let competition = if row["competition"].is_object() { &row["competition"] } else { shared };
        let tournament = NewTournament {
            reference: external(competition)?,
            name: text(competition, "name")?,
            logo: link(competition, "emblem")?,
            featured: false,
        };
        let country = country(&row["area"])?.or(country(&competition["area"])?);
        let home = team(&row["homeTeam"], country.as_ref())?;
        let away = team(&row["awayTeam"], country.as_ref())?;
        let event = event(row, &tournament, &home, &away)?;
        Ok((tournament, home, away, event))
    });
    for (tournament, home, away, event) in matches {
        if read.tournaments.iter().all(|known| known.reference != tournament.reference) {
            read.tournaments.push(tournament);
        }
        teams.extend([home, away]);
        read.events.push(event);
    }
    for team in teams {
        match read.teams.iter_mut().find(|known| known.reference == team.reference) {
            Some(known) => add_details(known, team),
            None => read.teams.push(team),
        }
    }
    if !read.teams.is_empty() {
        let football =
            NewSport { reference: sport(), name: "Football".into(), slug: Some("football".into()) };
        read.sports.push(football);
    }
    Ok(read)
}

/// Adds the details that `known` lacks. A document can mention a team several times, with different details.
fn add_details(known: &mut NewTeam, other: NewTeam) {
    known.logo = known.logo.take().or(other.logo);
    known.country = known.country.take().or(other.country);
    known.league_country = known.league_country.take().or(other.league_country);
    known.founded = known.founded.or(other.founded);
    known.venue = known.venue.take().or(other.venue);
    known.short_name = known.short_name.take().or(other.short_name);
}

fn sport() -> Reference {
    Reference::External("football".into())
}

fn external(row: &Value) -> Result<Reference, String> {
    match row["id"].as_u64() {
        Some(id) => Ok(Reference::External(id.to_string())),
        None => Err("a team, competition or match has no id".into()),
    }
}

/// Returns the name of an area, or `None` if the area is missing or is not a country.
fn country(area: &Value) -> Result<Option<String>, String> {
    let name = optional_text(area, "name").map_err(|reason| format!("area: {reason}"))?;
    Ok(name.filter(|name| !CONTINENTS.contains(&name.as_str())))
}

fn team(row: &Value, league_country: Option<&String>) -> Result<NewTeam, String> {
    // In a knock-out match, the id of a team is null until the team is decided.
    if row["id"].is_null() {
        return Err("a team is not known yet: it has no id".into());
    }
    Ok(NewTeam {
        reference: external(row)?,
        name: text(row, "name")?,
        slug: None,
        sport: sport(),
        logo: link(row, "crest")?,
        country: optional_text(&row["area"], "name").map_err(|reason| format!("area: {reason}"))?,
        league_country: league_country.cloned(),
        founded: integer(row, "founded")?.and_then(year),
        venue: optional_text(row, "venue")?,
        short_name: optional_text(row, "shortName")?,
    })
}

fn event(
    row: &Value,
    tournament: &NewTournament,
    home: &NewTeam,
    away: &NewTeam,
) -> Result<NewEvent, String> {
    let start = text(row, "utcDate")?;
    let status = text(row, "status")?;
    let event = NewEvent {
        label: format!("match {}: {} - {}", row["id"], home.name, away.name),
        reference: external(row)?,
        tournament: tournament.reference.clone(),
        home: home.reference.clone(),
        away: away.reference.clone(),
        start: timestamp(&start).ok_or_else(|| format!("utcDate {start:?} is not a valid timestamp"))?,
        status: match status.as_str() {
            "SCHEDULED" | "TIMED" => Status::Scheduled,
            "POSTPONED" => Status::Postponed,
            "IN_PLAY" | "PAUSED" | "EXTRA_TIME" | "PENALTY_SHOOTOUT" => Status::Live,
            "SUSPENDED" => Status::Suspended,
            "FINISHED" => Status::Finished,
            "CANCELLED" => Status::Cancelled,
            "AWARDED" => Status::Awarded,
            other => return Err(format!("status {other:?} is unknown")),
        },
        venue: optional_text(row, "venue")?,
        score: None,
        as_of: match optional_text(row, "lastUpdated")? {
            None => None,
            Some(text) => {
                let invalid = || format!("lastUpdated {text:?} is not a valid timestamp");
                Some(timestamp(&text).ok_or_else(invalid)?)
            }
        },
    };
    let (home, away) = after_ninety_minutes(&row["score"])?;
    event.checked(home, away)
}

/// Returns the score after 90 minutes. `fullTime` includes extra time and penalties. A match with extra time
/// or penalties has the score after 90 minutes in `regularTime`.
fn after_ninety_minutes(score: &Value) -> Result<(Option<i64>, Option<i64>), String> {
    let part = |name: &str| -> Result<(Option<i64>, Option<i64>), String> {
        Ok((integer(&score[name], "home")?, integer(&score[name], "away")?))
    };
    match score["duration"].as_str() {
        None | Some("REGULAR") => part("fullTime"),
        Some("EXTRA_TIME" | "PENALTY_SHOOTOUT") => match part("regularTime")? {
            (Some(home), Some(away)) => Ok((Some(home), Some(away))),
            _ => Err("a match that went beyond 90 minutes has no regularTime".into()),
        },
        Some(other) => Err(format!("duration {other:?} is unknown")),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "JSON reads best where it is used")]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(status: &str, score: Value) -> Value {
        json!({
            "id": 1, "utcDate": "2026-11-15T15:00:00Z", "status": status, "lastUpdated": "2026-11-15T16:00:00Z",
            "competition": { "id": 2021, "name": "Premier League" },
            "homeTeam": { "id": 57, "name": "Home", "crest": "https://example.org/57.png" },
            "awayTeam": { "id": 58, "name": "Away" },
            "score": score,
        })
    }

    fn one(row: Value) -> Result<NewEvent, String> {
        let read = read(&json!({ "matches": [row] })).unwrap();
        match read.events.into_iter().next() {
            Some(event) => Ok(event),
            None => Err(read.rejected[0].reason.clone()),
        }
    }

    #[test]
    fn every_known_status_is_mapped_and_an_unknown_status_is_rejected() {
        let score = json!({ "duration": "REGULAR", "fullTime": { "home": 2, "away": 1 } });
        for (word, status) in [
            ("SCHEDULED", Status::Scheduled),
            ("TIMED", Status::Scheduled),
            ("POSTPONED", Status::Postponed),
            ("IN_PLAY", Status::Live),
            ("PAUSED", Status::Live),
            ("EXTRA_TIME", Status::Live),
            ("PENALTY_SHOOTOUT", Status::Live),
            ("SUSPENDED", Status::Suspended),
            ("FINISHED", Status::Finished),
            ("CANCELLED", Status::Cancelled),
            ("AWARDED", Status::Awarded),
        ] {
            assert_eq!(one(row(word, score.clone())).unwrap().status, status, "{word}");
        }
        assert!(one(row("LOST", score)).unwrap_err().contains("LOST"));
    }

    #[test]
    fn goals_in_extra_time_and_in_penalty_shootouts_do_not_count() {
        let score = json!({ "duration": "PENALTY_SHOOTOUT", "fullTime": { "home": 6, "away": 4 },
            "regularTime": { "home": 1, "away": 1 }, "extraTime": { "home": 1, "away": 1 },
            "penalties": { "home": 4, "away": 2 } });
        let event = one(row("FINISHED", score)).unwrap();
        assert_eq!(event.score.map(|score| (score.home, score.away)), Some((1, 1)));
        let without = json!({ "duration": "EXTRA_TIME", "fullTime": { "home": 2, "away": 1 } });
        assert!(one(row("FINISHED", without)).unwrap_err().contains("regularTime"));
    }

    #[test]
    fn a_match_whose_teams_are_not_known_yet_is_rejected_with_that_reason() {
        let mut open = row("SCHEDULED", json!({}));
        open["homeTeam"] = json!({ "id": null, "name": null });
        assert!(one(open).unwrap_err().contains("not known yet"));
    }

    #[test]
    fn the_details_of_teams_are_read_from_the_list_of_teams() {
        let document = json!({ "teams": [
            { "id": 57, "name": "Home", "shortName": "Hom", "area": { "id": 2072, "name": "Albion", "code": "ALB" }, "founded": 1886,
              "venue": "The Quay", "crest": "https://example.org/57.png" },
            { "id": 58, "name": "Away", "area": null, "founded": null, "venue": null },
            { "id": 59, "name": "Newer", "founded": 0 },
            { "name": "Without an id" },
        ] });
        let read = read(&document).unwrap();
        let details: Vec<_> = read
            .teams
            .iter()
            .map(|team| (team.name.as_str(), team.country.as_deref(), team.founded, team.venue.as_deref()))
            .collect();
        assert_eq!(
            details,
            [
                ("Home", Some("Albion"), Some(1886), Some("The Quay")),
                ("Away", None, None, None),
                ("Newer", None, None, None)
            ]
        );
        assert_eq!((read.rejected.len(), read.sports.len(), read.events.len()), (1, 1, 0));
        let short_names: Vec<_> = read.teams.iter().map(|team| team.short_name.as_deref()).collect();
        assert_eq!(short_names, [Some("Hom"), None, None]);
    }

    #[test]
    fn the_country_of_a_team_and_the_country_of_its_league_are_read_separately() {
        let mut first = row("SCHEDULED", json!({}));
        first["area"] = json!({ "id": 2072, "name": "Albion", "code": "ALB" });
        first["awayTeam"]["area"] = json!({ "name": "Cambria" });
        let read = super::read(&json!({ "matches": [first] })).unwrap();
        let countries: Vec<_> =
            read.teams.iter().map(|team| (team.country.as_deref(), team.league_country.as_deref())).collect();
        assert_eq!(countries, [(None, Some("Albion")), (Some("Cambria"), Some("Albion"))]);

        let mut within_the_competition = row("SCHEDULED", json!({}));
        within_the_competition["competition"]["area"] = json!({ "name": "Albion" });
        let read = super::read(&json!({ "matches": [within_the_competition] })).unwrap();
        assert_eq!(read.teams[0].league_country.as_deref(), Some("Albion"));
    }

    #[test]
    fn teams_in_an_international_competition_get_no_league_country() {
        for continent in ["Europe", "World", "South America"] {
            let mut cup = row("SCHEDULED", json!({}));
            cup["area"] = json!({ "name": continent });
            let read = read(&json!({ "matches": [cup] })).unwrap();
            assert_eq!(read.teams[0].league_country, None, "{continent}");
        }
    }

    #[test]
    fn details_of_a_team_are_collected_from_the_whole_document() {
        let mut first = row("SCHEDULED", json!({}));
        first["homeTeam"] = json!({ "id": 57, "name": "Home" });
        let read = read(&json!({
            "teams": [{ "id": 57, "name": "Home", "venue": "The Quay" }],
            "matches": [first, row("TIMED", json!({}))],
        }));
        let teams = read.unwrap().teams;
        assert_eq!(teams.len(), 2);
        assert_eq!(teams[0].venue.as_deref(), Some("The Quay"));
        assert_eq!(teams[0].logo.as_deref(), Some("https://example.org/57.png"));
    }
}
