//! openfootball's `football.json`. It has local times and no ids.

use chrono::{DateTime, LocalResult, NaiveTime, TimeDelta, TimeZone as _, Utc};
use chrono_tz::Tz;
use serde_json::Value;
use touchline::domain::catalog::Status;
use touchline::domain::time::parse_date;

use super::fields::{optional_text, row_name, rows, text};
use crate::FeedError;
use crate::document::{Document, NewEvent, NewSport, NewTeam, NewTournament, Reference};

const FORMAT: &str = "openfootball";

pub fn read(document: &Value, timezone: Option<&str>) -> Result<Document, FeedError> {
    let timezone = timezone.ok_or_else(|| FeedError::UnknownTimeZone(String::new()))?;
    let timezone: Tz = timezone.parse().map_err(|_| FeedError::UnknownTimeZone(timezone.to_owned()))?;
    let league = text(document, "name").map_err(|reason| FeedError::WrongShape(FORMAT, reason))?;
    if !document["matches"].is_array() {
        return Err(FeedError::WrongShape(FORMAT, "it has no list of matches".into()));
    }
    let mut read = Document { source: FORMAT.into(), ..Document::default() };
    let name = |at: usize, row: &Value| match (row["team1"].as_str(), row["team2"].as_str()) {
        (Some(home), Some(away)) => format!("{home} - {away}"),
        _ => row_name("match", at, row),
    };
    let events = rows(&document["matches"], &mut read.rejected, name, |row| event(row, &league, timezone));
    read.sports.push(NewSport {
        reference: Reference::External("football".into()),
        name: "Football".into(),
        slug: Some("football".into()),
    });
    read.tournaments.push(NewTournament {
        reference: Reference::External(league.clone()),
        name: league,
        logo: None,
        featured: false,
    });
    for event in &events {
        for reference in [&event.home, &event.away] {
            let Reference::External(name) = reference else { continue };
            if read.teams.iter().all(|team| team.reference != *reference) {
                read.teams.push(NewTeam {
                    reference: reference.clone(),
                    name: name.clone(),
                    slug: None,
                    sport: Reference::External("football".into()),
                    logo: None,
                    country: None,
                    league_country: None,
                    founded: None,
                    venue: None,
                    short_name: None,
                });
            }
        }
    }
    read.events = events;
    Ok(read)
}

fn event(row: &Value, league: &str, timezone: Tz) -> Result<NewEvent, String> {
    let (home, away) = (text(row, "team1")?, text(row, "team2")?);
    let round = optional_text(row, "round")?.unwrap_or_default();
    let (first, second) = after_ninety_minutes(row)?;
    let status = match optional_text(row, "status")?.as_deref().map(str::to_ascii_uppercase).as_deref() {
        None if first.is_some() => Status::Finished,
        None | Some("SCHEDULED") => Status::Scheduled,
        Some("FINISHED") => Status::Finished,
        Some("POSTPONED") => Status::Postponed,
        Some("CANCELED" | "CANCELLED") => Status::Cancelled,
        Some("ABANDONED") => Status::Abandoned,
        Some("AWARDED") => Status::Awarded,
        Some(other) => return Err(format!("status {other:?} is unknown")),
    };
    let event = NewEvent {
        label: format!("{home} - {away}"),
        // The reference does not contain the date, so a match keeps its id when its date changes.
        reference: Reference::External(format!("{league}|{round}|{home}|{away}")),
        tournament: Reference::External(league.to_owned()),
        home: Reference::External(home),
        away: Reference::External(away),
        start: start(row, timezone)?,
        status,
        venue: optional_text(row, "ground")?,
        score: None,
        as_of: None,
    };
    event.checked(first, second)
}

/// Returns the score after 90 minutes: `ft`, which is without extra time (`et`) and penalties (`p`). Older
/// files have `score1` and `score2` instead.
fn after_ninety_minutes(row: &Value) -> Result<(Option<i64>, Option<i64>), String> {
    let goals = |value: &Value| match value {
        Value::Null => Ok(None),
        value => value.as_i64().map(Some).ok_or_else(|| "a score must be an integer".to_owned()),
    };
    match &row["score"]["ft"] {
        Value::Null => Ok((goals(&row["score1"])?, goals(&row["score2"])?)),
        Value::Array(sides) if sides.len() == 2 => Ok((goals(&sides[0])?, goals(&sides[1])?)),
        _ => Err("score.ft must have two numbers".into()),
    }
}

/// Returns the kick-off, which is when predictions close. A match without a time starts at the beginning of
/// its day, so that predictions do not close too late.
fn start(row: &Value, timezone: Tz) -> Result<DateTime<Utc>, String> {
    let (date, time) = (text(row, "date")?, optional_text(row, "time")?);
    let day = parse_date(&date).map_err(|reason| format!("date {date:?} {reason}"))?;
    let Some(time) = time else {
        // In some time zones the clocks go forward at midnight. The day then begins at the first half hour that
        // exists.
        let mut moments =
            (0..24).map(|half_hours| day.and_time(NaiveTime::MIN) + TimeDelta::minutes(30 * half_hours));
        let first = moments.find_map(|moment| timezone.from_local_datetime(&moment).earliest());
        return first.map(|at| at.to_utc()).ok_or_else(|| format!("{date} does not exist in {timezone}"));
    };
    let at =
        NaiveTime::parse_from_str(&time, "%H:%M").map_err(|_| format!("time {time:?} does not exist"))?;
    match timezone.from_local_datetime(&day.and_time(at)) {
        // When the clocks go back, a time occurs twice: take the earlier one.
        LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => Ok(at.to_utc()),
        LocalResult::None => Err(format!("{date} {time} does not exist in {timezone}")),
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "JSON reads best where it is used")]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(row: Value) -> Result<NewEvent, String> {
        let document = json!({ "name": "League 2026/27", "matches": [row] });
        let read = read(&document, Some("Europe/London")).unwrap();
        match read.events.into_iter().next() {
            Some(event) => Ok(event),
            None => Err(read.rejected[0].reason.clone()),
        }
    }

    #[test]
    fn local_times_follow_daylight_saving() {
        let start = |date: &str, time: &str| {
            one(json!({ "date": date, "time": time, "team1": "A", "team2": "B" }))
                .map(|event| event.start.to_rfc3339())
        };
        assert_eq!(start("2026-08-15", "15:00").unwrap(), "2026-08-15T14:00:00+00:00");
        assert_eq!(start("2026-12-15", "15:00").unwrap(), "2026-12-15T15:00:00+00:00");
        assert_eq!(start("2026-10-25", "01:30").unwrap(), "2026-10-25T00:30:00+00:00", "the earlier 01:30");
        assert!(start("2026-03-29", "01:30").unwrap_err().contains("does not exist"), "a skipped time");
        assert!(start("2026-02-30", "15:00").is_err());
        assert!(start("2026-02-20", "25:00").is_err());
        assert!(start("-0001-01-01", "15:00").is_err());
        assert!(start("0001-01-01", "15:00").unwrap_err().contains("year"));
    }

    #[test]
    fn a_match_without_a_time_starts_at_the_beginning_of_its_day_even_if_midnight_is_skipped() {
        let document =
            json!({ "name": "Liga", "matches": [{ "date": "2026-09-06", "team1": "A", "team2": "B" }] });
        let read = read(&document, Some("America/Santiago")).unwrap();
        assert_eq!(read.events[0].start.to_rfc3339(), "2026-09-06T04:00:00+00:00");
    }

    #[test]
    fn the_result_is_the_score_after_ninety_minutes() {
        let row = json!({ "date": "2026-08-15", "team1": "A", "team2": "B",
            "score": { "ht": [0, 0], "ft": [1, 1], "et": [2, 1], "p": [4, 2] } });
        let event = one(row).unwrap();
        assert_eq!(event.status, Status::Finished);
        assert_eq!(event.score.map(|score| (score.home, score.away)), Some((1, 1)));
    }

    #[test]
    fn invalid_rows_are_rejected_with_a_reason() {
        for (row, word) in [
            (json!({ "date": "2026-08-15", "team1": "A", "team2": "A" }), "itself"),
            (
                json!({ "date": "2026-08-15", "team1": "A", "team2": "B", "score": { "ft": [-1, 0] } }),
                "out of range",
            ),
            (
                json!({ "date": "2026-08-15", "team1": "A", "team2": "B", "score": { "ft": [1] } }),
                "two numbers",
            ),
            (json!({ "date": "2026-08-15", "team1": "A", "team2": "B", "status": "MAYBE" }), "MAYBE"),
            (json!({ "date": "2026-08-15", "team1": "A", "team2": "B", "status": "FINISHED" }), "score"),
            (json!({ "date": "2026-08-15", "team1": "A" }), "team2"),
            (json!(7), "team1"),
        ] {
            let reason = one(row).unwrap_err();
            assert!(reason.contains(word), "{reason}");
        }
    }
}
