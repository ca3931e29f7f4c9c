//! What of a request the handlers are given.

use lambda_http::aws_lambda_events::query_map::QueryMap;
use lambda_http::http::header::CONTENT_TYPE;
use lambda_http::http::{HeaderMap, Method};
use lambda_http::request::RequestContext;
use lambda_http::{Body, Request, RequestExt};
use serde_json::Value;

use super::Error;
use crate::api::{Fields, Input};
use crate::domain::Address;

/// Body fields of a POST or PUT, query parameters of a GET.
pub(super) fn input<I: Input>(request: &Request, max_body: usize) -> Result<I, Error> {
    if request.method() == Method::GET {
        let query: QueryMap = request.query_string_parameters();
        return Ok(Fields::of_query(query.iter()).parse()?);
    }
    let body: &[u8] = match request.body() {
        Body::Empty => &[],
        Body::Text(text) => text.as_bytes(),
        Body::Binary(bytes) => bytes,
        // A kind of body that this version of the library does not know.
        _ => return Err(Error::MalformedJson),
    };
    if body.len() > max_body {
        return Err(Error::BodyTooLarge);
    }
    // Nothing sent is the same as nothing said: the fields that are needed are named.
    let body: Value = if body.iter().all(u8::is_ascii_whitespace) {
        Value::Object(serde_json::Map::new())
    } else if says_json(request.headers()) {
        // Nesting past 128 levels is refused by the parser, before it costs anything.
        serde_json::from_slice(body).map_err(|_| Error::MalformedJson)?
    } else {
        return Err(Error::UnsupportedMediaType);
    };
    Ok(Fields::of_body(&body).parse()?)
}

/// No content type at all is taken for JSON: some clients leave it out.
fn says_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return true };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
        || kind.to_ascii_lowercase().strip_prefix("application/").is_some_and(|rest| rest.ends_with("+json"))
}

/// Where the request came from, as API Gateway saw it. `None` where no limit applies.
pub(super) fn address(request: &Request) -> Option<Address> {
    match request.request_context_ref()? {
        RequestContext::ApiGatewayV2(context) => {
            Address::parse(context.http.source_ip.as_deref()?).ok().flatten()
        }
        _ => None,
    }
}

/// The id under which X-Ray follows the request.
pub(super) fn trace_id(request: &Request) -> String {
    let header = request.lambda_context_ref().and_then(|context| context.xray_trace_id.as_deref());
    let root = header.and_then(|header| header.split(';').find_map(|part| part.trim().strip_prefix("Root=")));
    root.unwrap_or_default().to_owned()
}

/// The id under which API Gateway knows the request.
pub(super) fn id(request: &Request) -> &str {
    match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => context.request_id.as_deref().unwrap_or_default(),
        _ => "",
    }
}
