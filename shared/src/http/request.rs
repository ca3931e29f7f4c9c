//! Reads a request: its input, idempotency key, network address and ids.

use std::net::{IpAddr, SocketAddr};

use lambda_http::aws_lambda_events::query_map::QueryMap;
use lambda_http::http::header::CONTENT_TYPE;
use lambda_http::http::{HeaderMap, Method};
use lambda_http::request::RequestContext;
use lambda_http::{Body, Request, RequestExt};
use serde_json::Value;

use super::edge;
use crate::Error;
use crate::api::{Fields, Input, Invalid};
use crate::domain::Address;
use crate::domain::coins::ReferenceId;

/// Parses the input: the query parameters of a GET, or the body fields of other methods.
pub(super) fn input<I: Input>(request: &Request, max_body: usize) -> Result<I, Error> {
    if request.method() == Method::GET {
        let query: QueryMap = request.query_string_parameters();
        return Ok(Fields::of_query(query.iter()).parse()?);
    }
    let body: &[u8] = match request.body() {
        Body::Empty => &[],
        Body::Text(text) => text.as_bytes(),
        Body::Binary(bytes) => bytes,
        // `Body` is a non-exhaustive enum, so the compiler requires this arm.
        _ => return Err(Error::MalformedJson),
    };
    if body.len() > max_body {
        return Err(Error::BodyTooLarge { limit: max_body });
    }
    // A body that is empty or only white space counts as an empty object, so that a 422 lists the required
    // fields. White space in JSON is space, tab, line feed and carriage return.
    let body: Value = if body.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
        Value::Object(serde_json::Map::new())
    } else if is_json(request.headers()) {
        // The parser rejects more than 128 levels of nesting.
        serde_json::from_slice(body).map_err(|_| Error::MalformedJson)?
    } else {
        return Err(Error::UnsupportedMediaType);
    };
    Ok(Fields::of_body(&body).parse()?)
}

/// Returns whether the content type is JSON. A missing `Content-Type` counts as JSON, because some clients
/// omit the header.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return true };
    let kind = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    kind.eq_ignore_ascii_case("application/json")
        || kind.to_ascii_lowercase().strip_prefix("application/").is_some_and(|rest| rest.ends_with("+json"))
}

/// Reads the idempotency key from `header`. A value that is not visible ASCII is rejected like an empty
/// value.
pub(super) fn idempotency_key(headers: &HeaderMap, header: &str) -> Result<Option<ReferenceId>, Error> {
    let Some(value) = headers.get(header) else { return Ok(None) };
    let key = ReferenceId::parse(value.to_str().unwrap_or_default());
    Ok(Some(key.map_err(|reason| Invalid::field(header, reason))?))
}

/// Returns the JSON Schema of an idempotency key in a header. The key has no spaces at its ends, because HTTP
/// strips them.
#[cfg(feature = "openapi")]
#[must_use]
pub fn idempotency_key_schema() -> Value {
    serde_json::json!({
        "type": "string", "pattern": "^[!-~]([ -~]{0,62}[!-~])?$", "examples": ["5f0c2c1e"],
        "description": "The caller's idempotency key. A retry with the same key gets the first result, with \
                        `Idempotency-Replayed: true`.",
    })
}

/// Returns the network that the request came from. Returns `None` if the network is unknown or has no rate limit.
///
/// API Gateway reports the address of its peer. Behind CloudFront that is CloudFront, which reports the client.
pub(super) fn address(request: &Request) -> Option<Address> {
    Address::of(edge::viewer_address(request).or_else(|| peer_address(request))?)
}

/// Returns the address that connected to API Gateway.
fn peer_address(request: &Request) -> Option<IpAddr> {
    match request.request_context_ref()? {
        RequestContext::ApiGatewayV2(context) => {
            let source = context.http.source_ip.as_deref()?;
            // With mutual TLS, API Gateway adds the port.
            source.parse().or_else(|_| source.parse().map(|socket: SocketAddr| socket.ip())).ok()
        }
        _ => None,
    }
}

/// Returns the id of the X-Ray trace, or an empty text if there is no trace.
pub(super) fn trace_id(request: &Request) -> String {
    let header = request.lambda_context_ref().and_then(|context| context.xray_trace_id.as_deref());
    let root = header.and_then(|header| header.split(';').find_map(|part| part.trim().strip_prefix("Root=")));
    root.unwrap_or_default().to_owned()
}

/// Returns the id that API Gateway gave the request, or an empty text if it gave none.
pub(super) fn id(request: &Request) -> &str {
    match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => context.request_id.as_deref().unwrap_or_default(),
        _ => "",
    }
}

#[cfg(all(test, feature = "openapi"))]
mod tests {
    use lambda_http::http::HeaderValue;
    use proptest::prelude::*;
    use regex::Regex;

    use super::*;

    proptest! {
        #[test]
        fn the_idempotency_key_schema_and_parser_accept_the_same_values(
            value in "([ -~]{0,3}|[!-~]{61,64})[ -~\u{80}-\u{ff}\t]{0,2}",
        ) {
            let schema = idempotency_key_schema();
            let pattern = Regex::new(schema["pattern"].as_str().unwrap()).unwrap();
            // HTTP strips white space at both ends of a header's value.
            let value = value.trim_matches([' ', '\t']);
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_str(value).unwrap())]);
            let is_valid = idempotency_key(&headers, CONTENT_TYPE.as_str()).is_ok();
            prop_assert_eq!(is_valid, pattern.is_match(value), "{:?}", value);
        }
    }
}
