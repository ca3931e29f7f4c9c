//! Reports about users, rooms and messages.

use serde::Serialize;

use super::{Message, SignedIn, endpoint, input};
use crate::domain::report::{MessageId, ReportReason, ReportText};
use crate::domain::{RoomId, Timestamp, UserId};

endpoint! {
    /// Report a user, a room or a message
    ///
    /// Send exactly one of `user_id`, `room_id` and `message_id`; a message can come with the `room_id` of its room. A
    /// second report about the same subject replaces the reason and the text of the first (200).
    CreateReport: POST "/api/auth/reports", in "chat", by SignedIn, ReportInput => Message<ReportView>,
        status [200, 201], errors [UserNotFound, RoomNotFound, ConcurrentChange, RateLimited]
}

input! {
    ReportInput {
        /// The id of the reported user.
        user_id: Option<UserId>,
        /// The Matrix id of the reported room, or of the room of the reported message.
        room_id: Option<RoomId>,
        /// The Matrix event id of the reported message.
        message_id: Option<MessageId>,
        /// Why the caller reports it.
        reason: ReportReason,
        /// More about the reason.
        text: Option<ReportText>,
    }
}

/// A report that was received.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ReportView {
    /// The id of the report.
    pub id: String,
    /// The reason.
    pub reason: ReportReason,
    /// When the caller first reported the subject.
    pub created_at: Timestamp,
}
