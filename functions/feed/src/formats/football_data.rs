//! football-data.org, version 4: `{"matches": [...]}`.

use serde_json::Value;
use touchline::domain::catalog::Status;

use super::{integer, link, optional_text, rows, text, timestamp};
use crate::FeedError;
use crate::document::{Document, NewEvent, NewSport, NewTeam, NewTournament, Reference};

const FORMAT: &str = "football-data.org/v4";

pub fn read(document: &Value) -> Result<Document, FeedError> {
    if !document["matches"].is_array() {
        return Err(FeedError::WrongShape(FORMAT, "it has no list of matches".into()));
    }
    let mut read = Document { source: FORMAT.into(), ..Document::default() };
    let name = |at: usize, row: &Value| match row["id"].as_u64() {
        Some(id) => format!("match {id}"),
        None => format!("match at place {}", at + 1),
    };
    // A document of one competition names it once, above the matches.
    let shared = &document["competition"];
    let whole = rows(&document["matches"], &mut read.rejected, name, |row| {
        let competition = if row["competition"].is_object() { &row["competition"] } else { shared };
        let tournament = NewTournament {
            reference: external(competition)?,
            name: text(competition, "name")?,
            logo: link(competition, "emblem")?,
            featured: false,
        };
        let (home, away) = (team(&row["homeTeam"])?, team(&row["awayTeam"])?);
        let event = event(row, &tournament, &home, &away)?;
        Ok((tournament, home, away, event))
    });
    let football = NewSport { reference: sport(), name: "Football".into(), slug: Some("football".into()) };
    if !whole.is_empty() {
        read.sports.push(football);
    }
    for (tournament, home, away, event) in whole {
        if read.tournaments.iter().all(|known| known.reference != tournament.reference) {
            read.tournaments.push(tournament);
        }
        for team in [home, away] {
            if read.teams.iter().all(|known| known.reference != team.reference) {
                read.teams.push(team);
            }
        }
        read.events.push(event);
    }
    Ok(read)
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

fn team(row: &Value) -> Result<NewTeam, String> {
    // A place in a knock-out match whose team is not known yet has nulls.
    if row["id"].is_null() {
        return Err("its teams are not known yet".into());
    }
    Ok(NewTeam {
        reference: external(row)?,
        name: text(row, "name")?,
        slug: None,
        sport: sport(),
        logo: link(row, "crest")?,
        country: None,
        founded: None,
    })
}

fn event(
    row: &Value,
    tournament: &NewTournament,
    home: &NewTeam,
    away: &NewTeam,
) -> Result<NewEvent, String> {
    let start = text(row, "utcDate")?;
    let word = text(row, "status")?;
    let event = NewEvent {
        label: format!("match {}: {} - {}", row["id"], home.name, away.name),
        reference: external(row)?,
        tournament: tournament.reference.clone(),
        home: home.reference.clone(),
        away: away.reference.clone(),
        start: timestamp(&start).ok_or_else(|| format!("utcDate {start:?} is not a time that exists"))?,
        status: match word.as_str() {
            "SCHEDULED" | "TIMED" => Status::Scheduled,
            "POSTPONED" => Status::Postponed,
            // Suspended: stopped, and it is open whether it goes on. Live, as far as anybody can tell.
            "IN_PLAY" | "PAUSED" | "EXTRA_TIME" | "PENALTY_SHOOTOUT" | "SUSPENDED" => Status::Live,
            "FINISHED" => Status::Finished,
            "CANCELLED" => Status::Cancelled,
            "AWARDED" => Status::Awarded,
            other => return Err(format!("status {other:?} is not known")),
        },
        venue: optional_text(row, "venue")?,
        score: None,
        as_of: match optional_text(row, "lastUpdated")? {
            None => None,
            Some(text) => Some(
                timestamp(&text).ok_or_else(|| format!("lastUpdated {text:?} is not a time that exists"))?,
            ),
        },
    };
    let (home, away) = after_ninety_minutes(&row["score"])?;
    event.checked(home, away)
}

/// `fullTime` counts the goals of extra time and of the shoot-out too; where there was any, the result
/// after 90 minutes is `regularTime`.
fn after_ninety_minutes(score: &Value) -> Result<(Option<i64>, Option<i64>), String> {
    let part = |name: &str| -> Result<(Option<i64>, Option<i64>), String> {
        Ok((integer(&score[name], "home")?, integer(&score[name], "away")?))
    };
    match score["duration"].as_str() {
        None | Some("REGULAR") => part("fullTime"),
        Some("EXTRA_TIME" | "PENALTY_SHOOTOUT") => match part("regularTime")? {
            (Some(home), Some(away)) => Ok((Some(home), Some(away))),
            _ => Err("a match with extra time has no regularTime".into()),
        },
        Some(other) => Err(format!("duration {other:?} is not known")),
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
    fn words_map_to_ours() {
        let score = json!({ "duration": "REGULAR", "fullTime": { "home": 2, "away": 1 } });
        for (word, status) in [
            ("SCHEDULED", Status::Scheduled),
            ("TIMED", Status::Scheduled),
            ("POSTPONED", Status::Postponed),
            ("IN_PLAY", Status::Live),
            ("PAUSED", Status::Live),
            ("EXTRA_TIME", Status::Live),
            ("PENALTY_SHOOTOUT", Status::Live),
            ("SUSPENDED", Status::Live),
            ("FINISHED", Status::Finished),
            ("CANCELLED", Status::Cancelled),
            ("AWARDED", Status::Awarded),
        ] {
            assert_eq!(one(row(word, score.clone())).unwrap().status, status, "{word}");
        }
        assert!(one(row("LOST", score)).unwrap_err().contains("LOST"));
    }

    #[test]
    fn extra_time_and_penalties_do_not_count() {
        let score = json!({ "duration": "PENALTY_SHOOTOUT", "fullTime": { "home": 6, "away": 4 },
            "regularTime": { "home": 1, "away": 1 }, "extraTime": { "home": 1, "away": 1 },
            "penalties": { "home": 4, "away": 2 } });
        let event = one(row("FINISHED", score)).unwrap();
        assert_eq!(event.score.map(|score| (score.home, score.away)), Some((1, 1)));
        let without = json!({ "duration": "EXTRA_TIME", "fullTime": { "home": 2, "away": 1 } });
        assert!(one(row("FINISHED", without)).unwrap_err().contains("regularTime"));
    }

    #[test]
    fn places_without_teams_are_passed_over_with_a_reason() {
        let mut open = row("SCHEDULED", json!({}));
        open["homeTeam"] = json!({ "id": null, "name": null });
        assert!(one(open).unwrap_err().contains("not known yet"));
    }
}
