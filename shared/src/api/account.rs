//! The deletion and the export of an account.

use chrono::NaiveDate;
use serde::Serialize;

use super::coins::EntryView;
use super::login::{CodeSent, SessionView};
use super::predictions::PredictionView;
use super::{Anyone, Data, Message, MessageOnly, NoInput, SignedIn, endpoint, input};
use crate::domain::invite_link::{InviteLink, LinkCode};
use crate::domain::report::{MessageId, Report, ReportReason};
use crate::domain::room::Membership;
use crate::domain::sms::SmsStatus;
use crate::domain::{Email, Name, OneTimeCode, Phone, RoomId, Timestamp, UserId, Username};

endpoint! {
    /// Request the deletion of the account
    ///
    /// Sends a code to the account's phone number. Nothing is deleted until the code is confirmed.
    DeleteAccount: POST "/api/auth/account/delete", in "profile", by SignedIn, NoInput => Message<CodeSent>,
        errors [PhoneChangedRecently, RateLimited, SmsUnavailable]
}

endpoint! {
    /// Confirm the deletion of the account
    ///
    /// All sessions end immediately. The profile, the phone number, names, teams and memberships are deleted within a minute,
    /// and so are messages in chat while the homeserver responds. Predictions and coins stay, with the user id only.
    ConfirmDeletion:
        POST "/api/auth/account/delete/confirm", in "profile", by SignedIn, ConfirmationInput => MessageOnly,
        errors [InvalidCode, PhoneChangedRecently, RateLimited]
}

endpoint! {
    /// Delete an account without the app
    ///
    /// For people who no longer have the app. Request a code with `POST /api/code/request` and send it here. The page
    /// `/account/delete` sends both requests.
    DeleteByPhone: POST "/api/account/delete", in "profile", by Anyone, DeletionInput => MessageOnly,
        errors [InvalidCode, Suspended, UserNotFound, PhoneChangedRecently, RateLimited]
}

endpoint! {
    /// Export the caller's data
    ///
    /// The profile, sessions, blocks, reports, memberships, invite links, predictions and coins of the caller, as one document.
    /// At most 10 times a day.
    ExportAccount: GET "/api/auth/account/export", in "profile", by SignedIn, NoInput => Data<AccountExport>,
        errors [RateLimited]
}

input! {
    ConfirmationInput { code: OneTimeCode }
}

input! {
    DeletionInput { phone: Phone, code: OneTimeCode }
}

/// The data of a user.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AccountExport {
    /// When the export was made.
    pub exported_at: Timestamp,
    /// The profile.
    pub profile: ExportedProfile,
    /// The user's id on the chat network. Messages are stored there, and a Matrix client can export them.
    pub chat_user_id: String,
    /// The sessions that have not ended.
    pub sessions: Vec<SessionView>,
    /// The phone number whose verification is pending; `null` if no verification is pending.
    pub pending_verification: Option<Phone>,
    /// The text messages to the current phone number in the last 7 days.
    pub text_messages: Vec<ExportedMessage>,
    /// The users whom the user has blocked.
    pub blocks: Vec<ExportedBlock>,
    /// The reports that the user has sent.
    pub reports: Vec<ExportedReport>,
    /// The rooms that the user has joined, is invited to, or has left in the last 30 days.
    pub rooms: Vec<ExportedMembership>,
    /// The invite links that the user has made and that have not expired.
    pub invite_links: Vec<ExportedInviteLink>,
    /// The predictions, the newest first, at most 10,000.
    pub predictions: Vec<PredictionView>,
    /// The sums over all settled predictions.
    pub statistics: ExportedStatistics,
    /// The wallet.
    pub coins: ExportedCoins,
    /// Whether the export has all predictions and movements of coins. `false` if there are more than 10,000 of either.
    pub is_complete: bool,
}

/// The profile of a user.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ExportedProfile {
    /// The user's id.
    pub id: UserId,
    /// The verified phone number.
    pub phone: Phone,
    /// The previous phone number, while its owner can undo the change; otherwise `null`.
    pub previous_phone: Option<Phone>,
    /// The username.
    pub username: Username,
    /// The usernames that the user had before. Nobody else can take them.
    pub former_usernames: Vec<Username>,
    /// When the user was created.
    pub created_at: Timestamp,
    /// The name; `null` if none was given.
    pub name: Option<Name>,
    /// The e-mail address; `null` if none was given.
    pub email: Option<Email>,
    /// The date of birth; `null` if none was given.
    pub date_of_birth: Option<NaiveDate>,
    /// The id of the primary team; `null` if none was chosen.
    pub primary_team_id: Option<u32>,
    /// The ids of the favourite teams other than the primary team.
    pub other_team_ids: Vec<u32>,
    /// The number of networks from which the user has logged in. They are stored as hashes that cannot be reversed.
    pub known_networks: usize,
}

/// A text message.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ExportedMessage {
    /// Whether the message was sent.
    pub status: SmsStatus,
    /// When the service tried to send it.
    pub created_at: Timestamp,
}

/// A blocked user.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ExportedBlock {
    /// The id of the blocked user.
    pub user_id: UserId,
    /// When the user was blocked.
    pub created_at: Timestamp,
}

/// A report that the user has sent.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ExportedReport {
    /// The id of the reported user; `null` for other reports.
    pub user_id: Option<UserId>,
    /// The Matrix id of the reported room, or of the room of the reported message; `null` for other reports.
    pub room_id: Option<RoomId>,
    /// The Matrix event id of the reported message; `null` for other reports.
    pub message_id: Option<String>,
    /// The reason.
    pub reason: ReportReason,
    /// The text; `null` if there is none.
    pub text: Option<String>,
    /// When the user sent the report.
    pub created_at: Timestamp,
}

impl From<Report> for ExportedReport {
    fn from(report: Report) -> Self {
        Self {
            user_id: report.user_id,
            room_id: report.room_id,
            message_id: report.message_id.as_ref().map(MessageId::as_str).map(str::to_owned),
            reason: report.reason,
            text: report.text,
            created_at: report.opened_at.into(),
        }
    }
}

/// A membership in a room.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ExportedMembership {
    /// The Matrix id of the room.
    pub room_id: RoomId,
    /// Whether the user has joined, is invited, or has left.
    pub membership: Membership,
}

/// An invite link that the user has made.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ExportedInviteLink {
    /// The Matrix id of the room.
    pub room_id: RoomId,
    /// The code.
    pub code: LinkCode,
    /// When the user made the link.
    pub created_at: Timestamp,
    /// When the link expires.
    pub expires_at: Timestamp,
}

impl From<InviteLink> for ExportedInviteLink {
    fn from(link: InviteLink) -> Self {
        Self {
            room_id: link.room_id,
            code: link.code,
            created_at: link.created_at.into(),
            expires_at: link.expires_at.into(),
        }
    }
}

/// The sums over all settled predictions of a user.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ExportedStatistics {
    /// The number of settled predictions.
    pub settled: i64,
    /// The number of correct predictions.
    pub correct: i64,
    /// The points.
    pub points: i64,
}

/// The wallet of a user.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ExportedCoins {
    /// The coins in the wallet.
    pub balance: i64,
    /// The movements of coins, the newest first, at most 10,000.
    pub entries: Vec<EntryView>,
}
