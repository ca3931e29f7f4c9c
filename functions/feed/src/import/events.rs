use std::collections::HashMap;

use chrono::{DateTime, Utc};
use touchline::domain::catalog::{Key, Kind, Match, Score, Status, match_room_name, room_name_hash};
use touchline::domain::promotion::{FEATURED_SHARDS, SHARDS};
use touchline::domain::{Room, RoomId};
use touchline::ports::chat::ChatError;
use touchline::storage::StoreError;

use super::Import;
use super::ids::Ids;
use crate::document::{NewEvent, Reference};

impl Import<'_> {
    /// Writes the matches, and creates a chat room for each new match. A match whose room cannot be created
    /// is rejected, and a later import creates the match and its room.
    pub async fn import_events(&mut self, ids: &Ids, events: Vec<NewEvent>) -> Result<(), StoreError> {
        let rooms: HashMap<(u32, Key), Box<str>> =
            self.catalog.events().map(|event| ((event.id, event.key), event.room.clone())).collect();
        let mut wanted = Vec::with_capacity(events.len());
        let mut chat_error = None;
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
            let mut row = Match {
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
                shards: if self.is_featured(tournament) { FEATURED_SHARDS } else { SHARDS },
                pause: None,
                revision: 0,
                key,
                as_of: new.as_of.map_or(self.as_of, |as_of| as_of.min(self.now)),
            };
            if row.room.is_empty() {
                let name = match_room_name(home, away);
                // Once a call fails because the homeserver is unavailable, the import makes no further calls.
                // Otherwise a homeserver that hangs would cost two seconds for each match.
                let room = match chat_error.clone() {
                    None => self.app.chat.match_room(id, &name).await,
                    Some(error) => Err(error),
                };
                match room {
                    Ok(room) => self.put_room(room, name, &mut row).await?,
                    Err(error) => {
                        let reason = format!("its chat room could not be created ({error}); import again");
                        self.reject(new.label, reason);
                        if matches!(error, ChatError::Unavailable(_)) {
                            chat_error = Some(error);
                        }
                        continue;
                    }
                }
            }
            wanted.push((new.label, row));
        }
        self.rows.events = self
            .apply(wanted, |before, mut wanted: Match| {
                if let Some(before) = before {
                    // The stored predictions depend on the number of shards. Only a promotion changes it.
                    wanted.shards = before.shards;
                    wanted.pause = before.pause;
                    wanted.room = before.room.clone();
                    wanted.room_name_hash = before.room_name_hash;
                    wanted.status = before.status.after(wanted.status);
                }
                let revised = Outcome::of(&wanted) != before.map_or(Outcome::Open, Outcome::of);
                wanted.revision = before.map_or(0, |before| before.revision) + u32::from(revised);
                wanted
            })
            .await?;
        Ok(())
    }

    /// Stores the room of a new match, and sets the room's id and the hash of its name in `row`.
    async fn put_room(&self, id: RoomId, name: String, row: &mut Match) -> Result<(), StoreError> {
        let hash = room_name_hash(&name);
        let room = Room {
            room_id: id,
            name,
            topic: String::new(),
            event_id: Some(row.id),
            creator_id: None,
            is_private: false,
            shards: row.shards,
            created_at: self.now,
            last_activity: self.now,
        };
        row.room = room.room_id.as_str().into();
        // An earlier import may have stored the room under another name and then crashed. In this case the
        // hash stays 0, so that `rename_rooms` sets the current name.
        if self.app.store.put_room(&room).await? {
            row.room_name_hash = hash;
        }
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
