use std::collections::HashMap;

use touchline::domain::catalog::{Key, Kind, Match, Score, Status};
use touchline::domain::{Room, RoomId};
use touchline::storage::StoreError;

use super::Import;
use super::ids::Ids;
use crate::document::{NewEvent, Reference};

/// Shards of a featured match: 64,000 predictions a second.
const FEATURED_SHARDS: u8 = 64;

/// Shards of any other match: 4,000 predictions a second.
const SHARDS: u8 = 4;

impl Import<'_> {
    pub async fn import_events(&mut self, ids: &Ids, events: Vec<NewEvent>) -> Result<(), StoreError> {
        let rooms: HashMap<(u32, Key), Box<str>> =
            self.catalog.events().map(|event| ((event.id, event.key), event.room.clone())).collect();
        let mut wanted = Vec::with_capacity(events.len());
        for new in events {
            let (id, key) = ids.of(Kind::Event, &new.reference);
            let tournament =
                self.find_tournament(ids, &new.tournament).map(|found| (found.id, found.featured));
            let Some((tournament_id, featured)) = tournament else {
                self.reject(new.label, format!("tournament {} is unknown", shown(&new.tournament)));
                continue;
            };
            let team = |reference| self.find_team(ids, reference).map(|team| team.id);
            let (home, away) = (team(&new.home), team(&new.away));
            let (Some(home_team_id), Some(away_team_id)) = (home, away) else {
                let unknown = if home.is_none() { &new.home } else { &new.away };
                self.reject(new.label, format!("team {} is unknown", shown(unknown)));
                continue;
            };
            let shards = if featured { FEATURED_SHARDS } else { SHARDS };
            let room = match rooms.get(&(id, key)) {
                Some(room) => room.clone(),
                // Idempotent: a retry gets the same room.
                None => match self.app.chat.match_room(id, &new.label).await {
                    Ok(room) => {
                        let room_id = room.as_str().into();
                        self.put_room(room, &new.label, id, shards).await?;
                        room_id
                    }
                    Err(error) => {
                        let reason = format!("its chat room could not be created ({error}); import again");
                        self.reject(new.label, reason);
                        continue;
                    }
                },
            };
            let row = Match {
                id,
                tournament_id,
                home_team_id,
                away_team_id,
                start: new.start,
                status: new.status,
                venue: new.venue.map(Into::into),
                score: new.score,
                room,
                shards,
                revision: 0,
                key,
                as_of: new.as_of.map_or(self.as_of, |as_of| as_of.min(self.now)),
            };
            wanted.push((new.label, row));
        }
        self.rows.events = self
            .apply(wanted, |before, mut wanted: Match| {
                if let Some(before) = before {
                    wanted.shards = before.shards;
                    wanted.room = before.room.clone();
                }
                let revised = Outcome::of(&wanted) != before.map_or(Outcome::Open, Outcome::of);
                wanted.revision = before.map_or(0, |before| before.revision) + u32::from(revised);
                wanted
            })
            .await?;
        Ok(())
    }

    /// Stores a match's room in our table. An existing item stays as it is.
    async fn put_room(&self, id: RoomId, name: &str, event: u32, shards: u8) -> Result<(), StoreError> {
        let room = Room {
            room_id: id,
            name: name.to_owned(),
            topic: String::new(),
            event_id: Some(event),
            creator_id: None,
            is_private: false,
            shards,
            created_at: self.now,
            last_activity: self.now,
        };
        self.app.store.put_room(&room).await
    }
}

/// A reference as the document writes it.
fn shown(reference: &Reference) -> String {
    match reference {
        Reference::Given(id) => id.to_string(),
        Reference::External(name) => name.clone(),
    }
}

/// The part of a match that points depend on.
#[derive(PartialEq, Eq)]
enum Outcome {
    Open,
    Score(Option<Score>),
    Void,
}

impl Outcome {
    fn of(event: &Match) -> Self {
        match event.status {
            Status::Finished => Self::Score(event.score),
            status if status.is_void() => Self::Void,
            _ => Self::Open,
        }
    }
}
