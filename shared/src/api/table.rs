//! The table of all endpoints.

use super::endpoint::Route;
use super::{
    account, blocks, chat, coins, homeserver, invite_links, leaderboards, login, matches, meta, predictions,
    profile, reports, sms_logs, teams, users,
};

macro_rules! endpoints {
    ($($endpoint:path),* $(,)?) => {
        /// The routes of all endpoints.
        pub const ALL: &[Route] = &[$(Route::of::<$endpoint>()),*];

        /// One `fn` per endpoint. It describes the endpoint, including its JSON Schemas. The generator
        /// collects the schemas that several endpoints use.
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
    login::ListSessions,
    login::RevokeSession,
    login::UndoPhoneChange,
    profile::Me,
    profile::UpdateUserInfo,
    profile::InitiateVerification,
    profile::VerifyPhone,
    profile::ResendCode,
    account::DeleteAccount,
    account::ConfirmDeletion,
    account::DeleteByPhone,
    account::ExportAccount,
    users::SearchUsers,
    users::UserProfile,
    matches::ListUpcoming,
    matches::ListEvents,
    matches::OneEvent,
    matches::ListTournaments,
    teams::ListTeams,
    teams::ListSports,
    teams::SavePrimaryTeam,
    teams::SaveOtherTeams,
    predictions::Predict,
    predictions::OwnPredictions,
    predictions::EventPredictions,
    predictions::RoomPredictions,
    leaderboards::Leaderboard,
    coins::Deduct,
    coins::ClaimDaily,
    coins::Coins,
    chat::CreateRoom,
    chat::ListRooms,
    chat::GetRoom,
    chat::JoinRoom,
    chat::LeaveRoom,
    chat::Invite,
    invite_links::CreateInviteLink,
    invite_links::RevokeInviteLink,
    invite_links::AcceptInviteLink,
    chat::MemberStats,
    chat::ChatCredentials,
    blocks::BlockUser,
    blocks::UnblockUser,
    blocks::ListBlocks,
    reports::CreateReport,
    homeserver::Transaction,
    homeserver::QueryUser,
    homeserver::QueryRoom,
    homeserver::Ping,
    sms_logs::ListSmsLogs,
    meta::Health,
    meta::Description,
    meta::DeletionPage,
}

#[cfg(test)]
mod tests {
    use super::ALL;
    use crate::api::{ErrorCode, parameter_names};

    /// Paths use `camelCase`, fields `snake_case`.
    #[test]
    fn endpoint_fields_are_named_like_the_path_parameters() {
        let snake_case = |name: &str| {
            name.chars().fold(String::new(), |text, c| {
                let separator = if c.is_ascii_uppercase() { "_" } else { "" };
                format!("{text}{separator}{}", c.to_ascii_lowercase())
            })
        };
        for route in ALL {
            let names: Vec<String> = parameter_names(route.path).map(snake_case).collect();
            assert_eq!(names, route.parameters, "{} {}", route.method, route.path);
        }
    }

    #[test]
    fn every_error_code_belongs_to_an_endpoint() {
        for code in ErrorCode::ALL {
            assert!(ALL.iter().any(|route| route.errors().any(|declared| declared == *code)), "{code}");
        }
    }

    #[test]
    fn no_endpoint_declares_an_error_code_twice() {
        for route in ALL {
            let mut codes: Vec<ErrorCode> = route.errors().collect();
            codes.sort_unstable();
            assert!(codes.is_sorted_by(|a, b| a < b), "{} {}: {codes:?}", route.method, route.path);
        }
    }
}
