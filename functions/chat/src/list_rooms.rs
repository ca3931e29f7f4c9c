use std::collections::HashMap;

use futures_util::future::{try_join, try_join3};
use touchline::api::chat::{ListRooms, ListedRoom, OwnRoom, RoomsPosition, RoomsQuery};
use touchline::api::{Cursor, CursorPage, Invalid, NextPage};
use touchline::domain::block::Blocks;
use touchline::domain::catalog::{Catalog, ListPosition, Match};
use touchline::domain::room::Membership;
use touchline::domain::{Room, RoomId, UserId};
use touchline::storage::Reads;
use touchline::storage::directory::{Directory, Needle};
use touchline::storage::members::UserMembership;
use touchline::storage::users::StoredBlocks;
use touchline::{App, Call, Error, Reply};

/// The maximum number of memberships that a request reads. A user has fewer: by default 1,000 joined rooms, 200 open
/// invitations, and what has ended within a month. 25 of them are half a unit.
const MAX_MEMBERSHIPS: usize = 10_000;

/// The maximum number of directory entries that a request reads when it searches the rooms of a match.
const MAX_READ: usize = 1_000;

/// The maximum number of the caller's own rooms that one request reads. It is reached if a search finds few of them.
const MAX_COMPARED: usize = 200;

/// How many of the caller's own rooms a search reads in one batch.
const COMPARED_IN_BATCH: usize = 50;

/// How many live and coming matches a list looks at, to find those whose rooms have members. They are two matchdays of most
/// leagues. A season has hundreds, and each costs half a unit.
const COMING_MATCHES: usize = 20;

/// With `joined`, lists all rooms that the caller has joined, the last joined first. Otherwise lists the private rooms that the
/// caller has joined or is invited to, then the rooms of live and coming matches that have members, and then the public rooms
/// that users created. A search by name over all public rooms uses the catalog to find the rooms of matches, and the directory
/// to find the rooms that users created.
///
/// A page reads all memberships of the caller, because the index sorts them by room id, which means nothing to a user.
pub async fn handle(app: App, call: Call<ListRooms>) -> Result<Reply<CursorPage<ListedRoom>>, Error> {
    let user = call.caller.user;
    let from = call.input.cursor.clone().map(|cursor| cursor.position_in("")).transpose()?;
    let memberships = async { app.store.memberships(user, MAX_MEMBERSHIPS).await.map_err(Error::from) };
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
        blocks,
        memberships: memberships.into_iter().map(|row| (row.room_id.clone(), row)).collect(),
        catalog: catalog.as_deref(),
        rooms: Vec::new(),
    };
    let next_cursor = page.fill(from).await?.map(|next| Cursor::new("", next).to_string());
    Ok(CursorPage { data: page.rooms, meta: NextPage { next_cursor } }.into())
}

struct Page<'a> {
    app: &'a App,
    user: UserId,
    query: &'a RoomsQuery,
    /// The text to search for. `None` if the request has no search text, or if the text has no searchable
    /// characters.
    needle: Option<Needle>,
    /// The users whom the caller has blocked.
    blocks: Blocks,
    memberships: HashMap<RoomId, UserMembership>,
    catalog: Option<&'a Catalog>,
    rooms: Vec<ListedRoom>,
}

impl Page<'_> {
    /// Fills the page, starting at `from`. Returns the position of the next page, or `None` if this page is the
    /// last one.
    async fn fill(&mut self, from: Option<RoomsPosition>) -> Result<Option<RoomsPosition>, Error> {
        if self.query.search.is_some() && self.needle.is_none() {
            return Ok(None);
        }
        if matches!(from, None | Some(RoomsPosition::Own(_))) {
            let after = match &from {
                Some(RoomsPosition::Own(after)) => Some(after),
                _ => None,
            };
            if let Some(last) = self.add_own(after).await? {
                return Ok(Some(RoomsPosition::Own(last)));
            }
        }
        if self.only_joined() {
            return Ok(None);
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

    fn only_joined(&self) -> bool {
        self.query.joined == Some(true)
    }

    /// Returns how many more rooms fit on the page.
    fn remaining(&self) -> usize {
        self.query.per_page.0 - self.rooms.len()
    }

    fn has(&self, room: &RoomId, membership: Membership) -> bool {
        self.memberships.get(room).is_some_and(|row| row.membership == membership)
    }

    /// Adds rooms, in the order of `ids`. Rooms that are not stored or were removed are left out.
    fn add(&mut self, ids: &[RoomId], mut rooms: HashMap<RoomId, Room>, counts: &HashMap<RoomId, i64>) {
        for room in ids.iter().filter_map(|id| rooms.remove(id)).filter(|room| room.removed_at.is_none()) {
            let members = counts.get(&room.room_id).copied().unwrap_or(0);
            let is_joined = self.has(&room.room_id, Membership::Join);
            self.rooms.push(ListedRoom::of(room, members, is_joined, self.catalog));
        }
    }

    /// Returns whether the list shows the room of a membership before the public rooms.
    fn is_own(&self, row: &UserMembership) -> bool {
        let has_event = self.query.event_id.is_none_or(|event| row.event_id == Some(event.0));
        has_event
            && match row.membership {
                Membership::Join => self.only_joined() || row.is_private,
                Membership::Invite => !self.only_joined() && row.is_private,
                Membership::Leave => false,
            }
    }

    /// Adds the caller's own rooms after a place. Returns the place after which the next page begins, or `None` if this page
    /// continues with other rooms or is the last one.
    async fn add_own(&mut self, after: Option<&OwnRoom>) -> Result<Option<OwnRoom>, Error> {
        let own = self.memberships.values().filter(|row| self.is_own(row));
        let mut own: Vec<OwnRoom> = own.map(|row| OwnRoom::new(row.since, row.room_id.clone())).collect();
        own.sort_unstable();
        let from = own.partition_point(|one| after.is_some_and(|after| one <= after));
        let (mut left, mut compared) = (&own[from..], 0);
        while !left.is_empty() {
            let batch = if self.needle.is_some() { COMPARED_IN_BATCH } else { self.remaining() };
            let (part, later) = left.split_at(left.len().min(batch));
            if let Some(last) = self.add_own_part(part).await? {
                return Ok(Some(last));
            }
            (left, compared) = (later, compared + part.len());
            let is_full = self.remaining() == 0;
            let is_over = is_full || compared >= MAX_COMPARED;
            if (is_full && !self.only_joined()) || (is_over && !left.is_empty()) {
                return Ok(part.last().cloned());
            }
        }
        Ok(None)
    }

    /// Adds those of the caller's own rooms whose names match the search. Returns the last added room if the others do
    /// not fit on the page.
    async fn add_own_part(&mut self, part: &[OwnRoom]) -> Result<Option<OwnRoom>, Error> {
        let store = &self.app.store;
        let ids: Vec<RoomId> = part.iter().map(|own| own.room.clone()).collect();
        let Some(needle) = &self.needle else {
            let (mut rooms, counts) =
                try_join(store.rooms(&ids, Reads::Eventual), store.member_counts(&ids)).await?;
            self.leave_out_hidden(&mut rooms).await?;
            self.add(&ids, rooms, &counts);
            return Ok(None);
        };
        let mut rooms = store.rooms(&ids, Reads::Eventual).await?;
        rooms.retain(|_, room| needle.is_in(&room.name));
        self.leave_out_hidden(&mut rooms).await?;
        let mut hits: Vec<&OwnRoom> = part.iter().filter(|own| rooms.contains_key(&own.room)).collect();
        let is_cut = hits.len() > self.remaining();
        hits.truncate(self.remaining());
        let ids: Vec<RoomId> = hits.iter().map(|own| own.room.clone()).collect();
        let counts = store.member_counts(&ids).await?;
        self.add(&ids, rooms, &counts);
        Ok(hits.last().filter(|_| is_cut).map(|last| (*last).clone()))
    }

    /// Leaves out removed rooms, and rooms to which a blocked user invited the caller. If the invitation was sent in a Matrix client, the
    /// creator of the room counts as the sender.
    async fn leave_out_hidden(&self, rooms: &mut HashMap<RoomId, Room>) -> Result<(), Error> {
        rooms.retain(|_, room| room.removed_at.is_none());
        let is_invited = |room: &Room| self.has(&room.room_id, Membership::Invite);
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

    /// Adds the rooms of matches after a position: those that a search by name finds or, without a search, those of live and
    /// coming matches that have members. Returns the last added match if the page is full, otherwise `None`.
    async fn add_match_rooms(&mut self, after: Option<ListPosition>) -> Result<Option<ListPosition>, Error> {
        if self.query.event_id.is_some() {
            // The rooms about one match are all in the directory of the match.
            return if after.is_none() { Ok(None) } else { Err(other_search()) };
        }
        let Some(catalog) = self.catalog else { return Ok(None) };
        let room = |(position, event): (ListPosition, &Match)| Some((position, RoomId::parse(&event.room)?));
        let ids = |found: &[(ListPosition, RoomId)]| -> Vec<RoomId> {
            found.iter().map(|(_, room)| room.clone()).collect()
        };
        let (found, counts) = if let Some(needle) = &self.needle {
            let named = catalog.matches_named(needle.as_str(), after).filter_map(room);
            (named.take(self.remaining()).collect::<Vec<_>>(), None)
        } else {
            let coming = catalog.coming().take(COMING_MATCHES).filter_map(room);
            let mut coming: Vec<_> =
                coming.filter(|(position, _)| after.is_none_or(|after| *position > after)).collect();
            let counts = self.app.store.member_counts(&ids(&coming)).await?;
            coming.retain(|(_, room)| counts.get(room).is_some_and(|members| *members > 0));
            coming.truncate(self.remaining());
            (coming, Some(counts))
        };
        let is_full = found.len() == self.remaining();
        self.add_public(&ids(&found), counts).await?;
        Ok(found.last().filter(|_| is_full).map(|(position, _)| *position))
    }

    /// Adds public rooms, in the order of `ids`. Reads their member counts, if they are not known.
    async fn add_public(
        &mut self,
        ids: &[RoomId],
        counts: Option<HashMap<RoomId, i64>>,
    ) -> Result<(), Error> {
        let store = &self.app.store;
        let counts = async {
            match counts {
                Some(counts) => Ok(counts),
                None => store.member_counts(ids).await,
            }
        };
        let (rooms, counts) = try_join(store.rooms(ids, Reads::Eventual), counts).await?;
        self.add(ids, rooms, &counts);
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
            self.add_public(&hits, None).await?;
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
