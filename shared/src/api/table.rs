//! The table of endpoints.

use super::endpoint::Route;
use super::{chat, coins, homeserver, login, matches, meta, predictions, profile, sms_logs, teams};

macro_rules! endpoints {
    ($($endpoint:path),* $(,)?) => {
        /// Every endpoint.
        pub const ALL: &[Route] = &[$(Route::of::<$endpoint>()),*];

        /// Every endpoint, with its schemas.
        #[cfg(feature = "openapi")]
        pub const OPERATIONS: &[fn(&mut schemars::SchemaGenerator) -> super::schema::Operation] =
            &[$(super::schema::Operation::of::<$endpoint>),*];
    };
}

endpoints! {
    login::RequestCode,
    login::VerifyCode,
    login::Login,
    login::CheckUsername,
    login::GenerateUsernames,
    login::Logout,
    profile::Me,
    profile::UpdateUserInfo,
    profile::InitiateVerification,
    profile::VerifyPhone,
    profile::ResendCode,
    matches::ListEvents,
    matches::OneEvent,
    teams::ListTeams,
    teams::SavePrimaryTeam,
    teams::SaveOtherTeams,
    predictions::Predict,
    predictions::OwnPredictions,
    predictions::EventPredictions,
    predictions::RoomPredictions,
    coins::Deduct,
    coins::ClaimDaily,
    coins::Coins,
    chat::CreateRoom,
    chat::ListRooms,
    chat::JoinRoom,
    chat::LeaveRoom,
    chat::Invite,
    chat::MemberStats,
    chat::ChatCredentials,
    homeserver::Transaction,
    homeserver::QueryUser,
    homeserver::QueryRoom,
    homeserver::Ping,
    sms_logs::ListSmsLogs,
    meta::Health,
    meta::Description,
}
