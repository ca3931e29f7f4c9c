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
#[cfg(feature = "openapi")]
pub mod schema;
#[cfg(all(test, feature = "openapi"))]
mod schema_tests;
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

    /// The statuses of a success.
    const ANSWERS: &'static [u16];
    /// The codes of the errors that are its own, beside those that any endpoint of its kind has.
    const REFUSES: &'static [&'static str];
    /// Whether a header `Idempotency-Key` makes it safe to repeat.
    const IS_KEYED: bool;
}

/// An endpoint as a row, for everything that walks the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    pub function: &'static str,
    pub summary: &'static str,
    pub needs_token: bool,
    pub answers: &'static [u16],
    pub is_keyed: bool,
    /// The names of the fields or parameters that it takes.
    pub takes: &'static [&'static str],
    refuses: &'static [&'static str],
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
            answers: E::ANSWERS,
            is_keyed: E::IS_KEYED,
            takes: E::Input::NAMES,
            refuses: E::REFUSES,
        }
    }

    /// Whether it takes a body.
    #[must_use]
    pub fn has_body(&self) -> bool {
        self.method != Method::GET
    }

    /// The code of every error that it answers with.
    pub fn refuses(&self) -> impl Iterator<Item = &'static str> {
        let token: &[_] =
            if self.needs_token { &["token_missing", "token_invalid", "token_expired"] } else { &[] };
        let body: &[_] = if self.has_body() {
            &["malformed_json", "body_too_large", "unsupported_media_type"]
        } else {
            &[]
        };
        // A body that is no object is not valid, even where no field is looked at.
        let input: &[_] = if self.has_body() || !self.takes.is_empty() || self.is_keyed {
            &["validation_error"]
        } else {
            &[]
        };
        [token, body, input, self.refuses, &["busy", "internal"]].into_iter().flatten().copied()
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

macro_rules! endpoints {
    ($($endpoint:path),* $(,)?) => {
        /// Every endpoint there is.
        pub const ALL: &[Route] = &[$(Route::of::<$endpoint>()),*];

        /// The same, each with what its description says.
        #[cfg(feature = "openapi")]
        pub const OPERATIONS: &[fn(&mut schemars::SchemaGenerator) -> schema::Operation] =
            &[$(schema::Operation::of::<$endpoint>),*];
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

/// Declares an endpoint: `endpoint! { /// doc  Name: GET "/path", in "function", by Caller, Input => Output }`, then
/// `, answers [201]` where success is not 200, `, refuses ["code"]` for errors of its own, and `, keyed by "Header"` where
/// one makes it safe to repeat.
macro_rules! endpoint {
    (@answers) => { &[200] };
    (@answers $($status:literal),+) => { &[$($status),+] };
    (@keyed) => { false };
    (@keyed $header:literal) => { true };
    (
        $(#[doc = $summary:literal])+
        $name:ident: $method:ident $path:literal, in $function:literal, by $caller:ty, $input:ty => $output:ty
        $(, answers [$($status:literal),+])?
        $(, refuses [$($code:literal),+])?
        $(, keyed by $header:literal)?
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
            const ANSWERS: &'static [u16] = endpoint!(@answers $($($status),+)?);
            const REFUSES: &'static [&'static str] = &[$($($code),+)?];
            const IS_KEYED: bool = endpoint!(@keyed $($header)?);
        }
    };
}
pub(crate) use endpoint;

/// Declares an input: a struct whose every field reads itself from the request by its own name.
macro_rules! input {
    ($(#[$meta:meta])* $name:ident { $($(#[doc = $doc:literal])* $field:ident: $kind:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone)]
        pub struct $name {
            $($(#[doc = $doc])* pub $field: $kind),*
        }

        impl $crate::api::Input for $name {
            const NAMES: &'static [&'static str] = &[$(stringify!($field)),*];

            #[cfg(feature = "openapi")]
            fn fields() -> Vec<$crate::api::schema::TakenField> {
                vec![$($crate::api::schema::TakenField::of::<$kind>(stringify!($field), concat!($($doc),*))),*]
            }

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
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(inline))]
pub struct Data<T> {
    pub data: T,
}

/// A body of `message` and `data`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(inline))]
pub struct Message<T> {
    pub message: String,
    pub data: T,
}

/// A body that is only `message`.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Said {
    pub message: String,
}

/// A list with what a client needs to ask for the rest.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(inline))]
pub struct Listing<T> {
    pub data: Vec<T>,
    pub meta: NextPage,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct NextPage {
    /// `null` on the last page.
    pub next_cursor: Option<String>,
}

/// A list with page numbers.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema), schemars(inline))]
pub struct Paged<T> {
    pub data: Vec<T>,
    pub meta: PageMeta,
}

#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
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
