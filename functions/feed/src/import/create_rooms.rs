use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use touchline::domain::catalog::{Match, match_room_name, room_name_hash};
use touchline::domain::promotion::FEATURED_SHARDS;
use touchline::domain::{Room, RoomId};
use touchline::ports::chat::ChatError;
use touchline::storage::StoreError;

use super::Import;

/// The maximum number of rooms that are created concurrently.
const CONCURRENCY: usize = 8;

impl Import<'_> {
    /// Creates a chat room for each new match, and writes the match. Matches close to now come first.
    ///
    /// A match is listed with its room, so a match whose room cannot be created is rejected. So are the remaining matches
    /// after `until`. The next import of the document creates them.
    pub async fn create_rooms(
        &mut self,
        mut new: Vec<(String, Match)>,
        until: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        new.sort_by_key(|(_, row)| ((row.start - self.now).abs(), row.id));
        let mut unavailable = None;
        for batch in new.chunks(CONCURRENCY) {
            if unavailable.is_none() && self.app.clock.now() >= until {
                unavailable = Some("there was no time left to create its chat room; import again".to_owned());
            }
            // Once a call fails because the homeserver is unavailable, the import makes no further calls. Otherwise a
            // homeserver that hangs would cost some seconds for each batch.
            if let Some(reason) = &unavailable {
                for (label, _) in batch {
                    self.reject(label.clone(), reason.clone());
                }
                continue;
            }
            let rooms = try_join_all(batch.iter().map(|(_, row)| self.create_room(row))).await?;
            let mut created = Vec::with_capacity(batch.len());
            for ((label, _), room) in batch.iter().zip(rooms) {
                match room {
                    Ok(row) => created.push((label.clone(), row)),
                    Err(error) => {
                        let reason = format!("its chat room could not be created ({error}); import again");
                        self.reject(label.clone(), reason.clone());
                        if matches!(error, ChatError::Unavailable(_)) {
                            unavailable = Some(reason);
                        }
                    }
                }
            }
            self.import_events(created).await?;
        }
        Ok(())
    }

    /// Creates the room of a new match. Returns the match with the room's id and the hash of the room's name.
    async fn create_room(&self, event: &Match) -> Result<Result<Match, ChatError>, StoreError> {
        let team = |id| self.rows.teams.get(&id).or_else(|| self.catalog.team(id));
        let (Some(home), Some(away)) = (team(event.home_team_id), team(event.away_team_id)) else {
            return Err(StoreError::Unreadable("the teams of a match"));
        };
        let name = match_room_name(home, away);
        match self.app.chat.match_room(event.id, &name).await {
            Ok(room) => self.put_room(room, name, event).await.map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Stores the room of a new match.
    async fn put_room(&self, id: RoomId, name: String, event: &Match) -> Result<Match, StoreError> {
        let hash = room_name_hash(&name);
        let room = Room {
            room_id: id,
            name,
            topic: String::new(),
            event_id: Some(event.id),
            creator_id: None,
            is_private: false,
            // A homeserver takes far fewer joins a second than 64 shards do.
            shards: event.shards.min(FEATURED_SHARDS),
            created_at: self.now,
            last_activity: self.now,
            league: None,
            removed_at: None,
        };
        // An earlier import may have stored the room under another name and then crashed. In this case the
        // hash stays 0, so that `rename_rooms` sets the current name.
        let room_name_hash = if self.app.store.put_room(&room).await? { hash } else { 0 };
        Ok(Match { room: room.room_id.as_str().into(), room_name_hash, ..event.clone() })
    }
}
