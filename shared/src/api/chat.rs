//! Chat rooms.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{Data, Listing, Message, Nothing, Number, PerPage, SearchText, endpoint, input};
use crate::domain::catalog::Catalog;
use crate::domain::room::{Membership, Room, RoomId, RoomName, Topic};
use crate::domain::{Reason, Timestamp, UserId, Username};
use crate::http::SignedIn;
use crate::ports::chat::Credentials;

endpoint! {
    /// Make a room.
    CreateRoom: POST "/api/auth/chat-room", in "chat", by SignedIn, RoomInput => Message<RoomView>,
        answers [200, 201], refuses ["event_not_found", "no_catalogue", "reference_reused", "chat_unavailable"], keyed by "Idempotency-Key"
}

endpoint! {
    /// List rooms: those of one's own that are private, then those that anybody may find.
    ListRooms: GET "/api/auth/chat-rooms", in "chat", by SignedIn, RoomsQuery => Listing<ListedRoom>
}

endpoint! {
    /// Join a room.
    JoinRoom: POST "/api/auth/chat-rooms/{matrixRoomId}/join", in "chat", by SignedIn,
        Nothing => Message<MembershipView>,
        refuses ["room_not_found", "not_allowed", "already_a_member", "chat_unavailable"]
}

endpoint! {
    /// Leave a room, or turn an invitation down.
    LeaveRoom: POST "/api/auth/chat-rooms/{matrixRoomId}/leave", in "chat", by SignedIn,
        Nothing => Message<MembershipView>,
        refuses ["room_not_found", "not_a_member", "chat_unavailable"]
}

endpoint! {
    /// Invite somebody into a room.
    Invite: POST "/api/auth/chat-rooms/{matrixRoomId}/invite", in "chat", by SignedIn,
        InviteInput => Message<InvitationView>,
        refuses ["room_not_found", "user_not_found", "not_a_member", "not_allowed", "already_a_member", "chat_unavailable"]
}

endpoint! {
    /// What is known of a room's members.
    MemberStats: GET "/api/auth/chat-rooms/{chatRoom}/member-stats", in "chat", by SignedIn,
        Nothing => Data<MemberStatsView>,
        refuses ["room_not_found", "not_a_member", "no_catalogue"]
}

endpoint! {
    /// Ask for chat credentials again.
    ChatCredentials: POST "/api/auth/chat/credentials", in "chat", by SignedIn, Nothing => Data<Credentials>,
        refuses ["chat_unavailable", "chat_login_unsupported"]
}

input! {
    RoomInput { name: RoomName, topic: Option<Topic>, event_id: Option<Number>, is_private: Option<bool> }
}

input! {
    RoomsQuery {
        /// `true`: those that one has joined alone.
        joined: Option<bool>,
        event_id: Option<Number>,
        search: Option<SearchText>,
        per_page: PerPage,
        cursor: Option<RoomsCursor>,
    }
}

input! {
    InviteInput {
        /// Whom to invite: this, or `username`.
        user_id: Option<UserId>,
        /// Whom to invite: this, or `user_id`.
        username: Option<Username>,
    }
}

/// A place in a list of rooms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomsCursor {
    /// Among one's own, after a room.
    Own(RoomId),
    /// In a directory, after a place.
    Shelf(String),
}

impl RoomsCursor {
    pub(super) fn parse(text: &str) -> Result<Self, Reason> {
        let not_ours = || Reason::from("is not a cursor of this list");
        let (kind, hex) = text.split_at_checked(1).ok_or_else(not_ours)?;
        let bytes = (0..hex.len())
            .step_by(2)
            .map(|at| hex.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok()))
            .collect::<Option<Vec<u8>>>();
        let place = bytes.and_then(|bytes| String::from_utf8(bytes).ok()).ok_or_else(not_ours)?;
        let cursor = match kind {
            "o" => RoomId::parse(&place).map(Self::Own),
            "d" => (!place.is_empty() && place.len() <= 1_000).then_some(Self::Shelf(place)),
            _ => None,
        };
        // Only as we write it.
        cursor.filter(|cursor| cursor.to_string() == text).ok_or_else(not_ours)
    }
}

impl fmt::Display for RoomsCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, place) = match self {
            Self::Own(room) => ("o", room.as_str()),
            Self::Shelf(place) => ("d", place.as_str()),
        };
        f.write_str(kind)?;
        place.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoomView {
    pub room_id: RoomId,
    pub name: String,
    pub topic: String,
    pub event_id: Option<u32>,
    pub creator_id: Option<UserId>,
    pub is_encrypted: bool,
    /// `public` or `invite`.
    pub join_rule: &'static str,
}

impl From<Room> for RoomView {
    fn from(room: Room) -> Self {
        Self {
            join_rule: room.join_rule(),
            room_id: room.room_id,
            name: room.name,
            topic: room.topic,
            event_id: room.event_id,
            creator_id: room.creator_id,
            is_encrypted: room.is_private,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ListedRoom {
    pub room_id: RoomId,
    pub name: String,
    pub topic: String,
    pub event: Option<RoomEvent>,
    pub member_count: i64,
    pub is_joined: bool,
    pub is_encrypted: bool,
    pub last_activity: Timestamp,
}

/// A room's match, as far as a list of rooms shows it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RoomEvent {
    pub id: u32,
    pub home_team: String,
    pub away_team: String,
    pub start_time: Timestamp,
}

impl RoomEvent {
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
            event: room.event_id.zip(catalog).and_then(|(event, catalog)| RoomEvent::of(catalog, event)),
            member_count,
            is_joined,
            is_encrypted: room.is_private,
            last_activity: room.last_activity.into(),
            room_id: room.room_id,
            name: room.name,
            topic: room.topic,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MembershipView {
    pub room_id: RoomId,
    pub membership: Membership,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct InvitationView {
    pub room_id: RoomId,
    pub user_id: UserId,
    pub membership: Membership,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct MemberStatsView {
    pub total_members: i64,
    pub active_members: i64,
    pub predictions_made: i64,
    /// Members by team, under its slug with `_` for `-`, and those for none of them under `neutral`.
    pub team_distribution: BTreeMap<String, i64>,
    pub top_predictors: Vec<PredictorView>,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PredictorView {
    pub user_id: UserId,
    pub username: Username,
    pub correct_predictions: i64,
    pub accuracy: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back() {
        let own = RoomsCursor::Own(RoomId::parse("!a:b").unwrap());
        let shelf = RoomsCursor::Shelf("corner v town#1763#0".into());
        for cursor in [own, shelf] {
            assert_eq!(RoomsCursor::parse(&cursor.to_string()), Ok(cursor));
        }
        for text in ["", "o", "d", "o2", "oé", "ozz", "o6162", "d6", "x61", "d0G", "D61", "dé1", "d6A"] {
            assert!(RoomsCursor::parse(text).is_err(), "{text}");
        }
    }
}
