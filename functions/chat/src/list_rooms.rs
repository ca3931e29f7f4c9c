use std::collections::{HashMap, HashSet};

use futures_util::future::try_join;
use touchline::api::chat::{ListRooms, ListedRoom, RoomsPosition, RoomsQuery};
use touchline::api::{Cursor, CursorPage, Invalid, NextPage};
use touchline::domain::catalog::{Catalog, ListPosition};
use touchline::domain::room::Membership;
use touchline::domain::{Room, RoomId};
use touchline::storage::Reads;
use touchline::storage::directory::{Directory, Needle};
use touchline::storage::members::UserMembership;
use touchline::{App, Call, Error, Reply};

/// The maximum number of directory entries that one request reads when it searches the rooms of a match.
const MAX_READ: usize = 1_000;

/// With `joined`, lists all rooms that the caller has joined. Otherwise lists the private rooms that the
/// caller has joined or is invited to, then the public rooms. A search by name over all public rooms uses the
/// catalog to find the rooms of matches, and the directory to find the rooms that users created.
pub async fn handle(app: App, call: Call<ListRooms>) -> Result<Reply<CursorPage<ListedRoom>>, Error> {
    let user = call.caller.user;
    let memberships = async { app.store.memberships(user).await.map_err(Error::from) };
    // Only a search among all rooms finds the rooms of matches in the catalog.
    let RoomsQuery { search, joined, event_id, .. } = &call.input;
    let needs_catalog = search.is_some() && *joined != Some(true) && event_id.is_none();
    let catalog = async {
        match app.catalog().await {
            Ok(catalog) => Ok(Some(catalog)),
            // Only a search needs the catalog. If the catalog is unavailable, a list shows the rooms without
            // their matches.
            Err(error @ Error::Store(_)) if needs_catalog => Err(error),
            Err(_) => Ok(None),
        }
    };
    let (memberships, catalog) = try_join(memberships, catalog).await?;
    let mut page = Page::new(&app, &call.input, &memberships, catalog.as_deref());
    let from = call.input.cursor.clone().map(|cursor| cursor.position_in("")).transpose()?;
    let next_cursor = page.fill(from).await?.map(|next| Cursor::new("", next).to_string());
    Ok(CursorPage { data: page.rooms, meta: NextPage { next_cursor } }.into())
}

struct Page<'a> {
    app: &'a App,
    query: &'a RoomsQuery,
    /// The text to search for. `None` if the request has no search text, or if the text has no searchable
    /// characters.
    needle: Option<Needle>,
    own: Vec<&'a UserMembership>,
    joined: HashSet<&'a RoomId>,
    catalog: Option<&'a Catalog>,
    rooms: Vec<ListedRoom>,
}

impl<'a> Page<'a> {
    fn new(
        app: &'a App,
        query: &'a RoomsQuery,
        memberships: &'a [UserMembership],
        catalog: Option<&'a Catalog>,
    ) -> Self {
        let only_joined = query.joined == Some(true);
        let is_listed = |one: &&UserMembership| {
            let has_event = query.event_id.is_none_or(|event| one.event_id == Some(event.0));
            has_event
                && match one.membership {
                    Membership::Join => only_joined || one.is_private,
                    Membership::Invite => !only_joined && one.is_private,
                    Membership::Leave => false,
                }
        };
        let mut own: Vec<&UserMembership> = memberships.iter().filter(is_listed).collect();
        own.sort_by_key(|membership| &membership.room_id);
        let joined = memberships.iter().filter(|one| one.membership == Membership::Join);
        Self {
            app,
            query,
            needle: query.search.as_ref().and_then(|search| Needle::new(&search.0)),
            own,
            joined: joined.map(|membership| &membership.room_id).collect(),
            catalog,
            rooms: Vec::new(),
        }
    }

    /// Fills the page, starting at `from`. Returns the position of the next page, or `None` if this page is the
    /// last one.
    async fn fill(&mut self, from: Option<RoomsPosition>) -> Result<Option<RoomsPosition>, Error> {
        if self.query.search.is_some() && self.needle.is_none() {
            return Ok(None);
        }
        let mut position = from;
        if !matches!(position, Some(RoomsPosition::Match(_) | RoomsPosition::Directory(_))) {
            let after = match position.take() {
                Some(RoomsPosition::Own(room)) => Some(room),
                _ => None,
            };
            if let Some(next) = self.add_own(after.as_ref()).await? {
                return Ok(Some(RoomsPosition::Own(next)));
            }
        }
        if self.query.joined == Some(true) {
            return Ok(None);
        }
        if self.remaining() == 0 {
            // The page is full and ends with the last of the caller's own rooms. The cursor points after that
            // room, so the next page starts with the public rooms.
            return Ok(self.rooms.last().map(|room| RoomsPosition::Own(room.room_id.clone())));
        }
        let after = match position {
            Some(RoomsPosition::Directory(after)) => Some(after),
            position => {
                let after = match position {
                    Some(RoomsPosition::Match(position)) => Some(position),
                    _ => None,
                };
                if let Some(last) = self.add_match_rooms(after).await? {
                    return Ok(Some(RoomsPosition::Match(last)));
                }
                None
            }
        };
        self.add_from_directory(after).await
    }

    /// Returns how many more rooms fit on the page.
    fn remaining(&self) -> usize {
        self.query.per_page.0 - self.rooms.len()
    }

    fn add(&mut self, room: Room, counts: &HashMap<RoomId, i64>) {
        let members = counts.get(&room.room_id).copied().unwrap_or(0);
        let is_joined = self.joined.contains(&room.room_id);
        self.rooms.push(ListedRoom::of(room, members, is_joined, self.catalog));
    }

    async fn add_own(&mut self, after: Option<&RoomId>) -> Result<Option<RoomId>, Error> {
        let mut own = std::mem::take(&mut self.own);
        own.retain(|membership| after.is_none_or(|after| membership.room_id > *after));
        for part in own.chunks(50) {
            let ids: Vec<RoomId> = part.iter().map(|membership| membership.room_id.clone()).collect();
            let (mut found, counts) =
                try_join(self.app.store.rooms(&ids, Reads::Eventual), self.app.store.member_counts(&ids))
                    .await?;
            for id in ids {
                let Some(room) = found.remove(&id) else { continue };
                if self.needle.as_ref().is_some_and(|needle| !needle.is_in(&room.name)) {
                    continue;
                }
                if self.remaining() == 0 {
                    return Ok(self.rooms.last().map(|room| room.room_id.clone()));
                }
                self.add(room, &counts);
            }
        }
        Ok(None)
    }

    /// Adds the rooms of matches that a search by name finds. Returns the last added match if the page is full,
    /// otherwise `None`.
    async fn add_match_rooms(&mut self, after: Option<ListPosition>) -> Result<Option<ListPosition>, Error> {
        // The rooms about one match are all in the directory of the match, so a search among them needs no catalog.
        let (Some(needle), None) = (&self.needle, self.query.event_id) else {
            return if after.is_none() { Ok(None) } else { Err(other_search()) };
        };
        let Some(catalog) = self.catalog else { return Ok(None) };
        let found: Vec<(ListPosition, RoomId)> = catalog
            .matches_named(needle.as_str(), after)
            .filter_map(|(position, event)| Some((position, RoomId::parse(&event.room)?)))
            .take(self.remaining())
            .collect();
        let ids: Vec<RoomId> = found.iter().map(|(_, room)| room.clone()).collect();
        let is_full = ids.len() == self.remaining();
        self.add_public(&ids, |_| true).await?;
        Ok(found.last().filter(|_| is_full).map(|(position, _)| *position))
    }

    /// Adds the public rooms for which `is_listed` returns true, in the order of `ids`. Rooms that are not stored
    /// are left out.
    async fn add_public(&mut self, ids: &[RoomId], is_listed: impl Fn(&Room) -> bool) -> Result<(), Error> {
        let (mut found, counts) =
            try_join(self.app.store.rooms(ids, Reads::Eventual), self.app.store.member_counts(ids)).await?;
        for room in ids.iter().filter_map(|id| found.remove(id)).filter(is_listed).collect::<Vec<_>>() {
            self.add(room, &counts);
        }
        Ok(())
    }

    async fn add_from_directory(
        &mut self,
        mut after: Option<String>,
    ) -> Result<Option<RoomsPosition>, Error> {
        // A search within a match reads the rooms of the match and filters them by name. This usually reads
        // fewer entries than a search by name over all rooms.
        let (directory, filter) = match (self.query.event_id, self.needle.clone()) {
            (Some(event), needle) => (Directory::About(event.0), needle),
            (None, Some(needle)) => (Directory::Named(needle), None),
            (None, None) => (Directory::All, None),
        };
        if after.as_ref().is_some_and(|position| !directory.has_position(position)) {
            return Err(other_search());
        }
        let mut read = 0;
        loop {
            let limit = if filter.is_some() { MAX_READ / 4 } else { self.remaining() };
            let page = self.app.store.directory_page(&directory, after, limit).await?;
            read += limit;
            let (mut hits, mut next) = (Vec::new(), page.next);
            for entry in page.entries {
                if filter.as_ref().is_none_or(|needle| entry.contains(needle)) {
                    hits.push((entry.room_id, entry.position));
                }
            }
            if hits.len() > self.remaining() {
                hits.truncate(self.remaining());
                next = hits.last().map(|(_, position)| position.clone());
            }
            let hits: Vec<RoomId> = hits.into_iter().map(|(id, _)| id).collect();
            // Earlier releases also wrote suffixes for the rooms of matches, which `add_match_rooms` lists.
            let is_search = matches!(directory, Directory::Named(_));
            self.add_public(&hits, |room| !(is_search && room.is_match_room())).await?;
            // After `MAX_READ` entries, a filtered page ends even if it is not full. The next page continues
            // the search.
            if next.is_none() || self.remaining() == 0 || filter.is_none() || read >= MAX_READ {
                return Ok(next.map(RoomsPosition::Directory));
            }
            after = next;
        }
    }
}

/// Returns the error for a cursor of a search with other parameters.
fn other_search() -> Error {
    Invalid::field("cursor", "This cursor belongs to another search. Start from the first page.").into()
}

#[cfg(test)]
mod tests;
