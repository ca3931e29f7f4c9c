//! What can be asked of the service: one type per endpoint, and [`ALL`], the table of them.
//!
//! A path is written here and nowhere else in the product. Functions register handlers by these types; the
//! contract tests hold `template.yaml`, `events/` and the functions to the table.

pub mod chat;
pub mod coins;
mod fields;
pub mod homeserver;
pub mod login;
pub mod matches;
pub mod meta;
pub mod predictions;
pub mod profile;
pub mod sms_logs;
pub mod teams;

use lambda_http::http::Method;
use serde::Serialize;

pub use fields::{Field, Fields, Input, Invalid, Nothing, Raw};

use crate::http::Caller;

/// One route: its address, who serves it, who may call it, what goes in and what comes out.
pub trait Endpoint: Send + Sync + 'static {
    const METHOD: Method;
    /// Segments in braces are parameters.
    const PATH: &'static str;
    /// The function that serves it: a folder under `functions/`, a binary, a resource of the template.
    const FUNCTION: &'static str;
    /// What it does, in a few words.
    const SUMMARY: &'static str;

    /// Who may call: [`crate::http::Anyone`] or [`crate::http::SignedIn`].
    type Caller: Caller;
    /// Body fields of a POST or PUT, query parameters of a GET.
    type Input: Input;
    /// The whole body of a success.
    type Output: Serialize + Send;
}

/// An endpoint as a row, for everything that walks the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub function: &'static str,
    pub summary: &'static str,
    pub needs_token: bool,
}

impl Route {
    #[must_use]
    pub const fn of<E: Endpoint>() -> Self {
        Self {
            method: E::METHOD,
            path: E::PATH,
            function: E::FUNCTION,
            summary: E::SUMMARY,
            needs_token: E::Caller::NEEDS_TOKEN,
        }
    }
}

/// A path without its parameters' names: the interface gives the same segment several, and a router must not
/// mind.
#[must_use]
pub fn shape(path: &str) -> String {
    let mut next = 0;
    let segments = path.split('/').map(|segment| {
        if segment.starts_with('{') {
            next += 1;
            format!("{{{next}}}")
        } else {
            segment.to_owned()
        }
    });
    segments.collect::<Vec<_>>().join("/")
}

/// The names of a path's parameters, in their order.
pub fn parameter_names(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

/// Every endpoint there is.
pub const ALL: &[Route] = &[
    Route::of::<login::RequestCode>(),
    Route::of::<login::VerifyCode>(),
    Route::of::<login::Login>(),
    Route::of::<login::CheckUsername>(),
    Route::of::<login::GenerateUsernames>(),
    Route::of::<login::Logout>(),
    Route::of::<profile::Me>(),
    Route::of::<profile::UpdateUserInfo>(),
    Route::of::<profile::InitiateVerification>(),
    Route::of::<profile::VerifyPhone>(),
    Route::of::<profile::ResendCode>(),
    Route::of::<matches::ListEvents>(),
    Route::of::<matches::OneEvent>(),
    Route::of::<teams::ListTeams>(),
    Route::of::<teams::SavePrimaryTeam>(),
    Route::of::<teams::SaveOtherTeams>(),
    Route::of::<predictions::Predict>(),
    Route::of::<predictions::OwnPredictions>(),
    Route::of::<predictions::EventPredictions>(),
    Route::of::<predictions::RoomPredictions>(),
    Route::of::<coins::Deduct>(),
    Route::of::<coins::ClaimDaily>(),
    Route::of::<coins::Coins>(),
    Route::of::<chat::CreateRoom>(),
    Route::of::<chat::ListRooms>(),
    Route::of::<chat::JoinRoom>(),
    Route::of::<chat::LeaveRoom>(),
    Route::of::<chat::Invite>(),
    Route::of::<chat::MemberStats>(),
    Route::of::<chat::ChatCredentials>(),
    Route::of::<homeserver::Transaction>(),
    Route::of::<homeserver::QueryUser>(),
    Route::of::<homeserver::QueryRoom>(),
    Route::of::<homeserver::Ping>(),
    Route::of::<sms_logs::ListSmsLogs>(),
    Route::of::<meta::Health>(),
];

/// Declares an endpoint: `endpoint! { /// doc  Name: GET "/path", in "function", by Caller, Input => Output }`.
macro_rules! endpoint {
    (
        $(#[doc = $summary:literal])+
        $name:ident: $method:ident $path:literal, in $function:literal, by $caller:ty, $input:ty => $output:ty
    ) => {
        $(#[doc = $summary])+
        #[derive(Debug)]
        pub struct $name;

        impl $crate::api::Endpoint for $name {
            const METHOD: lambda_http::http::Method = lambda_http::http::Method::$method;
            const PATH: &'static str = $path;
            const FUNCTION: &'static str = $function;
            const SUMMARY: &'static str = concat!($($summary),+).trim_ascii();
            type Caller = $caller;
            type Input = $input;
            type Output = $output;
        }
    };
}
pub(crate) use endpoint;

/// Declares an input: a struct whose every field reads itself from the request by its own name.
macro_rules! input {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $kind:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $kind),*
        }

        impl $crate::api::Input for $name {
            fn read(from: &mut $crate::api::Fields<'_>) -> Option<Self> {
                // All fields are read before any is missed, so that an answer names every fault at once.
                $(let $field = from.take::<$kind>(stringify!($field));)*
                Some(Self { $($field: $field?),* })
            }
        }
    };
}
pub(crate) use input;

/// A body that is only `data`.
#[derive(Debug, Clone, Serialize)]
pub struct Data<T> {
    pub data: T,
}

/// A body of `message` and `data`.
#[derive(Debug, Clone, Serialize)]
pub struct Message<T> {
    pub message: String,
    pub data: T,
}

/// A body that is only `message`.
#[derive(Debug, Clone, Serialize)]
pub struct Said {
    pub message: String,
}

/// A list with what a client needs to ask for the rest.
#[derive(Debug, Clone, Serialize)]
pub struct Listing<T> {
    pub data: Vec<T>,
    pub meta: NextPage,
}

#[derive(Debug, Clone, Serialize)]
pub struct NextPage {
    /// `null` on the last page.
    pub next_cursor: Option<String>,
}

/// A list with page numbers.
#[derive(Debug, Clone, Serialize)]
pub struct Paged<T> {
    pub data: Vec<T>,
    pub meta: PageMeta,
}

#[derive(Debug, Clone, Serialize)]
pub struct PageMeta {
    pub current_page: usize,
    pub last_page: usize,
    pub per_page: usize,
    pub total: usize,
}

/// An id, or another whole number from 0 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number(pub u32);

/// Which page, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageNumber(pub usize);

/// How many rows a list with page numbers answers at once: 1 to 100, or 20.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSize(pub usize);

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchText(pub String);

/// Up to 5 teams, none twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TeamIds(pub Vec<u32>);

/// How many rows a list without page numbers answers at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerPage(pub usize);

impl Default for PerPage {
    fn default() -> Self {
        Self(50)
    }
}
