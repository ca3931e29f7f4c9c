//! The rooms of the fans.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use touchline::App;
use touchline::domain::catalog::{Catalog, Match, Status};
use touchline::domain::room::{self, Day, League, Member, Membership, Room, RoomId};
use touchline::domain::{Username, digest};
use touchline::flows::rooms::lock_username;
use touchline::ports::chat::NewRoom;
use touchline::storage::Reads;
use touchline::storage::members::MembershipRequest;
use touchline::storage::rooms::RoomCreationRequest;

use super::{CONCURRENT, Gathering, Registered, delivered, text};
use crate::demo;
use crate::draw::draw;

/// A room that a fan has created.
struct FanRoom {
    name: &'static str,
    topic: &'static str,
    league: League,
    /// The tournament of the room's match, by its index in the demo league. `None` for a room without a match.
    tournament: Option<u32>,
    members: usize,
}

const ROOMS: [FanRoom; 6] = [
    FanRoom {
        name: "Northgate away end",
        topic: "Every away match, every season",
        league: League::Tournament,
        tournament: Some(0),
        members: 30,
    },
    FanRoom {
        name: "Five minutes of stoppage time",
        topic: "All leagues, all matches",
        league: League::All,
        tournament: None,
        members: 22,
    },
    FanRoom {
        name: "Skyline after dark",
        topic: "Late kick-offs on the other side of the ocean",
        league: League::Tournament,
        tournament: Some(1),
        members: 16,
    },
    FanRoom {
        name: "Southern Cross breakfast club",
        topic: "Football before work",
        league: League::Tournament,
        tournament: Some(2),
        members: 10,
    },
    FanRoom {
        name: "Saturday at Cliff Road",
        topic: "",
        league: League::Match,
        tournament: Some(0),
        members: 13,
    },
    FanRoom {
        name: "Harbour commuters",
        topic: "Predictions from the ferry",
        league: League::Tournament,
        tournament: Some(0),
        members: 5,
    },
];

/// Fans join the rooms of this many upcoming matches of the first tournament.
const MATCH_ROOMS: usize = 2;
const MATCH_ROOM_MEMBERS: u32 = 8;

impl Gathering<'_> {
    /// Opens the rooms, and lets fans join them. Returns the number of rooms. A homeserver does not know the fans, so
    /// with one there are no rooms.
    pub(super) async fn open_rooms(&self, fans: &[Registered]) -> Result<usize, String> {
        let chat = self.apps.get("chat")?;
        if chat.config.chat.homeserver.is_some() {
            return Ok(0);
        }
        let catalog = self.catalog().await?;
        for (number, fan_room) in (0..).zip(&ROOMS) {
            let members = members(number, fan_room.members, fans);
            let Some(creator) = members.first() else { continue };
            let room = match existing(chat, fan_room).await? {
                Some(room) => room,
                None => create(chat, fan_room, &catalog, *creator).await?,
            };
            join_all(chat, &room, &members).await?;
        }
        let next = next_matches(&catalog, 0).take(MATCH_ROOMS);
        for event in next.cloned().collect::<Vec<_>>() {
            let Some(id) = RoomId::parse(&event.room) else { continue };
            let Some(room) = chat.store.room(&id).await.map_err(text)? else { continue };
            let count = MATCH_ROOM_MEMBERS + draw(event.id, 0) % MATCH_ROOM_MEMBERS;
            join_all(chat, &room, &members(event.id, count as usize, fans)).await?;
        }
        Ok(ROOMS.len())
    }
}

/// Returns some fans, always the same for a number.
fn members(number: u32, count: usize, fans: &[Registered]) -> Vec<Registered> {
    let mut members = fans.to_vec();
    members.sort_by_key(|(fan, _)| draw(number + 1, fan.0));
    members.truncate(count);
    members
}

/// Returns the matches of a tournament of the demo league that have not begun, in the order of their kick-offs.
fn next_matches(catalog: &Catalog, index: u32) -> impl Iterator<Item = &Match> {
    let mut events: Vec<&Match> = catalog
        .events()
        .filter(|event| {
            event.tournament_id == demo::tournament_id(index) && event.status == Status::Scheduled
        })
        .collect();
    events.sort_by_key(|event| event.start);
    events.into_iter()
}

/// Returns the nonce of a room. The id of the room depends on it.
fn nonce(room: &FanRoom) -> String {
    digest(&["room of the demo league", room.name])
}

fn new_room<'a>(room: &'a FanRoom, nonce: &'a str, creator: &'a Username) -> NewRoom<'a> {
    NewRoom { creator, nonce, name: room.name, topic: room.topic, is_private: false }
}

async fn existing(chat: &App, room: &FanRoom) -> Result<Option<Room>, String> {
    // Without a homeserver, the id of a room depends only on the nonce.
    let nobody = Username::parse("nobody").map_err(|_| "an invalid name")?;
    let id = chat.chat.create_room(new_room(room, &nonce(room), &nobody)).await.map_err(text)?;
    Ok(chat.store.any_room(&id).await.map_err(text)?.map(|found| found.room))
}

/// Creates a room, as a request of the creator does.
async fn create(chat: &App, new: &FanRoom, catalog: &Catalog, creator: Registered) -> Result<Room, String> {
    let user = chat.store.find_user(creator.1).await.map_err(text)?.ok_or("a fan is missing")?;
    let nonce = nonce(new);
    let request = RoomCreationRequest { user: user.id, digest: &nonce, content: &nonce, has_key: true };
    chat.store.begin_room_creation(&request, &nonce, chat.clock.now()).await.map_err(text)?;
    lock_username(chat, &user).await.map_err(text)?;
    let room_id = chat.chat.create_room(new_room(new, &nonce, &user.username)).await.map_err(text)?;
    let now = chat.clock.now();
    // The fifth of the next matches: one that does not begin soon after the first start.
    let event_id = new.tournament.and_then(|index| next_matches(catalog, index).nth(4)).map(|event| event.id);
    let room = Room {
        room_id,
        name: new.name.to_owned(),
        topic: new.topic.to_owned(),
        event_id,
        league: Some(new.league),
        creator_id: Some(user.id),
        is_private: false,
        shards: room::member_shards(false),
        created_at: now,
        last_activity: now,
        removed_at: None,
    };
    let member = Member {
        room_id: room.room_id.clone(),
        user_id: user.id,
        membership: Membership::Join,
        event_id: room.event_id,
        is_private: false,
        pick: None,
        edits: None,
        team: None,
        unranked: false,
        seen: Some(Day::of(now)),
        asked: None,
        heard: None,
    };
    delivered(async { chat.store.finish_room_creation(&room, &member, &request).await.map_err(text) })
        .await?;
    Ok(room)
}

/// Lets fans join a room. The last one joins after all others: if they are a member, an earlier start has finished the
/// room.
async fn join_all(chat: &App, room: &Room, members: &[Registered]) -> Result<(), String> {
    let Some((last, others)) = members.split_last() else { return Ok(()) };
    if room.removed_at.is_some()
        || chat.store.member(room, last.1, Reads::Consistent).await.map_err(text)?.is_some()
    {
        return Ok(());
    }
    delivered(async {
        let joins: Vec<_> = others.iter().map(|member| join(chat, room, *member)).collect();
        let joined: Result<Vec<()>, String> =
            stream::iter(joins).buffer_unordered(CONCURRENT).try_collect().await;
        joined?;
        join(chat, room, *last).await
    })
    .await
}

async fn join(chat: &App, room: &Room, member: Registered) -> Result<(), String> {
    let user = chat.store.find_user(member.1).await.map_err(text)?.ok_or("a fan is missing")?;
    lock_username(chat, &user).await.map_err(text)?;
    chat.chat.join(room, &user.username, true).await.map_err(text)?;
    let request = MembershipRequest::new(room, user.id, None, chat.clock.now(), chat.random.number());
    chat.store.join(&request).await.map_err(text)?;
    Ok(())
}
