//! What an endpoint is, and how one is declared.

use lambda_http::http::Method;
use serde::Serialize;

use super::{Caller, ErrorCode, Input};

/// One endpoint: its route, the function that serves it, who may call it, its input and its output.
///
/// The type itself holds the parsed parameters of its path.
pub trait Endpoint: Sized + Send + Sync + 'static {
    const METHOD: Method;
    /// Segments in braces are parameters.
    const PATH: &'static str;
    /// The names of the fields that hold the path's parameters, in the order of the path.
    const PARAMETERS: &'static [&'static str];
    /// The function that serves it: a folder under `functions/`, a binary, a resource of the template.
    const FUNCTION: &'static str;
    /// What it does, in a few words.
    const SUMMARY: &'static str;
    /// What a client has to know beyond the summary.
    const DESCRIPTION: &'static str;

    type Caller: Caller;
    /// Body fields of a POST or PUT, query parameters of a GET.
    type Input: Input;
    /// The whole body of a success.
    type Output: Serialize + Send;

    /// The statuses of a success.
    const STATUSES: &'static [u16];
    /// The errors of this endpoint, beside those that every endpoint of its kind has.
    const ERRORS: &'static [ErrorCode];
    /// The header that makes retries safe, if it reads one.
    const IDEMPOTENCY_HEADER: Option<&'static str>;

    /// Parses the parameters of the path.
    fn from_path(values: &[String]) -> Result<Self, UnknownId>;

    #[cfg(feature = "openapi")]
    fn path_schemas() -> Vec<serde_json::Value>;
}

/// A parameter of a path.
pub trait PathParameter: Sized {
    /// The kind of thing it identifies. Text that cannot be an id gives its 404.
    const KIND: Kind;

    fn parse(text: &str) -> Option<Self>;

    /// Its JSON Schema, with a description.
    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value;
}

/// What a parameter of a path identifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Event,
    Room,
    User,
    Transaction,
}

/// A parameter of a path that cannot be an id of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a path parameter is not the id of a {0:?}")]
pub struct UnknownId(pub Kind);

/// Parses one parameter of a path.
pub fn path_parameter<T: PathParameter>(values: &[String], at: usize) -> Result<T, UnknownId> {
    values.get(at).and_then(|text| T::parse(text)).ok_or(UnknownId(T::KIND))
}

/// An endpoint as a row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// The fields that hold the path's parameters.
    pub parameters: &'static [&'static str],
    pub function: &'static str,
    pub summary: &'static str,
    pub description: &'static str,
    pub needs_token: bool,
    pub statuses: &'static [u16],
    pub idempotency_header: Option<&'static str>,
    /// The names of its body fields or query parameters.
    pub fields: &'static [&'static str],
    own_errors: &'static [ErrorCode],
}

impl Route {
    #[must_use]
    pub const fn of<E: Endpoint>() -> Self {
        Self {
            method: E::METHOD,
            path: E::PATH,
            parameters: E::PARAMETERS,
            function: E::FUNCTION,
            summary: E::SUMMARY,
            description: E::DESCRIPTION,
            needs_token: E::Caller::NEEDS_TOKEN,
            statuses: E::STATUSES,
            idempotency_header: E::IDEMPOTENCY_HEADER,
            fields: E::Input::NAMES,
            own_errors: E::ERRORS,
        }
    }

    /// Whether it takes a body.
    #[must_use]
    pub fn has_body(&self) -> bool {
        self.method != Method::GET
    }

    /// Every error code that it can respond with.
    pub fn errors(&self) -> impl Iterator<Item = ErrorCode> {
        use ErrorCode as E;
        let token: &[_] =
            if self.needs_token { &[E::TokenMissing, E::TokenInvalid, E::TokenExpired] } else { &[] };
        let body: &[_] =
            if self.has_body() { &[E::MalformedJson, E::BodyTooLarge, E::UnsupportedMediaType] } else { &[] };
        // A body that is not an object is invalid, even for an endpoint without fields.
        let has_input = self.has_body() || !self.fields.is_empty() || self.idempotency_header.is_some();
        let input: &[_] = if has_input { &[E::ValidationError] } else { &[] };
        [token, body, input, self.own_errors, &[E::Busy, E::Internal]].into_iter().flatten().copied()
    }
}

/// A path with numbers in place of its parameters' names. The interface gives one segment several names, but a
/// router needs one.
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

/// Declares an endpoint:
///
/// ```text
/// endpoint! {
///     /// The summary, one line.
///     ///
///     /// The description.
///     Name { parameter: Type }: GET "/path/{parameter}", in "function", by Caller, Input => Output,
///         status [201], errors [EventNotFound], idempotent by "Idempotency-Key"
/// }
/// ```
///
/// `{ parameter: Type }` is for paths with parameters, in the order of the path. `status`, `errors` and
/// `idempotent by` are optional; a success is 200 by default.
macro_rules! endpoint {
    (@statuses) => { &[200] };
    (@statuses $($status:literal),+) => { &[$($status),+] };
    (@header) => { None };
    (@header $header:literal) => { Some($header) };
    (
        #[doc = $summary:literal]
        $(#[doc = $description:literal])*
        $name:ident $({ $($parameter:ident: $kind:ty),+ })?:
        $method:ident $path:literal, in $function:literal, by $caller:ty, $input:ty => $output:ty
        $(, status [$($status:literal),+])?
        $(, errors [$($code:ident),+])?
        $(, idempotent by $header:literal)?
    ) => {
        #[doc = $summary]
        $(#[doc = $description])*
        #[derive(Debug, Clone)]
        pub struct $name {
            $($(pub $parameter: $kind),+)?
        }

        impl $crate::api::Endpoint for $name {
            const METHOD: lambda_http::http::Method = lambda_http::http::Method::$method;
            const PATH: &'static str = $path;
            const PARAMETERS: &'static [&'static str] = &[$($(stringify!($parameter)),+)?];
            const FUNCTION: &'static str = $function;
            const SUMMARY: &'static str = $summary.trim_ascii();
            const DESCRIPTION: &'static str = concat!($($description),*).trim_ascii();
            type Caller = $caller;
            type Input = $input;
            type Output = $output;
            const STATUSES: &'static [u16] = endpoint!(@statuses $($($status),+)?);
            const ERRORS: &'static [$crate::api::ErrorCode] = &[$($($crate::api::ErrorCode::$code),+)?];
            const IDEMPOTENCY_HEADER: Option<&'static str> = endpoint!(@header $($header)?);

            fn from_path(values: &[String]) -> Result<Self, $crate::api::endpoint::UnknownId> {
                let mut _parameters = 0_usize..;
                let mut _next = || _parameters.next().unwrap_or_default();
                let _ = values;
                Ok(Self {
                    $($($parameter: $crate::api::endpoint::path_parameter(values, _next())?),+)?
                })
            }

            #[cfg(feature = "openapi")]
            fn path_schemas() -> Vec<serde_json::Value> {
                vec![$($(<$kind as $crate::api::endpoint::PathParameter>::schema()),+)?]
            }
        }
    };
}
pub(crate) use endpoint;
