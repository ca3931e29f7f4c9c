use std::collections::{HashMap, HashSet};

use futures_util::future::try_join;
use touchline::api::chat::{ListRooms, ListedRoom, RoomsPosition, RoomsQuery};
use touchline::api::{Cursor, CursorPage, Invalid, NextPage};
use touchline::domain::catalog::Catalog;
use touchline::domain::room::Membership;
use touchline::domain::{Room, RoomId};
use touchline::storage::Reads;
use touchline::storage::directory::{Directory, Needle};
use touchline::storage::members::UserMembership;
use touchline::{App, Call, Error, Reply};

/// A search within a match's rooms looks at no more of them than this before it answers with what it has.
const LOOKED_AT: usize = 1_000;

/// First the rooms that only some may see: with `joined`, all that the caller is in, and without, the private
/// ones that they are in or invited to. Then, without `joined`, those that anybody may find.
pub async fn handle(app: App, call: Call<ListRooms>) -> Result<Reply<CursorPage<ListedRoom>>, Error> {
    let user = call.caller.user;
    let places = async { app.store.memberships(user).await.map_err(Error::from) };
    // Without a catalog rooms are listed all the same, without their matches.
    let catalog = async { Ok(app.catalog().await.ok()) };
    let (places, catalog) = try_join(places, catalog).await?;
    let mut page = Page::new(&app, &call.input, &places, catalog.as_deref());
    let from = call.input.cursor.clone().map(|cursor| cursor.position_in("")).transpose()?;
    let next_cursor = page.fill(from).await?.map(|next| Cursor::new("", next).to_string());
    Ok(CursorPage { data: page.rooms, meta: NextPage { next_cursor } }.into())
}

struct Page<'a> {
    app: &'a App,
    query: &'a RoomsQuery,
    /// What to look for; `None` where nothing of the search is left to look for.
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
        places: &'a [UserMembership],
        catalog: Option<&'a Catalog>,
    ) -> Self {
        let only_joined = query.joined == Some(true);
        let wanted = |place: &&UserMembership| {
            let about = query.event_id.is_none_or(|event| place.event_id == Some(event.0));
            about
                && match place.membership {
                    Membership::Join => only_joined || place.is_private,
                    Membership::Invite => !only_joined && place.is_private,
                    Membership::Leave => false,
                }
        };
        let mut own: Vec<&UserMembership> = places.iter().filter(wanted).collect();
        own.sort_by_key(|place| &place.room_id);
        let joined = places.iter().filter(|place| place.membership == Membership::Join);
        Self {
            app,
            query,
            needle: query.search.as_ref().and_then(|search| Needle::new(&search.0)),
            own,
            joined: joined.map(|place| &place.room_id).collect(),
            catalog,
            rooms: Vec::new(),
        }
    }

    /// Fills the page from a place on; returns where the next one begins.
    async fn fill(&mut self, from: Option<RoomsPosition>) -> Result<Option<RoomsPosition>, Error> {
        if self.query.search.is_some() && self.needle.is_none() {
            return Ok(None);
        }
        let after = match from {
            Some(RoomsPosition::Directory(place)) => Some(place),
            own => {
                let after = match own {
                    Some(RoomsPosition::Own(room)) => Some(room),
                    _ => None,
                };
                if let Some(next) = self.add_own(after.as_ref()).await? {
                    return Ok(Some(RoomsPosition::Own(next)));
                }
                None
            }
        };
        if self.query.joined == Some(true) {
            return Ok(None);
        }
        if self.wants() == 0 {
            // After the last of one's own come those of the directory.
            return Ok(self.rooms.last().map(|room| RoomsPosition::Own(room.room_id.clone())));
        }
        self.add_from_shelf(after).await
    }

    fn wants(&self) -> usize {
        self.query.per_page.0 - self.rooms.len()
    }

    fn add(&mut self, room: Room, counts: &HashMap<RoomId, i64>) {
        let members = counts.get(&room.room_id).copied().unwrap_or(0);
        let is_joined = self.joined.contains(&room.room_id);
        self.rooms.push(ListedRoom::of(room, members, is_joined, self.catalog));
    }

    async fn add_own(&mut self, after: Option<&RoomId>) -> Result<Option<RoomId>, Error> {
        let mut own = std::mem::take(&mut self.own);
        own.retain(|place| after.is_none_or(|after| place.room_id > *after));
        for part in own.chunks(50) {
            let ids: Vec<RoomId> = part.iter().map(|place| place.room_id.clone()).collect();
            let (mut found, counts) =
                try_join(self.app.store.rooms(&ids, Reads::Eventual), self.app.store.member_counts(&ids))
                    .await?;
            for id in ids {
                let Some(room) = found.remove(&id) else { continue };
                if self.needle.as_ref().is_some_and(|needle| !needle.is_in(&room.name)) {
                    continue;
                }
                if self.wants() == 0 {
                    return Ok(self.rooms.last().map(|room| room.room_id.clone()));
                }
                self.add(room, &counts);
            }
        }
        Ok(None)
    }

    async fn add_from_shelf(&mut self, mut after: Option<String>) -> Result<Option<RoomsPosition>, Error> {
        // A match's rooms are fewer than all that have a word in their names.
        let (directory, filter) = match (self.query.event_id, self.needle.clone()) {
            (Some(event), needle) => (Directory::About(event.0), needle),
            (None, Some(needle)) => (Directory::Named(needle), None),
            (None, None) => (Directory::All, None),
        };
        if after.as_ref().is_some_and(|place| !directory.has_position(place)) {
            return Err(Invalid::field(
                "cursor",
                "This cursor belongs to another search. Start from the first page.",
            )
            .into());
        }
        let mut looked_at = 0;
        loop {
            let at_once = if filter.is_some() { LOOKED_AT / 4 } else { self.wants() };
            let page = self.app.store.directory_page(&directory, after, at_once).await?;
            looked_at += at_once;
            let (mut hits, mut next) = (Vec::new(), page.next);
            for one in page.entries {
                if filter.as_ref().is_none_or(|needle| one.contains(needle)) {
                    hits.push((one.room_id, one.position));
                }
            }
            if hits.len() > self.wants() {
                hits.truncate(self.wants());
                next = hits.last().map(|(_, place)| place.clone());
            }
            let hits: Vec<RoomId> = hits.into_iter().map(|(id, _)| id).collect();
            let (mut found, counts) =
                try_join(self.app.store.rooms(&hits, Reads::Eventual), self.app.store.member_counts(&hits))
                    .await?;
            for room in hits.iter().filter_map(|id| found.remove(id)).collect::<Vec<_>>() {
                self.add(room, &counts);
            }
            // A search without a hit in so many rows is answered all the same; the next page goes on.
            if next.is_none() || self.wants() == 0 || filter.is_none() || looked_at >= LOOKED_AT {
                return Ok(next.map(RoomsPosition::Directory));
            }
            after = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
    use serde_json::{Value, json};
    use touchline_testing::TestApp;

    use crate::testing::{ROOMS, act, app, invite, list, listed, made, names, tallied};

    #[tokio::test]
    async fn what_a_room_looks_like_in_the_list() {
        let (app, [ada, ..]) = app().await;
        let room = listed(&app, &ada, "!match1:touchline.local").await.unwrap();
        assert_eq!(
            room,
            json!({
                "room_id": "!match1:touchline.local",
                "name": room["name"],
                "topic": "",
                "event": {
                    "id": 1, "home_team": "Northgate Rovers", "away_team": "São Miguel Atlético",
                    "start_time": "2026-11-15T15:00:00Z",
                },
                "member_count": 0,
                "is_joined": false,
                "is_encrypted": false,
                "last_activity": room["last_activity"],
            })
        );
        assert!(room["last_activity"].as_str().unwrap().ends_with('Z'));
    }

    async fn found(app: &TestApp, token: &str, query: &str) -> BTreeSet<String> {
        let list = list(app, token, query).await;
        names(&list).into_iter().map(str::to_owned).collect()
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[tokio::test]
    async fn private_rooms_are_for_members_and_the_invited() {
        let (app, [ada, bob, cleo]) = app().await;
        let den = made(&app, &ada, "Den of foxes", true).await;
        let _ = made(&app, &ada, "Foxes outside", false).await;
        let _ = invite(&app, &ada, &den, json!({ "user_id": 2 })).await.expect(200);
        tallied(&app).await;
        for query in ["search=FOX", "search=fox"] {
            assert_eq!(found(&app, &ada, query).await, set(&["Den of foxes", "Foxes outside"]));
            assert_eq!(found(&app, &bob, query).await, set(&["Den of foxes", "Foxes outside"]));
            assert_eq!(found(&app, &cleo, query).await, set(&["Foxes outside"]));
        }
        assert_eq!(found(&app, &ada, "joined=true").await, set(&["Den of foxes", "Foxes outside"]));
        assert_eq!(found(&app, &bob, "joined=true").await, set(&[]));
        assert_eq!(listed(&app, &bob, &den).await.unwrap()["is_joined"], false);
        let _ = act(&app, &bob, &den, "leave").await.expect(200);
        assert_eq!(found(&app, &bob, "search=foxes").await, set(&["Foxes outside"]));
    }

    #[tokio::test]
    async fn search_finds_any_part_in_any_case() {
        let (app, [ada, ..]) = app().await;
        for name in ["Banana Split", "ÉCOLE de foot", "서울 club", "a b c", "100% Derby #1"] {
            let _ = made(&app, &ada, name, false).await;
        }
        tallied(&app).await;
        for (search, hit) in [
            ("banana split", "Banana Split"),
            ("ANAN", "Banana Split"),
            ("a s", "Banana Split"),
            ("an", "Banana Split"),
            ("école", "ÉCOLE de foot"),
            ("cole de f", "ÉCOLE de foot"),
            ("서울", "서울 club"),
            ("b c", "a b c"),
            ("100%", "100% Derby #1"),
            ("#1", "100% Derby #1"),
        ] {
            let encoded = utf8_percent_encode(search, NON_ALPHANUMERIC);
            let list = list(&app, &ada, &format!("search={encoded}")).await;
            assert_eq!(names(&list), [hit], "{search}");
        }
        assert_eq!(found(&app, &ada, "search=nothing+of+that").await, set(&[]));
        // A name that holds the text twice is one room, also where pages end between.
        let page = list(&app, &ada, "search=an&per_page=1").await;
        let next = page["meta"]["next_cursor"].as_str().map(str::to_owned);
        if let Some(next) = next {
            assert_eq!(
                names(&list(&app, &ada, &format!("search=an&per_page=1&cursor={next}")).await),
                [""; 0]
            );
        }
    }

    /// Names can be made to repeat themselves; whoever searches pays for no more than a bounded part of them.
    #[tokio::test]
    async fn a_search_among_names_that_repeat_themselves_ends() {
        let (app, [ada, ..]) = app().await;
        for n in 0..15 {
            let _ = made(&app, &ada, &format!("{}{n}", "a".repeat(97)), false).await;
        }
        tallied(&app).await;
        let answer = app.get_as(&ada, &format!("{ROOMS}?search=a&per_page=100")).await;
        let cost = answer.headers["x-touchline-cost"].to_str().unwrap();
        let calls = cost.split(' ').find_map(|part| part.strip_prefix("calls=")).unwrap();
        assert!(calls.parse::<u32>().unwrap() < 20, "{cost}");
        let seen = all_pages(&app, &ada, "search=a&per_page=100").await;
        assert_eq!(seen.iter().filter(|name| name.starts_with("aaaa")).count(), 15);
    }

    async fn all_pages(app: &TestApp, token: &str, query: &str) -> Vec<String> {
        let mut seen = Vec::new();
        let mut cursor = String::new();
        loop {
            let page = list(app, token, &format!("{query}{cursor}")).await;
            seen.extend(names(&page).into_iter().map(str::to_owned));
            match page["meta"]["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return seen,
            }
        }
    }

    #[tokio::test]
    async fn pages_show_each_room_once() {
        let (app, [ada, bob, _]) = app().await;
        let mut expected = BTreeSet::new();
        for n in 0..7 {
            let _ = made(&app, &ada, &format!("Public lair {n}"), false).await;
            let _ = made(&app, &ada, &format!("Private lair {n}"), true).await;
            expected.extend([format!("Public lair {n}"), format!("Private lair {n}")]);
        }
        tallied(&app).await;
        for query in ["search=lair&per_page=3", "per_page=3", "joined=true&per_page=4"] {
            let mut seen = all_pages(&app, &ada, query).await;
            seen.retain(|name| name.contains("lair"));
            assert_eq!(seen.len(), 14, "{query}: {seen:?}");
            assert_eq!(seen.into_iter().collect::<BTreeSet<_>>(), expected);
        }
        let of_others = all_pages(&app, &bob, "per_page=2").await;
        assert_eq!(of_others.iter().filter(|name| name.contains("Private")).count(), 0);
        assert_eq!(of_others.iter().filter(|name| name.contains("Public")).count(), 7);
    }

    #[tokio::test]
    async fn rooms_about_a_match() {
        let (app, [ada, ..]) = app().await;
        for (name, is_private) in [("Corner kicks", false), ("Corner flags", true), ("Throw-ins", false)] {
            let body = json!({ "name": name, "event_id": 1, "is_private": is_private });
            let _ = app.post_as(&ada, "/api/auth/chat-room", body).await.expect(201);
        }
        let _ = made(&app, &ada, "Corner shop", false).await;
        tallied(&app).await;
        let list = list(&app, &ada, "event_id=1").await;
        assert_eq!(names(&list).len(), 4, "with the match's own room: {list}");
        assert!(list["data"].as_array().unwrap().iter().all(|room| room["event"]["id"] == 1));
        let both = found(&app, &ada, "event_id=1&search=corner").await;
        assert_eq!(both, set(&["Corner kicks", "Corner flags"]));
        assert_eq!(all_pages(&app, &ada, "event_id=1&search=corner&per_page=1").await.len(), 2);
        assert_eq!(found(&app, &ada, "event_id=77").await, set(&[]));
        assert_eq!(found(&app, &ada, "event_id=1&joined=true").await.len(), 3);
    }

    #[tokio::test]
    async fn nonsense_is_named() {
        let (app, [ada, ..]) = app().await;
        for (query, field) in [
            ("joined=maybe", "joined"),
            ("event_id=x", "event_id"),
            ("search=", "search"),
            ("per_page=0", "per_page"),
            ("per_page=101", "per_page"),
            ("cursor=x", "cursor"),
            // Of another search.
            ("search=ab&cursor=d7879", "cursor"),
        ] {
            let answer = app.get_as(&ada, &format!("{ROOMS}?{query}")).await;
            answer.expect_error(422, "validation_error");
            assert!(answer.body["errors"][field][0].is_string(), "{query}: {}", answer.body);
        }
        let list: Value = list(&app, &ada, "joined=false").await;
        assert!(!names(&list).is_empty(), "false is no filter");
    }
}
