use std::collections::HashMap;

use chrono::{DateTime, Utc};
use touchline::config::PicksVisible;
use touchline::domain::catalog::{Key, Kind, Match, Score, Status};
use touchline::domain::promotion::SHARDS;
use touchline::storage::StoreError;

use super::Import;
use super::ids::Ids;
use crate::document::{NewEvent, Reference};

/// The matches of a document, each with its name in reports.
pub struct Events {
    /// The matches that are stored already.
    pub known: Vec<(String, Match)>,
    /// The matches that need a chat room.
    pub new: Vec<(String, Match)>,
}

impl Import<'_> {
    /// Makes rows of the matches of a document. Rejects a match whose tournament or teams are unknown.
    pub async fn read_events(&mut self, ids: &Ids, events: Vec<NewEvent>) -> Result<Events, StoreError> {
        let rooms: HashMap<(u32, Key), Box<str>> =
            self.catalog.events().map(|event| ((event.id, event.key), event.room.clone())).collect();
        let mut rows = Vec::with_capacity(events.len());
        for new in events {
            let (id, key) = ids.of(Kind::Event, &new.reference);
            let Some(tournament) = self.find_tournament(ids, &new.tournament) else {
                let reason = format!("tournament {} is unknown", shown(&new.tournament));
                self.reject(new.label, reason);
                continue;
            };
            let (home, away) = (self.find_team(ids, &new.home), self.find_team(ids, &new.away));
            let (Some(home), Some(away)) = (home, away) else {
                let unknown = if home.is_none() { &new.home } else { &new.away };
                let reason = format!("team {} is unknown", shown(unknown));
                self.reject(new.label, reason);
                continue;
            };
            let row = Match {
                id,
                tournament_id: tournament.id,
                home_team_id: home.id,
                away_team_id: away.id,
                start: new.start,
                status: new.status,
                venue: new.venue.map(Into::into),
                score: new.score,
                room: rooms.get(&(id, key)).cloned().unwrap_or_default(),
                room_name_hash: 0,
                shards: if self.is_featured(tournament) { self.app.config.featured_shards } else { SHARDS },
                pause: None,
                revision: 0,
                key,
                as_of: new.as_of.map_or(self.as_of, |as_of| as_of.min(self.now)),
            };
            rows.push((new.label, row));
        }
        let rows = self.first_of_each_id(rows);
        let (known, new): (Vec<_>, Vec<_>) = rows.into_iter().partition(|(_, row)| !row.room.is_empty());
        // An import that crashed may have stored a match without publishing it.
        let new_ids: Vec<u32> = new.iter().map(|(_, row)| row.id).collect();
        let stored = self.app.store.catalog_rows::<Match>(&new_ids).await?;
        let (unpublished, new) = new.into_iter().partition(|(_, row)| stored.contains_key(&row.id));
        Ok(Events { known: [known, unpublished].concat(), new })
    }

    /// Writes matches. Each one has a room, here or in its stored row.
    pub async fn import_events(&mut self, events: Vec<(String, Match)>) -> Result<(), StoreError> {
        // A request may still see the old kick-off for a while, and show the picks then.
        let seen_until = self.now + self.app.config.old_catalog_is_used_for();
        let hides_picks = self.app.config.picks_visible != PicksVisible::Always;
        let rows = self
            .apply(events, |before, mut wanted: Match| {
                if let Some(before) = before {
                    // The stored predictions depend on the number of shards. Only a promotion changes it.
                    wanted.shards = before.shards;
                    wanted.pause = before.pause;
                    wanted.room = before.room.clone();
                    wanted.room_name_hash = before.room_name_hash;
                    let were_picks_shown = hides_picks && before.has_kicked_off(seen_until);
                    wanted.status = before.status_after(wanted.status, wanted.start, were_picks_shown);
                }
                let revised = Outcome::of(&wanted) != before.map_or(Outcome::Open, Outcome::of);
                wanted.revision = before.map_or(0, |before| before.revision) + u32::from(revised);
                wanted
            })
            .await?;
        self.rows.events.extend(rows);
        Ok(())
    }
}

/// Formats a reference for an error message: the id or name that the feed's document contains.
fn shown(reference: &Reference) -> String {
    match reference {
        Reference::Given(id) => id.to_string(),
        Reference::External(name) => name.clone(),
    }
}

/// The part of a match that determines the points of its predictions.
#[derive(PartialEq, Eq)]
enum Outcome {
    Open,
    /// The score, and the kick-off: predictions that were changed after it earn no points.
    Score(Option<Score>, DateTime<Utc>),
    Void,
}

impl Outcome {
    fn of(event: &Match) -> Self {
        match event.status {
            Status::Finished => Self::Score(event.score, event.start),
            status if status.is_void() => Self::Void,
            _ => Self::Open,
        }
    }
}
