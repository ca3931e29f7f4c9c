//! Chat rooms.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::endpoint::{PathParameter, Resource};
use super::{Cursor, CursorPage, Data, Message, NoInput, PerPage, Position, SignedIn, endpoint, input};
use crate::domain::catalog::{Catalog, ListPosition};
use crate::domain::chat::Credentials;
use crate::domain::room::{League, Membership, Room, RoomId, RoomName, Topic};
use crate::domain::{Id, SearchText, Timestamp, UserId, Username};

endpoint! {
    /// Create a room
    ///
    /// A private room is encrypted and needs an invitation. The creator is the first member. A retry with the
    /// same `Idempotency-Key` returns the same room (200).
    CreateRoom: POST "/api/auth/chat-room", in "chat", by SignedIn, RoomInput => Message<RoomView>,
        status [200, 201], errors [
            EventNotFound, NoCatalogue, ReferenceReused, TooManyRooms, ConcurrentChange, RateLimited, ChatUnavailable
        ],
        idempotent by "Idempotency-Key"
}

endpoint! {
    /// List rooms
    ///
    /// The private rooms that the caller has joined or is invited to come first. The rooms of live and coming matches
    /// follow, if they have members, and then the public rooms that users created, newest first. With `joined`, the room
    /// that the caller joined last comes first.
    ListRooms: GET "/api/auth/chat-rooms", in "chat", by SignedIn, RoomsQuery => CursorPage<ListedRoom>
}

endpoint! {
    /// Read a room
    ///
    /// Only members and invited users can read a private room.
    GetRoom { chat_room: RoomId }: GET "/api/auth/chat-rooms/{chatRoom}", in "chat", by SignedIn,
        NoInput => Data<ListedRoom>,
        errors [RoomNotFound, NotAMember, NoCatalogue]
}

endpoint! {
    /// Join a room
    ///
    /// A private room needs an invitation.
    JoinRoom { matrix_room_id: RoomId }: POST "/api/auth/chat-rooms/{matrixRoomId}/join", in "chat", by SignedIn,
        NoInput => Message<MembershipView>,
        errors [RoomNotFound, NotAllowed, AlreadyAMember, TooManyRooms, ConcurrentChange, ChatUnavailable]
}

endpoint! {
    /// Leave a room
    ///
    /// Also declines an invitation.
    LeaveRoom { matrix_room_id: RoomId }: POST "/api/auth/chat-rooms/{matrixRoomId}/leave", in "chat", by SignedIn,
        NoInput => Message<MembershipView>,
        errors [RoomNotFound, NotAMember, ConcurrentChange, ChatUnavailable]
}

endpoint! {
    /// Invite a user to a room
    ///
    /// Name the user by `user_id` or by `username`.
    Invite { matrix_room_id: RoomId }: POST "/api/auth/chat-rooms/{matrixRoomId}/invite", in "chat", by SignedIn,
        InviteInput => Message<InvitationView>,
        errors [
            RoomNotFound, UserNotFound, NotAMember, NotAllowed, AlreadyAMember, TooManyInvitations, ConcurrentChange,
            RateLimited, ChatUnavailable
        ]
}

endpoint! {
    /// Read member statistics of a room
    ///
    /// In a private room, only members can read the statistics.
    MemberStats { chat_room: RoomId }: GET "/api/auth/chat-rooms/{chatRoom}/member-stats", in "chat", by SignedIn,
        NoInput => Data<MemberStatsView>,
        errors [RoomNotFound, NotAMember, NoCatalogue]
}

endpoint! {
    /// Request chat credentials again
    ///
    /// For a login that returned `matrix_credentials: null` because the homeserver did not respond.
    ChatCredentials: POST "/api/auth/chat/credentials", in "chat", by SignedIn, NoInput => Data<Credentials>,
        errors [ChatUnavailable, ChatLoginUnsupported]
}

input! {
    RoomInput {
        name: RoomName,
        topic: Option<Topic>,
        /// The id of the match that the room is about.
        event_id: Option<Id>,
        /// Whether the room is encrypted and needs an invitation. The default is `false`.
        is_private: Option<bool>,
        /// Which matches count in the room's table: its match, the tournament of its match, or all matches. The default is
        /// the match, or all matches if the room has no match. See `GET /api/auth/leaderboards`.
        league: Option<League>,
    }
}

input! {
    RoomsQuery {
        /// `true`: only rooms that the caller has joined, the last joined first.
        joined: Option<bool>,
        /// Only rooms about this match.
        event_id: Option<Id>,
        /// Only rooms with this text in their name. The search ignores case and accents.
        search: Option<SearchText>,
        per_page: PerPage<50>,
        cursor: Option<Cursor<RoomsPosition>>,
    }
}

input! {
    InviteInput {
        /// The id of the invited user. Send either this or `username`.
        user_id: Option<UserId>,
        /// The username of the invited user. Send either this or `user_id`.
        username: Option<Username>,
    }
}

impl PathParameter for RoomId {
    const RESOURCE: Resource = Resource::Room;

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "minLength": 1, "examples": ["!abc:touchline.local"],
            "description": "The Matrix id of a room, plain or percent-encoded.",
        })
    }
}

/// A position in the list of rooms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomsPosition {
    /// In the rooms that the caller has joined or is invited to, after this room.
    Own(OwnRoom),
    /// In the rooms of matches, after the match at this position.
    Match(ListPosition),
    /// In the directory of public rooms, after the room with this sort key.
    Directory(String),
}

/// The place of a room among those that the caller has joined or is invited to. Invitations come first, and then the room that
/// the caller joined last.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OwnRoom {
    joined_at: Reverse<i64>,
    pub room: RoomId,
}

impl OwnRoom {
    /// Returns the place of a room that the caller joined at this time, or is invited to.
    #[must_use]
    pub fn new(joined_at: Option<DateTime<Utc>>, room: RoomId) -> Self {
        Self { joined_at: Reverse(joined_at.map_or(i64::MAX, |at| at.timestamp_millis())), room }
    }
}

impl Position for RoomsPosition {
    const LIST: &'static str = "rooms";

    fn encode(&self) -> String {
        match self {
            Self::Own(OwnRoom { joined_at, room }) => format!("o{}{}", joined_at.0, room.as_str()),
            Self::Match(position) => format!("m{position}"),
            Self::Directory(key) => format!("d{key}"),
        }
    }

    fn decode(text: &str) -> Option<Self> {
        match text.split_at_checked(1)? {
            ("o", place) => {
                let (joined_at, room) = place.split_at(place.find('!')?);
                let joined_at = Reverse(joined_at.parse().ok()?);
                Some(Self::Own(OwnRoom { joined_at, room: RoomId::parse(room)? }))
            }
            ("m", position) => ListPosition::parse(position).map(Self::Match),
            ("d", key) if !key.is_empty() => Some(Self::Directory(key.to_owned())),
            _ => None,
        }
    }
}

/// A room.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoomView {
    /// The room's Matrix id.
    pub room_id: RoomId,
    /// The room's name.
    pub name: String,
    /// The room's topic; empty if it has none.
    pub topic: String,
    /// The id of the match that the room is about; `null` if none.
    pub event_id: Option<u32>,
    /// The id of the user who created the room; `null` if the service created it for a match.
    pub creator_id: Option<UserId>,
    /// Whether messages are encrypted end to end.
    pub is_encrypted: bool,
    /// Who can join: `public` for every user, `invite` for invited users.
    pub join_rule: &'static str,
    /// Whether the service created the room for a match; `false` for rooms of users.
    pub is_official: bool,
    /// Which matches count in the room's table: `match`, `tournament` or `all`.
    pub league: League,
}

impl From<Room> for RoomView {
    fn from(room: Room) -> Self {
        Self {
            join_rule: room.join_rule(),
            is_official: room.is_match_room(),
            league: room.league(),
            room_id: room.room_id,
            name: room.name,
            topic: room.topic,
            event_id: room.event_id,
            creator_id: room.creator_id,
            is_encrypted: room.is_private,
        }
    }
}

/// A room in a list.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ListedRoom {
    /// The room's Matrix id.
    pub room_id: RoomId,
    /// The room's name.
    pub name: String,
    /// The room's topic; empty if it has none.
    pub topic: String,
    /// The match that the room is about; `null` if none.
    pub event: Option<RoomMatch>,
    /// How many members the room has.
    pub member_count: i64,
    /// Whether the caller has joined the room.
    pub is_joined: bool,
    /// Whether messages are encrypted end to end.
    pub is_encrypted: bool,
    /// The time of the last message, or of the room's creation if it has no messages.
    pub last_activity: Timestamp,
    /// Whether the service created the room for a match; `false` for rooms of users.
    pub is_official: bool,
    /// Which matches count in the room's table: `match`, `tournament` or `all`.
    pub league: League,
}

/// The match that a listed room is about.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoomMatch {
    /// The id of the match.
    pub id: u32,
    /// The name of the home team.
    pub home_team: String,
    /// The name of the away team.
    pub away_team: String,
    /// The time of kick-off.
    pub start_time: Timestamp,
}

impl RoomMatch {
    #[must_use]
    pub fn of(catalog: &Catalog, event: u32) -> Option<Self> {
        let event = catalog.event(event)?;
        let team = |id| Some(catalog.team(id)?.name.clone());
        Some(Self {
            id: event.id,
            home_team: team(event.home_team_id)?,
            away_team: team(event.away_team_id)?,
            start_time: event.start.into(),
        })
    }
}

impl ListedRoom {
    #[must_use]
    pub fn of(room: Room, member_count: i64, is_joined: bool, catalog: Option<&Catalog>) -> Self {
        Self {
            event: room.event_id.zip(catalog).and_then(|(event, catalog)| RoomMatch::of(catalog, event)),
            member_count,
            is_joined,
            is_encrypted: room.is_private,
            is_official: room.is_match_room(),
            league: room.league(),
            last_activity: room.last_activity.into(),
            room_id: room.room_id,
            name: room.name,
            topic: room.topic,
        }
    }
}

/// The caller's membership of a room.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MembershipView {
    /// The room's Matrix id.
    pub room_id: RoomId,
    /// The caller's membership after the request.
    pub membership: Membership,
}

/// An invitation to a room.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct InvitationView {
    /// The room's Matrix id.
    pub room_id: RoomId,
    /// The id of the invited user.
    pub user_id: UserId,
    /// Always `invite`.
    pub membership: Membership,
}

/// Statistics of a room's members.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemberStatsView {
    /// How many members the room has.
    pub total_members: i64,
    /// How many members joined the room, wrote in it or predicted its match in the last 7 days.
    pub active_members: i64,
    /// How many members have predicted the room's match.
    pub predictions_made: i64,
    /// The number of members for each primary team. The key is the team's slug in snake case. `neutral` counts the
    /// members without a team and, in a match room, the supporters of other teams.
    pub team_distribution: BTreeMap<String, i64>,
    /// At most 10 members: those with the best prediction statistics over all matches.
    pub top_predictors: Vec<PredictorView>,
}

/// A member of a room, with their prediction statistics over all matches.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PredictorView {
    /// The user's id.
    pub user_id: UserId,
    /// The username.
    pub username: Username,
    /// How many of the member's predictions earned points.
    pub correct_predictions: i64,
    /// The fraction of the member's settled predictions that earned points, from 0 to 1.
    pub accuracy: f64,
}
