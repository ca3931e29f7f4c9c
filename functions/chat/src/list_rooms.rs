use std::collections::{HashMap, HashSet};

use futures_util::future::{try_join, try_join3};
use touchline::api::chat::{ListRooms, ListedRoom, RoomsPosition, RoomsQuery};
use touchline::api::{Cursor, CursorPage, Invalid, NextPage};
use touchline::domain::block::Blocks;
use touchline::domain::catalog::{Catalog, ListPosition};
use touchline::domain::room::Membership;
use touchline::domain::{Room, RoomId, UserId};
use touchline::storage::Reads;
use touchline::storage::directory::{Directory, Needle};
use touchline::storage::members::{MembershipsPage, UserMembership};
use touchline::storage::users::StoredBlocks;
use touchline::{App, Call, Error, Reply};

/// The maximum number of memberships that one request reads. Also the maximum number of directory entries that it
/// reads when it searches the rooms of a match.
const MAX_READ: usize = 1_000;

/// How many memberships a request reads first. Few users have more.
const FIRST_READ: usize = 100;

/// How many memberships each later read of a request reads. After two such reads, a request has seen the memberships of
/// a user who has joined as many rooms as a user can join by default.
const NEXT_READ: usize = MAX_READ / 2;

/// The maximum number of the caller's own rooms whose names one search compares.
const MAX_COMPARED: usize = 200;

/// How many of the caller's own rooms a search reads in one batch.
const COMPARED_IN_BATCH: usize = 50;

/// With `joined`, lists all rooms that the caller has joined. Otherwise lists the private rooms that the
/// caller has joined or is invited to, then the public rooms. A search by name over all public rooms uses the
/// catalog to find the rooms of matches, and the directory to find the rooms that users created.
///
/// A page reads the memberships that it needs, in the order of the index, not all memberships of the caller.
pub async fn handle(app: App, call: Call<ListRooms>) -> Result<Reply<CursorPage<ListedRoom>>, Error> {
    let user = call.caller.user;
    let from = call.input.cursor.clone().map(|cursor| cursor.position_in("")).transpose()?;
    let after = match &from {
        Some(RoomsPosition::Own(room)) => Some(room),
        // A page of public rooms reads the first memberships, too: they often show all rooms that the caller has joined.
        Some(RoomsPosition::Match(_) | RoomsPosition::Directory(_)) | None => None,
    };
    let memberships =
        async { app.store.memberships_page(user, after, FIRST_READ).await.map_err(Error::from) };
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
    let blocks = async { app.store.blocks(user, Reads::Eventual).await.map_err(Error::from) };
    let (memberships, catalog, StoredBlocks { blocks, .. }) = try_join3(memberships, catalog, blocks).await?;
    let mut page = Page {
        app: &app,
        user,
        query: &call.input,
        needle: call.input.search.as_ref().and_then(|search| Needle::new(&search.0)),
        is_from_start: after.is_none(),
        blocks,
        joined: HashSet::new(),
        invited: HashSet::new(),
        knows_all_joined: false,
        catalog: catalog.as_deref(),
        rooms: Vec::new(),
    };
    page.add_joined(&memberships);
    let next_cursor = page.fill(from, memberships).await?.map(|next| Cursor::new("", next).to_string());
    Ok(CursorPage { data: page.rooms, meta: NextPage { next_cursor } }.into())
}

struct Page<'a> {
    app: &'a App,
    user: UserId,
    query: &'a RoomsQuery,
    /// The text to search for. `None` if the request has no search text, or if the text has no searchable
    /// characters.
    needle: Option<Needle>,
    /// Whether the first read began at the caller's first membership.
    is_from_start: bool,
    /// The users whom the caller has blocked.
    blocks: Blocks,
    /// Rooms that the caller has joined, among the memberships that were read.
    joined: HashSet<RoomId>,
    /// Rooms to which the caller is invited, among the memberships that were read.
    invited: HashSet<RoomId>,
    /// Whether `joined` contains all rooms that the caller has joined.
    knows_all_joined: bool,
    catalog: Option<&'a Catalog>,
    rooms: Vec<ListedRoom>,
}

impl Page<'_> {
    /// Fills the page, starting at `from`. Returns the position of the next page, or `None` if this page is the
    /// last one.
    async fn fill(
        &mut self,
        from: Option<RoomsPosition>,
        memberships: MembershipsPage,
    ) -> Result<Option<RoomsPosition>, Error> {
        if self.query.search.is_some() && self.needle.is_none() {
            return Ok(None);
        }
        if !matches!(from, Some(RoomsPosition::Match(_) | RoomsPosition::Directory(_)))
            && let Some(next) = self.add_own(memberships).await?
        {
            return Ok(Some(RoomsPosition::Own(next)));
        }
        if self.query.joined == Some(true) {
            return Ok(None);
        }
        if self.remaining() == 0 {
            // The page is full and ends with the last of the caller's own rooms. The cursor points after that
            // room, so the next page starts with the public rooms.
            return Ok(self.rooms.last().map(|room| RoomsPosition::Own(room.room_id.clone())));
        }
        let after = match from {
            Some(RoomsPosition::Directory(after)) => Some(after),
            from => {
                let after = match from {
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

    fn add_joined(&mut self, memberships: &MembershipsPage) {
        let joined = memberships.rows.iter().filter(|row| row.membership == Membership::Join);
        self.joined.extend(joined.map(|row| row.room_id.clone()));
        let invited = memberships.rows.iter().filter(|row| row.membership == Membership::Invite);
        self.invited.extend(invited.map(|row| row.room_id.clone()));
        self.knows_all_joined = self.is_from_start && memberships.is_last;
    }

    /// Returns whether the list shows the room of a membership before the public rooms.
    fn is_own(&self, row: &UserMembership) -> bool {
        let only_joined = self.query.joined == Some(true);
        let has_event = self.query.event_id.is_none_or(|event| row.event_id == Some(event.0));
        has_event
            && match row.membership {
                Membership::Join => only_joined || row.is_private,
                Membership::Invite => !only_joined && row.is_private,
                Membership::Leave => false,
            }
    }

    /// Adds the caller's own rooms, beginning with those in `memberships`. Returns the room after which the next page
    /// begins, or `None` if the caller has no more rooms.
    async fn add_own(&mut self, mut memberships: MembershipsPage) -> Result<Option<RoomId>, Error> {
        let (mut read, mut compared) = (memberships.rows.len(), 0);
        loop {
            let rows = memberships.rows.iter().filter(|row| self.is_own(row));
            let own: Vec<RoomId> = rows.map(|row| row.room_id.clone()).collect();
            let mut unread = &own[..];
            while !unread.is_empty() {
                let batch = if self.needle.is_some() { COMPARED_IN_BATCH } else { self.remaining() };
                let (part, later) = unread.split_at(unread.len().min(batch));
                if let Some(last) = self.add_own_part(part).await? {
                    return Ok(Some(last));
                }
                compared += if self.needle.is_some() { part.len() } else { 0 };
                if !later.is_empty() && (self.remaining() == 0 || compared >= MAX_COMPARED) {
                    return Ok(part.last().cloned());
                }
                unread = later;
            }
            if memberships.is_last {
                return Ok(None);
            }
            let Some(last) = memberships.rows.last().map(|row| row.room_id.clone()) else { return Ok(None) };
            if self.remaining() == 0 || read >= MAX_READ || compared >= MAX_COMPARED {
                return Ok(Some(last));
            }
            memberships = self.app.store.memberships_page(self.user, Some(&last), NEXT_READ).await?;
            read += memberships.rows.len();
            self.add_joined(&memberships);
        }
    }

    /// Adds those of the caller's own rooms whose names match the search. Returns the last added room if the others do
    /// not fit on the page.
    async fn add_own_part(&mut self, ids: &[RoomId]) -> Result<Option<RoomId>, Error> {
        let store = &self.app.store;
        let Some(needle) = &self.needle else {
            let (mut rooms, counts) =
                try_join(store.rooms(ids, Reads::Eventual), store.member_counts(ids)).await?;
            self.leave_out_hidden(&mut rooms).await?;
            for room in ids.iter().filter_map(|id| rooms.remove(id)) {
                self.add(room, &counts);
            }
            return Ok(None);
        };
        let mut rooms = store.rooms(ids, Reads::Eventual).await?;
        self.leave_out_hidden(&mut rooms).await?;
        let rooms = ids.iter().filter_map(|id| rooms.remove(id));
        let mut hits: Vec<Room> = rooms.filter(|room| needle.is_in(&room.name)).collect();
        let is_cut = hits.len() > self.remaining();
        hits.truncate(self.remaining());
        let ids: Vec<RoomId> = hits.iter().map(|room| room.room_id.clone()).collect();
        let counts = store.member_counts(&ids).await?;
        for room in hits {
            self.add(room, &counts);
        }
        Ok(ids.last().filter(|_| is_cut).cloned())
    }

    /// Leaves out removed rooms, and rooms to which a blocked user invited the caller. If the invitation was sent in a Matrix client, the
    /// creator of the room counts as the sender.
    async fn leave_out_hidden(&self, rooms: &mut HashMap<RoomId, Room>) -> Result<(), Error> {
        rooms.retain(|_, room| room.removed_at.is_none());
        let is_invited = |room: &Room| self.invited.contains(&room.room_id);
        if self.blocks.is_empty() || !rooms.values().any(is_invited) {
            return Ok(());
        }
        let invitations = rooms.values().filter(|room| is_invited(room));
        let senders = self.app.store.inviters(invitations, self.user).await?;
        rooms.retain(|id, room| {
            let sender = senders.get(id).copied().or(room.creator_id);
            !is_invited(room) || !sender.is_some_and(|sender| self.blocks.contains(sender))
        });
        Ok(())
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
        self.add_public(&ids).await?;
        Ok(found.last().filter(|_| is_full).map(|(position, _)| *position))
    }

    /// Adds public rooms, in the order of `ids`. Rooms that are not stored are left out.
    async fn add_public(&mut self, ids: &[RoomId]) -> Result<(), Error> {
        let (mut found, counts) =
            try_join(self.app.store.rooms(ids, Reads::Eventual), self.app.store.member_counts(ids)).await?;
        let rooms = ids.iter().filter_map(|id| found.remove(id));
        let rooms: Vec<Room> = rooms.filter(|room| room.removed_at.is_none()).collect();
        if !self.knows_all_joined {
            self.joined.extend(self.app.store.joined_among(&rooms, self.user).await?);
        }
        for room in rooms {
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
            let limit = if filter.is_some() { MAX_READ / 8 } else { self.remaining() };
            let page = self.app.store.directory_page(&directory, after, limit).await?;
            read += page.entries.len();
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
            self.add_public(&hits).await?;
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
