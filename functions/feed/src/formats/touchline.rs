//! Our own format. Its documents use our own ids.

use serde_json::Value;
use touchline::domain::catalog::Status;

use super::fields::{integer, link, optional_text, row_name, rows, text, timestamp, year};
use crate::FeedError;
use crate::document::{Document, NewEvent, NewSport, NewTeam, NewTournament, OWN_SOURCE, Reference};

pub fn read(event: &Value) -> Result<Document, FeedError> {
    for list in ["sports", "teams", "tournaments", "events"] {
        if !event[list].is_null() && !event[list].is_array() {
            return Err(FeedError::WrongShape("touchline", format!("{list} must be a list")));
        }
    }
    let mut document = Document { source: OWN_SOURCE.into(), ..Document::default() };
    let rejected = &mut document.rejected;
    let name = |kind: &'static str| move |at: usize, row: &Value| row_name(kind, at, row);
    document.sports = rows(&event["sports"], rejected, name("sport"), |row| {
        Ok(NewSport {
            reference: id(row, "id")?,
            name: text(row, "name")?,
            slug: optional_text(row, "slug")?,
        })
    });
    document.teams = rows(&event["teams"], rejected, name("team"), read_team);
    document.tournaments = rows(&event["tournaments"], rejected, name("tournament"), |row| {
        Ok(NewTournament {
            reference: id(row, "id")?,
            name: text(row, "name")?,
            logo: link(row, "logo")?,
            featured: row["featured"].as_bool().unwrap_or(false),
        })
    });
    document.events = rows(&event["events"], rejected, name("event"), read_event);
    Ok(document)
}

fn read_team(row: &Value) -> Result<NewTeam, String> {
    let founded = integer(row, "founded")?;
    Ok(NewTeam {
        reference: id(row, "id")?,
        name: text(row, "name")?,
        slug: optional_text(row, "slug")?,
        sport: id(row, "sport_id")?,
        logo: link(row, "logo")?,
        country: optional_text(row, "country")?,
        league_country: None,
        founded: founded.map(|number| year(number).ok_or("founded must be a year")).transpose()?,
        venue: optional_text(row, "venue")?,
        short_name: optional_text(row, "short_name")?,
    })
}

fn read_event(row: &Value) -> Result<NewEvent, String> {
    let reference = id(row, "id")?;
    let start = text(row, "start_time")?;
    let status = text(row, "status")?;
    let event = NewEvent {
        label: format!("event {}", row["id"]),
        reference,
        tournament: id(row, "tournament_id")?,
        home: id(row, "home_team_id")?,
        away: id(row, "away_team_id")?,
        start: timestamp(&start).ok_or_else(|| format!("start_time {start:?} is not a valid timestamp"))?,
        status: match status.as_str() {
            "scheduled" => Status::Scheduled,
            "postponed" => Status::Postponed,
            "live" => Status::Live,
            "suspended" => Status::Suspended,
            "finished" => Status::Finished,
            "cancelled" => Status::Cancelled,
            "abandoned" => Status::Abandoned,
            "awarded" => Status::Awarded,
            other => return Err(format!("status {other:?} is unknown")),
        },
        venue: optional_text(row, "venue")?,
        score: None,
        as_of: None,
    };
    event.checked(integer(row, "home_score")?, integer(row, "away_score")?)
}

fn id(row: &Value, field: &str) -> Result<Reference, String> {
    // Reject ids above `i32::MAX`, because client apps read ids as signed 32-bit integers.
    match integer(row, field)?.map(i32::try_from) {
        Some(Ok(id)) if id > 0 => Ok(Reference::Given(id.unsigned_abs())),
        None => Err(format!("{field} is missing")),
        _ => Err(format!("{field} must be a positive 32-bit integer")),
    }
}
