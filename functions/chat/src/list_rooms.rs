use std::collections::HashSet;

use futures_util::future::try_join;
use touchline::api::chat::{ListRooms, ListedRoom, RoomsCursor, RoomsQuery};
use touchline::api::{Listing, NextPage};
use touchline::domain::RoomId;
use touchline::domain::catalog::Catalogue;
use touchline::domain::room::Membership;
use touchline::storage::directory::{Needle, Shelf};
use touchline::storage::members::Place;
use touchline::{App, Call, Error, Reply};

/// A search within a match's rooms looks at no more of them than this before it answers with what it has.
const LOOKED_AT: usize = 1_000;

/// First the rooms that only some may see: with `joined`, all that the caller is in, and without, the private
/// ones that they are in or invited to. Then, without `joined`, those that anybody may find.
pub async fn handle(app: App, call: Call<ListRooms>) -> Result<Reply<Listing<ListedRoom>>, Error> {
    let user = call.caller.user;
    let places = async { app.store.places(user).await.map_err(Error::from) };
    // Without a catalogue rooms are listed all the same, without their matches.
    let catalogue = async { Ok(app.catalogue().await.ok()) };
    let (places, catalogue) = try_join(places, catalogue).await?;
    let mut page = Page::new(&app, &call.input, &places, catalogue.as_deref());
    let next = page.fill(call.input.cursor.clone()).await?;
    let next_cursor = next.map(|cursor| cursor.to_string());
    Ok(Listing { data: page.rooms, meta: NextPage { next_cursor } }.into())
}

struct Page<'a> {
    app: &'a App,
    query: &'a RoomsQuery,
    /// What to look for; `None` where nothing of the search is left to look for.
    needle: Option<Needle>,
    own: Vec<&'a Place>,
    joined: HashSet<&'a RoomId>,
    catalogue: Option<&'a Catalogue>,
    rooms: Vec<ListedRoom>,
}

impl<'a> Page<'a> {
    fn new(
        app: &'a App,
        query: &'a RoomsQuery,
        places: &'a [Place],
        catalogue: Option<&'a Catalogue>,
    ) -> Self {
        let only_joined = query.joined == Some(true);
        let wanted = |place: &&Place| {
            let about = query.event_id.is_none_or(|event| place.event_id == Some(event.0));
            about
                && match place.membership {
                    Membership::Join => only_joined || place.is_private,
                    Membership::Invite => !only_joined && place.is_private,
                    Membership::Leave => false,
                }
        };
        let mut own: Vec<&Place> = places.iter().filter(wanted).collect();
        own.sort_by_key(|place| &place.room_id);
        let joined = places.iter().filter(|place| place.membership == Membership::Join);
        Self {
            app,
            query,
            needle: query.search.as_ref().and_then(|search| Needle::new(&search.0)),
            own,
            joined: joined.map(|place| &place.room_id).collect(),
            catalogue,
            rooms: Vec::new(),
        }
    }

    /// Fills the page from a place on; returns where the next one begins.
    async fn fill(&mut self, from: Option<RoomsCursor>) -> Result<Option<RoomsCursor>, Error> {
        if self.query.search.is_some() && self.needle.is_none() {
            return Ok(None);
        }
        let after = match from {
            Some(RoomsCursor::Shelf(place)) => Some(place),
            own => {
                let after = match own {
                    Some(RoomsCursor::Own(room)) => Some(room),
                    _ => None,
                };
                if let Some(next) = self.add_own(after.as_ref()).await? {
                    return Ok(Some(RoomsCursor::Own(next)));
                }
                None
            }
        };
        if self.query.joined == Some(true) {
            return Ok(None);
        }
        self.add_from_shelf(after).await
    }

    fn wants(&self) -> usize {
        self.query.per_page.0 - self.rooms.len()
    }

    async fn add_own(&mut self, after: Option<&RoomId>) -> Result<Option<RoomId>, Error> {
        let mut own = std::mem::take(&mut self.own);
        own.retain(|place| after.is_none_or(|after| place.room_id > *after));
        for part in own.chunks(50) {
            let ids: Vec<RoomId> = part.iter().map(|place| place.room_id.clone()).collect();
            let mut found = self.app.store.rooms(&ids).await?;
            for id in ids {
                let Some((room, members)) = found.remove(&id) else { continue };
                if self.needle.as_ref().is_some_and(|needle| !needle.is_in(&room.name)) {
                    continue;
                }
                if self.wants() == 0 {
                    return Ok(self.rooms.last().map(|room| room.room_id.clone()));
                }
                let is_joined = self.joined.contains(&id);
                self.rooms.push(ListedRoom::of(room, members, is_joined, self.catalogue));
            }
        }
        Ok(None)
    }

    async fn add_from_shelf(&mut self, mut after: Option<String>) -> Result<Option<RoomsCursor>, Error> {
        // A match's rooms are fewer than all that have a word in their names.
        let (shelf, filter) = match (self.query.event_id, self.needle.clone()) {
            (Some(event), needle) => (Shelf::About(event.0), needle),
            (None, Some(needle)) => (Shelf::Named(needle), None),
            (None, None) => (Shelf::All, None),
        };
        let mut looked_at = 0;
        while self.wants() > 0 && looked_at < LOOKED_AT {
            let at_once = if filter.is_some() { LOOKED_AT / 4 } else { self.wants() };
            let (listed, ended) = self.app.store.shelf(&shelf, after.clone(), at_once).await?;
            looked_at += listed.len();
            let mut hits = Vec::new();
            let mut all_looked_at = true;
            for one in listed {
                if hits.len() == self.wants() {
                    all_looked_at = false;
                    break;
                }
                after = Some(one.place.clone());
                if filter.as_ref().is_none_or(|needle| one.has(needle)) {
                    hits.push(one.room_id);
                }
            }
            let mut found = self.app.store.rooms(&hits).await?;
            for id in hits {
                let Some((room, members)) = found.remove(&id) else { continue };
                let is_joined = self.joined.contains(&id);
                self.rooms.push(ListedRoom::of(room, members, is_joined, self.catalogue));
            }
            if ended && all_looked_at {
                return Ok(None);
            }
        }
        Ok(after.map(RoomsCursor::Shelf))
    }
}
