//! Invite links of rooms.

use serde::Serialize;

use super::chat::MembershipView;
use super::endpoint::{PathParameter, Resource};
use super::{Message, MessageOnly, NoInput, SignedIn, endpoint, input};
use crate::domain::invite_link::{InviteLink, LinkCode, LinkHours};
use crate::domain::{RoomId, Timestamp};

endpoint! {
    /// Create an invite link for a room
    ///
    /// Any member can create a link. Everybody with its code can join the room, also a private one. A member has one link for
    /// a room: while it is valid, another request returns the same code (200). If the request has `expires_in_hours`, it
    /// sets when this link expires. The link does not work while its maker is not a member of the room.
    CreateInviteLink { chat_room: RoomId }: POST "/api/auth/chat-rooms/{chatRoom}/invite-link", in "chat", by SignedIn,
        InviteLinkInput => Message<InviteLinkView>,
        status [200, 201], errors [RoomNotFound, NotAMember, ConcurrentChange, RateLimited]
}

endpoint! {
    /// Revoke invite links of a room
    ///
    /// Revokes the caller's link. If the caller created the room, it revokes the links of all members. Revoking again changes
    /// nothing.
    RevokeInviteLink { chat_room: RoomId }: DELETE "/api/auth/chat-rooms/{chatRoom}/invite-link", in "chat", by SignedIn,
        NoInput => MessageOnly, errors [RoomNotFound, NotAMember]
}

endpoint! {
    /// Join a room with an invite link
    ///
    /// Also joins a private room. If the caller is a member already, the response is the same. Wrong, expired and revoked
    /// codes are 404 `invite_link_not_found`. A user can enter 50 different codes a day.
    AcceptInviteLink { code: LinkCode }: POST "/api/auth/invite-links/{code}/accept", in "chat", by SignedIn,
        NoInput => Message<MembershipView>,
        errors [
            InviteLinkNotFound, NotAllowed, TooManyRooms, ConcurrentChange, RateLimited, ChatUnavailable, RoomNotFound
        ]
}

input! {
    InviteLinkInput {
        /// How long the link is valid. The default for a new link is a week.
        expires_in_hours: Option<LinkHours>,
    }
}

impl PathParameter for LinkCode {
    const RESOURCE: Resource = Resource::InviteLink;

    fn parse(text: &str) -> Option<Self> {
        Self::parse(text)
    }

    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value {
        serde_json::json!({
            "type": "string", "minLength": 1, "examples": ["K7QWERTY2345"],
            "description": "The code of an invite link, in upper or lower case.",
        })
    }
}

/// An invite link.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct InviteLinkView {
    /// The code with which users join the room.
    pub code: LinkCode,
    /// The room's Matrix id.
    pub room_id: RoomId,
    /// When the link expires.
    pub expires_at: Timestamp,
}

impl From<InviteLink> for InviteLinkView {
    fn from(link: InviteLink) -> Self {
        Self { code: link.code, room_id: link.room_id, expires_at: link.expires_at.into() }
    }
}
