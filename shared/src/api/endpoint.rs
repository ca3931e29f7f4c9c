//! The endpoint trait, the macro that declares endpoints, and their routes.

use lambda_http::http::Method;
use serde::Serialize;

use super::{Caller, ErrorCode, Input};

/// An endpoint: its route, the function that serves it, its caller, input and output, and its errors.
///
/// A value of the implementing type holds the parsed parameters of a request's path.
pub trait Endpoint: Sized + Send + Sync + 'static {
    const METHOD: Method;
    /// The path, where segments in braces are parameters.
    const PATH: &'static str;
    /// The names of this type's fields, in the order of the path's parameters.
    const PARAMETERS: &'static [&'static str];
    /// The name of the function that serves the endpoint. The function's folder under `functions/` and its
    /// binary have this name.
    const FUNCTION: &'static str;
    /// What the endpoint does, in a few words.
    const SUMMARY: &'static str;
    /// What a client must know beyond the summary.
    const DESCRIPTION: &'static str;

    type Caller: Caller;
    /// The body fields of a POST or PUT, or the query parameters of a GET.
    type Input: Input;
    /// The body of a successful response.
    type Output: Serialize + Send;

    /// The HTTP statuses of successful responses.
    const STATUSES: &'static [u16];
    /// The errors that are specific to this endpoint. [`Route::errors`] adds those that endpoints share.
    const ERRORS: &'static [ErrorCode];
    /// The header with the caller's idempotency key, if the endpoint reads one.
    const IDEMPOTENCY_HEADER: Option<&'static str>;

    /// The `Content-Type` of successful responses. A body that is not JSON is one text.
    const CONTENT_TYPE: &'static str;

    /// Whether successful responses have an `ETag`, so that a client can ask whether its copy is still valid.
    const HAS_ETAG: bool;

    /// For how many seconds any cache may use a successful response, if the response is the same for everybody.
    const PUBLIC_FOR: Option<u32>;

    /// Parses the parameters of the path.
    fn from_path(values: PathValues<'_>) -> Result<Self, UnknownId>;

    /// Returns the JSON Schemas of the path's parameters, in the order of the path.
    #[cfg(feature = "openapi")]
    fn path_schemas() -> Vec<serde_json::Value>;
}

/// The content type of JSON.
pub const JSON: &str = "application/json";

/// A type that a path parameter is parsed into.
pub trait PathParameter: Sized {
    const RESOURCE: Resource;

    /// Parses a parameter. Returns `None` if the text cannot be an id of the resource. The response is then
    /// the same 404 as for an unknown id.
    fn parse(text: &str) -> Option<Self>;

    /// Returns the JSON Schema of the parameter, with a description.
    #[cfg(feature = "openapi")]
    fn schema() -> serde_json::Value;
}

/// What a path parameter identifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    Event,
    Room,
    Session,
    User,
    InviteLink,
    Transaction,
}

/// A path parameter that cannot be an id of its resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a path parameter cannot be an id of the resource {0:?}")]
pub struct UnknownId(pub Resource);

/// The decoded values of a path's parameters, in the order of the path.
#[derive(Debug, Clone)]
pub struct PathValues<'a>(std::slice::Iter<'a, String>);

impl<'a> PathValues<'a> {
    #[must_use]
    pub fn new(values: &'a [String]) -> Self {
        Self(values.iter())
    }

    /// Parses the next parameter of the path.
    pub fn parse_next<T: PathParameter>(&mut self) -> Result<T, UnknownId> {
        self.0.next().and_then(|text| T::parse(text)).ok_or(UnknownId(T::RESOURCE))
    }
}

/// An endpoint as data: a row of [`super::ALL`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    pub method: Method,
    pub path: &'static str,
    /// The names of the fields of the endpoint's type, in the order of the path's parameters.
    pub parameters: &'static [&'static str],
    pub function: &'static str,
    pub summary: &'static str,
    pub description: &'static str,
    /// Whether the caller must send a user's token.
    pub needs_token: bool,
    pub statuses: &'static [u16],
    pub idempotency_header: Option<&'static str>,
    pub content_type: &'static str,
    /// Whether successful responses have an `ETag`.
    pub has_etag: bool,
    /// For how many seconds any cache may use a successful response. `None` if the response is private.
    pub public_for: Option<u32>,
    /// The names of the body fields or query parameters.
    pub fields: &'static [&'static str],
    caller_errors: &'static [ErrorCode],
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
            content_type: E::CONTENT_TYPE,
            has_etag: E::HAS_ETAG,
            public_for: E::PUBLIC_FOR,
            fields: E::Input::NAMES,
            caller_errors: E::Caller::ERRORS,
            own_errors: E::ERRORS,
        }
    }

    /// Returns whether requests to the endpoint can have a body.
    #[must_use]
    pub fn has_body(&self) -> bool {
        self.method != Method::GET
    }

    /// Lists every error code that the endpoint can respond with.
    pub fn errors(&self) -> impl Iterator<Item = ErrorCode> {
        use ErrorCode as E;
        let body: &[_] =
            if self.has_body() { &[E::MalformedJson, E::BodyTooLarge, E::UnsupportedMediaType] } else { &[] };
        // A body must be a JSON object even if the endpoint has no fields. Every endpoint with a body can
        // therefore respond with `validation_error`.
        let has_input = self.has_body() || !self.fields.is_empty() || self.idempotency_header.is_some();
        let input: &[_] = if has_input { &[E::ValidationError] } else { &[] };
        [self.caller_errors, body, input, self.own_errors, &[E::Busy, E::Internal]]
            .into_iter()
            .flatten()
            .copied()
    }
}

/// Replaces the parameter names in a path with numbers. Endpoints can name the same segment differently, but
/// the router allows only one name for a segment.
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

/// Lists the names of a path's parameters, in the order of the path.
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
///         status [201], errors [EventNotFound], idempotent by "Idempotency-Key", with etag, public for 30
/// }
/// ```
///
/// `{ parameter: Type }` lists the parameters in the order of the path. `status`, `errors`, `idempotent by`, `as`,
/// `with etag` and `public for` are optional. The default status of a successful response is 200. `as` gives the content
/// type, if it is not JSON. With `with etag`, successful responses have an `ETag`, and a client that has the same body gets
/// 304. With `public for`, any cache may use a successful response for so many seconds.
macro_rules! endpoint {
    (@statuses) => { &[200] };
    (@statuses $($status:literal),+) => { &[$($status),+] };
    (@header) => { None };
    (@header $header:literal) => { Some($header) };
    (@content) => { $crate::api::endpoint::JSON };
    (@content $content:literal) => { $content };
    (@etag) => { false };
    (@etag etag) => { true };
    (@public) => { None };
    (@public $seconds:literal) => { Some($seconds) };
    (
        #[doc = $summary:literal]
        $(#[doc = $description:literal])*
        $name:ident $({ $($parameter:ident: $kind:ty),+ })?:
        $method:ident $path:literal, in $function:literal, by $caller:ty, $input:ty => $output:ty
        $(, status [$($status:literal),+])?
        $(, errors [$($code:ident),+])?
        $(, idempotent by $header:literal)?
        $(, as $content:literal)?
        $(, with $etag:ident)?
        $(, public for $seconds:literal)?
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
            const CONTENT_TYPE: &'static str = endpoint!(@content $($content)?);
            const HAS_ETAG: bool = endpoint!(@etag $($etag)?);
            const PUBLIC_FOR: Option<u32> = endpoint!(@public $($seconds)?);

            #[allow(unused_mut, unused_variables, reason = "most paths have no parameters")]
            fn from_path(
                mut values: $crate::api::endpoint::PathValues<'_>,
            ) -> Result<Self, $crate::api::endpoint::UnknownId> {
                Ok(Self { $($($parameter: values.parse_next()?),+)? })
            }

            #[cfg(feature = "openapi")]
            fn path_schemas() -> Vec<serde_json::Value> {
                vec![$($(<$kind as $crate::api::endpoint::PathParameter>::schema()),+)?]
            }
        }
    };
}
pub(crate) use endpoint;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::chat::JoinRoom;
    use crate::api::{matches, meta};

    #[test]
    fn a_shape_has_numbers_instead_of_parameter_names() {
        assert_eq!(shape("/api/{room}/members/{userId}"), "/api/{1}/members/{2}");
        assert_eq!(parameter_names("/api/{room}/members/{userId}").collect::<Vec<_>>(), ["room", "userId"]);
    }

    #[test]
    fn a_malformed_id_in_a_path_is_an_error_with_the_kind_of_resource() {
        let values = ["9".to_owned()];
        assert_eq!(
            matches::OneEvent::from_path(PathValues::new(&values)).unwrap().event,
            matches::EventId(9)
        );
        assert_eq!(JoinRoom::from_path(PathValues::new(&values)).unwrap_err(), UnknownId(Resource::Room));
        assert!(meta::Health::from_path(PathValues::new(&[])).is_ok());
    }
}
