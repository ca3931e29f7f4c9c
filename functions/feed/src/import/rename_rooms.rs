use chrono::{DateTime, Utc};
use futures_util::future::try_join_all;
use touchline::domain::RoomId;
use touchline::domain::catalog::{Catalog, Match, match_room_name, room_name_hash};
use touchline::ports::chat::ChatError;
use touchline::storage::StoreError;

use super::Import;
use super::chunks::Rows;

/// The maximum number of rooms that one import renames. A homeserver takes about 50 ms to rename a room, so the
/// import stays well within the timeout of its Lambda function.
const MAX_RENAMES: usize = 500;

/// The maximum number of rooms that are renamed concurrently.
const CONCURRENCY: usize = 8;

/// A room that must get another name.
struct Rename {
    event: Match,
    room: RoomId,
    name: String,
}

impl Import<'_> {
    /// Renames the match rooms that have an outdated name. A name is outdated if a team was renamed, or if an
    /// older version of this program built room names differently.
    ///
    /// The match's row has a hash of the room's name. A rename writes the hash last. After a crash, or while
    /// the homeserver is down, the row still has the old hash, and the next import tries again.
    pub async fn rename_rooms(&mut self, until: DateTime<Utc>) -> Result<(), StoreError> {
        let wrong = wrong_names(&self.catalog, &self.rows, self.now, MAX_RENAMES);
        let mut renamed = 0;
        for batch in wrong.chunks(CONCURRENCY) {
            if self.app.clock.now() >= until {
                tracing::warn!("there is no time left; the next import renames the remaining rooms");
                break;
            }
            let results = try_join_all(batch.iter().map(|rename| self.rename(rename))).await?;
            let is_homeserver_down = results.contains(&None);
            for event in results.into_iter().flatten() {
                renamed += 1;
                self.rows.events.insert(event.id, event);
            }
            if is_homeserver_down {
                tracing::warn!("the homeserver is unavailable; the next import renames the remaining rooms");
                break;
            }
        }
        if renamed > 0 {
            tracing::info!(renamed, "renamed chat rooms of matches");
        }
        Ok(())
    }

    /// Returns whether a room has an outdated name.
    pub fn has_wrong_room_names(&self) -> bool {
        !wrong_names(&self.catalog, &self.rows, self.now, 1).is_empty()
    }

    /// Renames one room on the homeserver, then in the `rooms` table. Then writes the hash of the new name to the
    /// match's row. Returns the changed match, or `None` if the homeserver is unavailable.
    async fn rename(&self, Rename { event, room, name }: &Rename) -> Result<Option<Match>, StoreError> {
        match self.app.chat.rename_match_room(room, name).await {
            Ok(()) => {}
            // The room is not on this homeserver, or we lost the right to rename it. Trying again would not
            // help, so continue as after a success. The new hash then stops later imports from trying again.
            Err(error @ (ChatError::NotFound | ChatError::Forbidden)) => {
                tracing::warn!(%error, room = room.as_str(), "the homeserver does not rename the room");
            }
            Err(error) => {
                tracing::warn!(%error, room = room.as_str(), "the room cannot be renamed now");
                return Ok(None);
            }
        }
        self.app.store.rename_room(room, name).await?;
        let hash = room_name_hash(name);
        self.app.store.set_room_name_hash(event, hash).await?;
        Ok(Some(Match { room_name_hash: hash, ..event.clone() }))
    }
}

/// Returns the rooms that must get another name, up to `limit`. Rooms of matches close to `now` come first.
fn wrong_names(catalog: &Catalog, rows: &Rows, now: DateTime<Utc>, limit: usize) -> Vec<Rename> {
    let team = |id| rows.teams.get(&id).or_else(|| catalog.team(id));
    let others = catalog.events().filter(|event| !rows.events.contains_key(&event.id));
    let mut wrong: Vec<Rename> = rows
        .events
        .values()
        .chain(others)
        .filter_map(|event| {
            let name = match_room_name(team(event.home_team_id)?, team(event.away_team_id)?);
            if room_name_hash(&name) == event.room_name_hash {
                return None;
            }
            Some(Rename { event: event.clone(), room: RoomId::parse(&event.room)?, name })
        })
        .collect();
    wrong.sort_by_key(|rename| ((rename.event.start - now).abs(), rename.event.id));
    wrong.truncate(limit);
    wrong
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;
    use touchline::domain::catalog::{Key, Status, Team};

    use super::*;

    fn team(id: u32) -> Team {
        Team {
            id,
            name: format!("Team {id}"),
            slug: format!("team-{id}"),
            sport_id: 1,
            logo: None,
            country: None,
            founded: None,
            venue: None,
            short_name: None,
            key: Key(u64::from(id)),
            as_of: DateTime::UNIX_EPOCH,
        }
    }

    fn event(id: u32, start: DateTime<Utc>, room_name: &str) -> Match {
        Match {
            id,
            tournament_id: 1,
            home_team_id: 1,
            away_team_id: 2,
            start,
            status: Status::Scheduled,
            venue: None,
            score: None,
            room: format!("!match{id}:touchline.local").into(),
            room_name_hash: room_name_hash(room_name),
            shards: 4,
            pause: None,
            revision: 0,
            key: Key(u64::from(id)),
            as_of: DateTime::UNIX_EPOCH,
        }
    }

    #[test]
    fn rooms_of_the_matches_closest_to_now_are_renamed_first() {
        let now = DateTime::from_timestamp(1_794_744_000, 0).unwrap();
        let events = [(1, -30), (2, 1), (3, -2), (4, 60), (5, 3)];
        let mut rows = Rows {
            teams: [1, 2].map(|id| (id, team(id))).into(),
            events: events
                .map(|(id, days)| (id, event(id, now + TimeDelta::days(days), "an older name")))
                .into(),
            ..Rows::default()
        };
        rows.events.insert(6, event(6, now, "Team 1 – Team 2"));
        let ids = |limit| -> Vec<u32> {
            let wrong = wrong_names(&Catalog::default(), &rows, now, limit);
            wrong.iter().map(|rename| rename.event.id).collect()
        };
        assert_eq!(ids(100), [2, 3, 5, 1, 4], "the room of match 6 already has the right name");
        assert_eq!(ids(2), [2, 3]);
    }
}
